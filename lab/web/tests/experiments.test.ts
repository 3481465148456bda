import { describe, expect, test } from "vitest";
import { type Sharpness, type Slope, TEMPERATURES, WIDTHS, softness, temperature, variance } from "../src/maths/experiments.ts";
import { random } from "../src/maths/random.ts";
import { expectClose, golden } from "./golden.ts";

const { n_draws, seed, ...wanted } = golden("experiments");

const sharpness = ({ largest, entropy, saturated }: Sharpness): Sharpness => ({ largest, entropy, saturated });
const slopes = ({ top, top_median, jacobian, query, query_median }: Slope): Slope => ({ top, top_median, jacobian, query, query_median });

describe("random numbers are those of NumPy", () => {
  // numpy.random.default_rng(seed).standard_normal(…)
  test.each([
    [[0], [0.12573022, -0.13210486, 0.64042265, 0.10490012, -0.53566937]],
    [[0, 64, 10], [-0.23819531, 0.65771878, 0.70765465, -2.76429477, 1.03391763]],
    [[1, 2, 3, 4, 5, 6], [1.61731681, 0.79717574, 1.87578998, 0.73630227, 1.98099553]],
  ])("of seed %j", (seed, numbers) => expectClose([...random(seed)(5)], numbers, 1e-8));

  test("a million of them, tails and all", () => {
    const numbers = random([0])(1_000_000);
    expectClose(numbers.reduce((sum, each) => sum + each, 0), 998.5706494386213, 1e-10);
    expect(numbers.filter((each) => Math.abs(each) > 3.654152885361009).length).toBeGreaterThan(200);
  });

  test("in portions they are the same numbers", () => {
    const next = random([7]);
    expect([...next(3), ...next(4)]).toEqual([...random([7])(7)]);
  });
});

describe("experiments give the numbers of Python, draw by draw", () => {
  test.each(WIDTHS.map((d_k, at) => ({ d_k, at })))("raw and scaled at d_k = $d_k", ({ d_k, at }) => {
    const { raw, scaled } = softness(d_k, 10, n_draws, seed);
    const [saturation, gradient] = [wanted.saturation[at], wanted.gradient[at]];
    expectClose([sharpness(raw), sharpness(scaled)], [saturation.raw, saturation.scaled], 1e-9);
    expectClose([slopes(raw), slopes(scaled)], [gradient.raw, gradient.scaled], 1e-9);
  });

  test("footnote 4", () => {
    expectClose(WIDTHS.map((d_k) => variance(d_k, n_draws, seed)), wanted.variance, 1e-9);
  });

  test("temperatures", () => {
    const found = temperature(TEMPERATURES, 64, 10, n_draws, seed);
    expectClose(found.map((each) => ({ ...each, d_k: 64, n_keys: 10 })), wanted.temperature, 1e-9);
  });
});

describe("and they find what is known", () => {
  const near = (found: { value: number; standard_error: number }, value: number) =>
    expect(Math.abs(found.value - value)).toBeLessThan(4 * found.standard_error);

  test("raw scores harden with the width: largest weight 0.49, 0.86, 0.97; scaled ones stay at 0.32 and 1.93 nats", () => {
    const at = Object.fromEntries([4, 64, 1024].map((d_k) => [d_k, softness(d_k, 10, 1000, 1)]));
    near(at[4].raw.largest, 0.49);
    near(at[64].raw.largest, 0.86);
    near(at[1024].raw.largest, 0.97);
    for (const { scaled } of Object.values(at)) {
      near(scaled.largest, 0.32);
      near(scaled.entropy, 1.93);
    }
  });

  test("the variance of a score is d_k, and 1 after the scale", () => {
    const { product, product_mean, raw, scaled } = variance(256, 2000, 1);
    near(product_mean, 0);
    near(product, 1);
    near(raw, 256);
    near(scaled, 1);
  });

  test("one key has all the weight and no slope", () => {
    const { raw } = softness(16, 1, 10, 0);
    expect([raw.largest.value, raw.entropy.value, raw.top.value]).toEqual([1, 0, 0]);
  });
});
