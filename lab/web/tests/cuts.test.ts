import { describe, expect, test } from "vitest";
import { N_HEADS, cuts, mapOf } from "../src/maths/cuts.ts";
import { TOKENS, dots, map } from "../src/maths/toy.ts";
import { expectClose } from "./golden.ts";

describe("ways to cut a width into heads", () => {
  test("the right one gives the heads of the toy layer", () => expectClose(mapOf(cuts.right), map(N_HEADS)));

  test.each(["poured", "dealt", "sliced"] as const)("%s gives the right shape, rows that sum to 1, and other heads", (name) => {
    const maps = mapOf(cuts[name]);
    expect(maps.map((head) => head.map((row) => row.length))).toEqual(Array(N_HEADS).fill(Array(TOKENS.length).fill(TOKENS.length)));
    for (const row of maps.flat()) expectClose(row.reduce((sum, each) => sum + each, 0), 1);
    expect(() => expectClose(maps, map(N_HEADS), 0.01)).toThrow();
  });

  test("with the input cut first, three rows are lost: it in the head of references, sat and on in that of predicates", () => {
    const [right, sliced] = [mapOf(cuts.right), mapOf(cuts.sliced)];
    const lost = sliced.flatMap((head, h) => head.flatMap((row, i) => (row.some((w, j) => Math.abs(w - right[h][i][j]) > 1e-9) ? [`${h} ${TOKENS[i]}`] : [])));
    expect(lost).toEqual(["1 it", "2 sat", "2 on"]);
  });

  test("poured, head 0 holds two tokens in pieces", () => {
    expect([0, 3, 4, 7].map((i) => cuts.poured.holds(0, i))).toEqual([
      "channels 0 to 3 of “the”", "channels 12 to 15 of “the”", "channels 0 to 3 of “cat”", "channels 12 to 15 of “cat”",
    ]);
  });
});

test("the full score is √h times the average of the slices' scores", () => {
  const [[full]] = [dots(1)];
  for (const h of [2, 4, 8]) {
    const scores = dots(h).map((head) => head.map((row) => row.map((each) => each / Math.sqrt(16 / h))));
    const average = full.map((row, i) => row.map((_, j) => scores.reduce((sum, head) => sum + head[i][j], 0) / h));
    expectClose(average.map((row) => row.map((each) => Math.sqrt(h) * each)), full.map((row) => row.map((each) => each / 4)));
  }
});
