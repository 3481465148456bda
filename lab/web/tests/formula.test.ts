import { describe, expect, test } from "vitest";
import { jacobian_norm, slope } from "../src/maths/experiments.ts";
import * as formula from "../src/maths/formula.ts";
import { random } from "../src/maths/random.ts";
import { expectClose, golden } from "./golden.ts";

const { cases: rows } = golden("softmax");
const { cases: heads } = golden("attention");
const layers = golden("heads");

const normal = (seed: number, n: number, d: number) => {
  const next = random([seed]);
  return Array.from({ length: n }, () => [...next(d)]);
};
const weights = (score: formula.Matrix) => score.map(formula.weight);
const attention = (q: formula.Matrix, k: formula.Matrix, v: formula.Matrix, options?: formula.Options) => formula.average(formula.head_map(q, k, options), v);

describe("a row of scores gives what Python gives", () => {
  // The lab has no sinks.
  test.each(rows.filter((row: any) => row.sink === null) as any[])("$name", (row: any) => {
    const weight = formula.weight(row.score);
    expectClose(weight, row.weight);
    expectClose(formula.lse(row.score), row.lse);
    expectClose(formula.entropy(weight), row.entropy);
    expectClose(weight.map(slope), row.slope);
    expectClose(jacobian_norm(weight), row.jacobian_norm);
  });
});

describe("every stage of a head gives what Python gives", () => {
  // The lab bends no score and adds no bias.
  test.each(heads.filter(({ softcap, bias }: any) => softcap === null && bias === null) as any[])("$name", ({ q, k, v, ...wanted }: any) => {
    const options: formula.Options = { scale: wanted.scale ?? undefined, temperature: wanted.temperature, visible: wanted.visible ?? undefined };
    const biased = formula.biased_score(q, k, options);
    expectClose(formula.dot_score(q, k), wanted.dot);
    expectClose(biased, wanted.biased);
    expectClose(formula.head_map(q, k, options), wanted.weight, 4e-12);
    expectClose(biased.map(formula.lse), wanted.lse);
    expectClose(weights(biased).map(formula.entropy), wanted.entropy, 4e-12);
    expectClose(attention(q, k, v, options), wanted.output, 4e-12);
  });

  test("the masks of a decoder", () => {
    const masks = heads.filter((each: any) => each.name.startsWith("causal") && !each.name.includes("beside"));
    for (const { q, k, visible } of masks) expect(formula.causal(q.length, k.length)).toEqual(visible);
  });
});

describe("many heads give what Python gives", () => {
  test.each(layers.layers as any[])("a layer of $n_heads heads", ({ x, memory, w_q, w_k, n_heads, weight }: any) => {
    const source = memory ?? x;
    const [q, k] = [formula.product(x, w_q), formula.product(source, w_k)].map((each) => formula.split(each, n_heads));
    expectClose(q.map((head, h) => formula.head_map(head, k[h])), weight);
  });

  test("splitting", () => {
    const { x, n_heads, heads: parts } = layers.split;
    expectClose(formula.split(x, n_heads), parts);
    expect(() => formula.split(x, 4)).toThrow("does not cut into equal heads");
  });

  test("the lesson's projections and counts", () => {
    const { x, w_q, w_k, w_v, q, k, v } = layers.lesson;
    expectClose(formula.project_qkv(x, w_q, w_k, w_v), [q, k, v]);
    for (const { arguments: sizes, param_count } of layers.shapes) {
      const [, d_model, d_k, d_v] = sizes;
      expectClose(formula.param_count(d_model, d_k, d_v), param_count);
    }
  });
});

describe("laws", () => {
  const [q, k, v] = [normal(1, 5, 4), normal(2, 7, 4), normal(3, 7, 3)];
  const score = formula.score(q, k);

  test("every row of weights sums to one", () => {
    for (const row of weights(score)) expectClose(formula.sum(row), 1);
  });

  test("a number added to every score of a row changes no weight, and its lse by that number", () => {
    for (const shift of [-1000, -3, 0.5, 1000]) {
      const moved = score.map((row) => row.map((each) => each + shift));
      expectClose(weights(moved), weights(score));
      expectClose(moved.map((row) => formula.lse(row) - shift), score.map(formula.lse));
    }
  });

  test("a row that sees nothing weighs nothing, and its output is zeros", () => {
    const visible = score.map((row, i) => row.map(() => i !== 2));
    expect(weights(formula.hide(score, visible))[2]).toEqual(Array(7).fill(0));
    expect(formula.lse(formula.hide(score, visible)[2])).toBe(Number.NEGATIVE_INFINITY);
    expect(attention(q, k, v, { visible })[2]).toEqual([0, 0, 0]);
  });

  test("scores of a thousand neither overflow nor vanish", () => {
    expectClose(formula.weight([1000, 1000, -1000]), [0.5, 0.5, 0]);
    expectClose(formula.weight([-1000, -1000 - Math.log(3)]), [0.75, 0.25]);
    expectClose(formula.lse([-1000, -1000]), -1000 + Math.log(2));
  });

  test("keys in another order, with their values, give the same output; queries in another order its rows in that order", () => {
    const order = [3, 0, 6, 2, 5, 1, 4];
    const whole = attention(q, k, v);
    expectClose(attention(q, order.map((j) => k[j]), order.map((j) => v[j])), whole);
    const rows = [4, 2, 0, 1, 3];
    expectClose(attention(rows.map((i) => q[i]), k, v), rows.map((i) => whole[i]));
  });

  test("the q·k of the slices sum to the full q·k", () => {
    const [wide, keys] = [normal(4, 3, 12), normal(5, 4, 12)];
    for (const n_heads of [1, 2, 3, 4, 6]) {
      const [a, b] = [formula.split(wide, n_heads), formula.split(keys, n_heads)];
      const total = formula.dot_score(wide, keys).map((row, i) => row.map((_, j) => a.reduce((sum, head, h) => sum + formula.dot(head[i], b[h][j]), 0)));
      expectClose(total, formula.dot_score(wide, keys));
    }
  });

  test("a temperature near zero picks the loudest key, a large one asks all alike", () => {
    expectClose(formula.weight([1, 3, 2].map((each) => each / 0.01)), [0, 1, 0]);
    expectClose(formula.weight([1, 3, 2].map((each) => each / 1e9)), [1 / 3, 1 / 3, 1 / 3], 1e-8);
  });
});
