/** The experiments of qkv.experiments on why the score is divided by √d_k. They draw the random numbers that NumPy draws,
 * in the same order, so that a seed gives the same numbers here and there. */
import { type Vector, dot, entropy, sum, weight } from "./formula.ts";
import { random } from "./random.ts";

export const WIDTHS = [4, 8, 16, 32, 64, 128, 256, 512, 1024];
export const TEMPERATURES = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100];
const HARD = 0.99; // a largest weight above this counts as saturated
const AT_ONCE = 2 ** 21; // random numbers drawn at once; NumPy's order depends on it

/** A number measured on n independent draws, and how far it is likely off. */
export interface Estimate {
  value: number;
  standard_error: number;
  n: number;
}

/** How decided the rows are: mean largest weight, mean entropy in nats, share of rows with a weight above 0.99. */
export interface Sharpness {
  largest: Estimate;
  entropy: Estimate;
  saturated: Estimate;
}

/** What a softmax lets through: p(1 − p) at the largest weight, mean and median; ‖∂weight/∂score‖; ‖∂weight/∂q‖. */
export interface Slope {
  top: Estimate;
  top_median: Estimate;
  jacobian: Estimate;
  query: Estimate;
  query_median: Estimate;
}

/** The softmax over n_keys keys at one width, of raw scores and of scores / √d_k: saturation and gradient in one. */
export interface Softness {
  d_k: number;
  n_keys: number;
  raw: Sharpness & Slope;
  scaled: Sharpness & Slope;
}

/** Footnote 4 line by line: the mean and variance of one product, the variance of a raw and of a scaled score. */
export interface Variance {
  d_k: number;
  product_mean: Estimate;
  product: Estimate;
  raw: Estimate;
  scaled: Estimate;
}

/** The softmax of scores / (√d_k · temperature). top: p(1 − p) at the largest weight. */
export interface Temperature {
  temperature: number;
  sharpness: Sharpness;
  top: Estimate;
}

// ---- estimates ---------------------------------------------------------------------------------------------

function mean(draws: Vector): Estimate {
  const n = draws.length;
  const value = sum(draws) / n;
  const deviation = Math.sqrt(sum(draws.map((each) => (each - value) ** 2)) / (n - 1));
  return { value, standard_error: deviation / Math.sqrt(n), n };
}

/** Its standard error is half the distance of the order statistics √n / 2 places to either side. */
function median(draws: Vector): Estimate {
  const n = draws.length;
  const ordered = Float64Array.from(draws).sort();
  const reach = Math.sqrt(n) / 2;
  const low = Math.max(0, Math.floor((n - 1) / 2 - reach));
  const high = Math.min(n - 1, Math.ceil((n - 1) / 2 + reach));
  const value = (ordered[Math.floor((n - 1) / 2)] + ordered[Math.ceil((n - 1) / 2)]) / 2;
  return { value, standard_error: (ordered[high] - ordered[low]) / 2, n };
}

// ---- what a softmax lets through ---------------------------------------------------------------------------

/** p(1 − p), the derivative of a weight by its own score: at most 1/4. */
export const slope = (weight: number): number => weight * (1 - weight);

/** Frobenius norm of ∂weight/∂score = diag(p) − p pᵀ for a row of weights. */
export function jacobian_norm(weight: Vector): number {
  // In terms of what the largest weight p leaves over: 1 − p would lose what the norm consists of.
  const rest = [...weight].sort((a, b) => a - b);
  const p = rest.pop() ?? 0;
  const squares = sum(rest.map((each) => each ** 2));
  const fourths = sum(rest.map((each) => each ** 4));
  const inRest = sum(rest.map((each) => slope(each) ** 2)) + Math.max(squares ** 2 - fourths, 0);
  return Math.sqrt((p * sum(rest)) ** 2 + 2 * p ** 2 * squares + inRest);
}

// ---- the experiments ---------------------------------------------------------------------------------------

/** A query and its keys, one draw of the experiment. */
type See = (q: Float64Array, keys: Float64Array[]) => void;

function draw(d_k: number, n_keys: number, n_draws: number, seed: number, see: See): void {
  const normal = random([seed, d_k, n_keys]);
  const some = Math.max(1, Math.floor(AT_ONCE / (d_k * (n_keys + 1))));
  for (let start = 0; start < n_draws; start += some) {
    const rows = Math.min(some, n_draws - start);
    const q = normal(rows * d_k);
    const k = normal(rows * n_keys * d_k);
    for (let row = 0; row < rows; row++) {
      const at = (j: number) => (row * n_keys + j) * d_k;
      const keys = Array.from({ length: n_keys }, (_, j) => k.subarray(at(j), at(j + 1)));
      see(q.subarray(row * d_k, (row + 1) * d_k), keys);
    }
  }
}

/** Random queries over random keys at one width: `saturation` and `gradient` of the library, from the same draws. */
export function softness(d_k: number, n_keys = 10, n_draws = 2000, seed = 0): Softness {
  const scales = [1, 1 / Math.sqrt(d_k)];
  const rows: [Row[], Row[]] = [[], []];
  draw(d_k, n_keys, n_draws, seed, (q, keys) => {
    const raw = keys.map((key) => dot(q, key));
    scales.forEach((scale, at) => rows[at].push(row(weight(raw.map((each) => scale * each)), keys, scale)));
  });
  return { d_k, n_keys, raw: summary(rows[0]), scaled: summary(rows[1]) };
}

interface Row {
  largest: number;
  entropy: number;
  jacobian: number;
  query: number;
}

const row = (weight: Vector, keys: Float64Array[], scale: number): Row => ({
  largest: Math.max(...weight),
  entropy: entropy(weight),
  jacobian: jacobian_norm(weight),
  query: scale * reach(weight, keys),
});

/** Norm of weight_j (k_j − the average key), which is ∂weight/∂q but for the scale. */
function reach(weight: Vector, keys: Float64Array[]): number {
  let total = 0;
  for (let c = 0; c < keys[0].length; c++) {
    let average = 0;
    for (let j = 0; j < weight.length; j++) average += weight[j] * keys[j][c];
    for (let j = 0; j < weight.length; j++) total += (weight[j] * (keys[j][c] - average)) ** 2;
  }
  return Math.sqrt(total);
}

const sharpness = (largest: Vector, entropies: Vector): Sharpness => ({
  largest: mean(largest),
  entropy: mean(entropies),
  saturated: mean(largest.map((each) => (each > HARD ? 1 : 0))),
});

function summary(rows: Row[]): Sharpness & Slope {
  const largest = rows.map((each) => each.largest);
  const [top, query] = [largest.map(slope), rows.map((each) => each.query)];
  return {
    ...sharpness(largest, rows.map((each) => each.entropy)),
    top: mean(top),
    top_median: median(top),
    jacobian: mean(rows.map((each) => each.jacobian)),
    query: mean(query),
    query_median: median(query),
  };
}

/** The argument of footnote 4 in numbers at one width. */
export function variance(d_k: number, n_draws = 2000, seed = 0): Variance {
  const [first, raw]: [Vector, Vector] = [[], []];
  draw(d_k, 1, n_draws, seed, (q, [key]) => {
    first.push(q[0] * key[0]);
    raw.push(dot(q, key) ** 2); // the mean is known to be 0
  });
  return {
    d_k,
    product_mean: mean(first),
    product: mean(first.map((each) => each ** 2)),
    raw: mean(raw),
    scaled: mean(raw.map((each) => each / d_k)),
  };
}

/** The same rows at each temperature: towards 0 the loudest key has all, towards ∞ each has 1 / n_keys. */
export function temperature(temperatures: number[], d_k = 64, n_keys = 10, n_draws = 2000, seed = 0): Temperature[] {
  const scores: Vector[] = [];
  draw(d_k, n_keys, n_draws, seed, (q, keys) => scores.push(keys.map((key) => dot(q, key) / Math.sqrt(d_k))));
  return temperatures.map((each) => {
    const rows = scores.map((score) => weight(score.map((one) => one / each)));
    const largest = rows.map((row) => Math.max(...row));
    return { temperature: each, sharpness: sharpness(largest, rows.map(entropy)), top: mean(largest.map(slope)) };
  });
}
