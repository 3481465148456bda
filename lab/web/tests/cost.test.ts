import { describe, expect, test } from "vitest";
import { cost, flips, kinds, layer } from "../src/maths/cost.ts";
import { expectClose, golden } from "./golden.ts";

const wanted = golden("cost");

describe("costs are those of Python", () => {
  test.each(wanted.layers as any[])("$n_heads heads of $d_model over $n tokens, causal: $causal", (each: any) => {
    const sizes = layer(each.d_model, each.n_heads);
    const found = cost(sizes, each.n, each.causal);
    expect(sizes.parameters).toBe(each.parameters);
    expectClose(found, Object.fromEntries(Object.keys(found).map((name) => [name, each[name]])), 0);
  });

  test.each(wanted.kinds as any[])("kinds of layers at n = $n, d = $d", ({ n, d, k, kinds: rows }: any) => {
    expect(kinds(n, d, k)).toEqual(rows);
  });

  test.each(wanted.flips as any[])("where the order flips at d = $d", ({ d, flips: rows }: any) => {
    expect(flips(d)).toEqual(rows);
  });
});

describe("laws", () => {
  test("parameters are 4·d_model² for any number of heads", () => {
    for (const n_heads of [1, 2, 4, 8, 16, 32]) expect(layer(512, n_heads).parameters).toBe(1_048_576);
  });

  test("at the length where the order flips, both kinds cost the same", () => {
    for (const { n, below, above } of flips(512, 5)) {
      const at = Object.fromEntries(kinds(n, 512, 5).map((each) => [each.name, each.multiply_adds]));
      expect(at[below]).toBe(at[above]);
    }
  });

  test("projections and pairs cost the same at n = 2·d", () => {
    const found = cost(layer(64, 4), 128);
    expect(found.scores + found.average).toBe(found.projections);
  });

  test("a restricted layer that sees everything is self-attention", () => {
    const [self, , , restricted] = kinds(100, 32, 3, 100);
    expect(restricted.multiply_adds).toBe(self.multiply_adds);
    expect(restricted.path).toBe(1);
  });
});
