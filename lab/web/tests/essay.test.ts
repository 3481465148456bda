import { afterEach, describe, expect, it, vi } from "vitest";
import { computed, headOf, type Recorded } from "../src/maps.ts";
import { HEIGHT, picture, WIDTH } from "../src/maths/picture.ts";
import { matrixOf, readMatrix, writeMatrix } from "../src/state/matrix.ts";

describe("a matrix in the address", () => {
  it("is read as it was written", () => {
    const matrix = [[1, -0.5], [0, 2.25]];
    expect(readMatrix(writeMatrix(matrix))).toEqual(matrix);
  });

  it.each(["1,2", "1,2;3", "1,2;3,4;5,6", "1,2;3,x", "1,2;3,6", "1,2;3,NaN", "", "1,2;3,-Infinity"])("is refused where it has another shape, or numbers that are none or too large: %s", (text) => {
    expect(matrixOf(2, 2)("1,2;3,4")).toBe(true);
    expect(matrixOf(2, 2)(text)).toBe(false);
  });
});

describe("the picture", () => {
  it("has two suns of one colour far apart, and noise within its bound", () => {
    const [clean, noisy] = [picture(0), picture(0.25)];
    expect(clean).toHaveLength(HEIGHT * WIDTH);
    expect(clean[4 * WIDTH + 5]).toEqual(clean[5 * WIDTH + 18]);
    expect(clean[0]).not.toEqual(clean[4 * WIDTH + 5]);
    const off = noisy.flatMap((pixel, at) => pixel.map((each, c) => Math.abs(each - clean[at][c])));
    expect(Math.max(...off)).toBeLessThanOrEqual(0.25);
    expect(Math.max(...off)).toBeGreaterThan(0.2);
    expect(noisy.flat().every((each) => Math.abs(each) <= 1)).toBe(true);
  });
});

describe("maps of trained heads", () => {
  afterEach(() => vi.unstubAllGlobals());
  const answers = (status: number, body: unknown, type = "application/json") =>
    vi.stubGlobal("fetch", async () => new Response(typeof body === "string" ? body : JSON.stringify(body), { status, headers: { "Content-Type": type } }));

  it("finds a head of a recorded text by its layer and place", () => {
    const heads = [[0, 0], [0, 1], [1, 0]].map(([layer, head]) => ({ layer, head, pattern: null, weight: [[layer + 10 * head]], value_weighted: [[1]] }));
    const text = { model: "m", title: "M", causal: true, n_layers: 2, n_heads: 2, text: "a", tokens: ["a"], heads } satisfies Recorded;
    expect(headOf(text, 0, 1)).toMatchObject({ model: "m", layer: 0, head: 1, weight: [[10]] });
    expect(headOf(text, 1, 1)).toBeUndefined();
  });

  it("says what the program said against a text", async () => {
    answers(400, { error: "text may hold a-z" });
    await expect(computed("induction", 0, 0, "ä")).rejects.toThrow("text may hold a-z");
  });

  it.each([404, 405, 501])("says that no program answers, where a plain file server says %i", async (status) => {
    answers(status, "<h1>no</h1>", "text/html");
    await expect(computed("induction", 0, 0, "abc")).rejects.toThrow("Start qkv lab");
  });
});
