import { describe, expect, test } from "vitest";
import { average, split } from "../src/maths/formula.ts";
import * as toy from "../src/maths/toy.ts";
import { expectClose, golden } from "./golden.ts";

const wanted = golden("toy");

describe("the layer of eight tokens is the one of Python", () => {
  test("its tokens, features and questions", () => {
    expect({ tokens: toy.TOKENS, features: toy.FEATURES, slices: toy.SLICES, questions: toy.QUESTIONS }).toEqual({
      tokens: wanted.tokens, features: wanted.features, slices: wanted.slices, questions: wanted.questions,
    });
    expect(toy.HEADS).toEqual(wanted.heads.map((each: any) => each.n_heads));
  });

  test("its numbers", () => {
    expectClose(toy.x, wanted.x);
    for (const name of ["w_q", "w_k"] as const) expectClose(toy[name], wanted[name], 0, name);
  });

  test.each(wanted.heads as any[])("$n_heads heads", ({ n_heads, names, dot, weights, output }: any) => {
    expect(toy.names(n_heads)).toEqual(names);
    expectClose(toy.dots(n_heads), dot);
    for (const [temperature, each] of Object.entries(weights)) expectClose(toy.map(n_heads, Number(temperature)), each);
    // W_O is the identity: it leaves the outputs of the heads side by side.
    const values = split(toy.v, n_heads);
    const outputs = toy.map(n_heads).map((weight, h) => average(weight, values[h]));
    expectClose(toy.TOKENS.map((_, i) => outputs.flatMap((head) => head[i])), output);
  });

  test("it finds the cat, and the cat does not look back", () => {
    const [it, cat] = [7, 1];
    const reference = toy.map(4)[toy.SLICES.indexOf("reference")];
    expect(reference[it].indexOf(Math.max(...reference[it]))).toBe(cat);
    expect(reference[cat][it]).toBeLessThan(0.2);
  });
});
