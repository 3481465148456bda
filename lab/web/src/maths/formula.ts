/** Attention as qkv.formula says it, on plain arrays: the names there, the steps there, held to its golden values.
 *
 * A matrix is an array of rows, and heads are an array of matrices. Every number is a float64, as in NumPy. Sources stand
 * in qkv.formula. */

export type Vector = number[];
export type Matrix = number[][];
export type Visible = boolean[][];

const HIDDEN = Number.NEGATIVE_INFINITY;

export function dot(a: Vector, b: Vector): number {
  let sum = 0;
  for (let c = 0; c < a.length; c++) sum += a[c] * b[c];
  return sum;
}

export const transpose = (m: Matrix): Matrix => (m.length ? m[0].map((_, j) => m.map((row) => row[j])) : []);

/** (n, d) @ (d, c) -> (n, c). */
export function product(a: Matrix, b: Matrix): Matrix {
  const columns = transpose(b);
  return a.map((row) => columns.map((column) => dot(row, column)));
}

// ---- score: the first line, the only one in which the families differ --------------------------------------

/** Every query dotted with every key: q (n_q, d_k), k (n_k, d_k) -> (n_q, n_k). */
export const dot_score = (q: Matrix, k: Matrix): Matrix => q.map((row) => k.map((key) => dot(row, key)));

/** The scaled dot product, in nats; `scale` is 1/√d_k unless given. q (n_q, d_k), k (n_k, d_k) -> (n_q, n_k). */
export function score(q: Matrix, k: Matrix, scale = 1 / Math.sqrt(Math.max(q[0]?.length ?? 1, 1))): Matrix {
  return dot_score(q, k).map((row) => row.map((each) => scale * each));
}

/** A learned dot product, q W kᵀ: q (n_q, d_q), k (n_k, d_k), w (d_q, d_k) -> (n_q, n_k). */
export const bilinear_score = (q: Matrix, k: Matrix, w: Matrix): Matrix => dot_score(product(q, w), k);

/** One hidden layer over each pair, tanh(q W_q + k W_k + b) · v: w_q (d_q, h), w_k (d_k, h), v (h), b (h) -> (n_q, n_k). */
export function additive_score(q: Matrix, k: Matrix, w_q: Matrix, w_k: Matrix, v: Vector, b = v.map(() => 0)): Matrix {
  const [asked, answered] = [product(q, w_q), product(k, w_k)];
  return asked.map((row) => answered.map((key) => dot(row.map((each, c) => Math.tanh(each + key[c] + b[c])), v)));
}

// ---- between score and softmax: bend, prefer, hide ---------------------------------------------------------

/** The scores bent smoothly into ±softcap: (n_q, n_k) -> (n_q, n_k). */
export const cap = (score: Matrix, softcap: number): Matrix => score.map((row) => row.map((each) => softcap * Math.tanh(each / softcap)));

/** Score plus bias, both (n_q, n_k). −∞ hides; a finite bias, however low, does not. */
export const add_bias = (score: Matrix, bias: Matrix): Matrix =>
  score.map((row, i) => row.map((each, j) => (bias[i][j] === HIDDEN ? HIDDEN : each + bias[i][j])));

/** −∞ wherever a query may not look: (n_q, n_k) -> (n_q, n_k). */
export const hide = (score: Matrix, visible: Visible): Matrix => score.map((row, i) => row.map((each, j) => (visible[i][j] ? each : HIDDEN)));

/** Who sees whom when no query may look past its own place: the last query sees the last key. */
export const causal = (n_q: number, n_k: number, offset = n_k - n_q): Visible =>
  Array.from({ length: n_q }, (_, i) => Array.from({ length: n_k }, (_, j) => j <= i + offset));

// ---- softmax: the second line ------------------------------------------------------------------------------

/** exp(score − the largest) of a row, and their sum with the sink's. */
function exponentials(score: Vector, sink: number): { terms: Vector; most: number; total: number } {
  const most = Math.max(sink, ...score);
  const terms = score.map((each) => Math.exp(each - most));
  return { terms, most, total: terms.reduce((sum, each) => sum + each, Math.exp(sink - most)) };
}

/** Softmax of a row of scores. A sink is one more score in the sum, without a value; a row that sees nothing is zeros. */
export function weight(score: Vector, sink = HIDDEN): Vector {
  // Not exp(score − lse): at large scores the rounding of lse alone would cost digits.
  const { terms, total } = exponentials(score, sink);
  return score.map((each, j) => (each === HIDDEN ? 0 : terms[j] / total));
}

/** log Σ exp(score) of a row and its sink, in nats; −∞ where nothing is visible. */
export function lse(score: Vector, sink = HIDDEN): number {
  const { most, total } = exponentials(score, sink);
  return most === HIDDEN ? HIDDEN : most + Math.log(total);
}

/** Entropy of a row of weights, in nats: −Σ w·log w, where 0·log 0 is 0. */
export const entropy = (weight: Vector): number => 0 - weight.reduce((sum, w) => sum + (w > 0 ? w * Math.log(w) : 0), 0);

// ---- average: the third line -------------------------------------------------------------------------------

/** Each query takes its shares of the values: weight (n_q, n_k), v (n_k, d_v) -> (n_q, d_v). */
export const average = (weight: Matrix, v: Matrix): Matrix => product(weight, v);

// ---- the whole ---------------------------------------------------------------------------------------------

export interface Options {
  scale?: number;
  temperature?: number;
  softcap?: number;
  bias?: Matrix;
  visible?: Visible;
}

/** What the softmax sees: q (n_q, d_k), k (n_k, d_k) -> (n_q, n_k), −∞ where hidden. */
export function biased_score(q: Matrix, k: Matrix, { scale, temperature = 1, softcap, bias, visible }: Options = {}): Matrix {
  let stage = score(q, k, scale).map((row) => row.map((each) => each / temperature));
  if (softcap !== undefined) stage = cap(stage, softcap);
  if (bias) stage = add_bias(stage, bias);
  return visible ? hide(stage, visible) : stage;
}

/** Lines two and three, the same for every score: (n_q, n_k), v (n_k, d_v) -> (n_q, d_v). */
export const blend = (score: Matrix, v: Matrix): Matrix => average(score.map((row) => weight(row)), v);

/** softmax(QKᵀ/√d_k) V: q (n_q, d_k), k (n_k, d_k), v (n_k, d_v) -> (n_q, d_v). */
export const attention = (q: Matrix, k: Matrix, v: Matrix, options: Options = {}): Matrix => blend(biased_score(q, k, options), v);

// ---- many heads --------------------------------------------------------------------------------------------

/** The channels cut into heads: (n, n_heads·d) -> n_heads of (n, d). */
export function split(x: Matrix, n_heads: number): Matrix[] {
  const d = x[0].length / n_heads;
  if (!Number.isInteger(d)) throw new RangeError(`x has width ${x[0].length}, which n_heads = ${n_heads} does not cut into equal heads.`);
  return Array.from({ length: n_heads }, (_, h) => x.map((row) => row.slice(h * d, (h + 1) * d)));
}

/** The heads side by side again: n_heads of (n, d) -> (n, n_heads·d). */
export const merge = (heads: Matrix[]): Matrix => heads[0].map((_, i) => heads.flatMap((head) => head[i]));

/** Grouped heads: query head h reads key head h // (n_heads / n_kv_heads). n_kv_heads of (n_k, d) -> n_heads of it. */
export const repeat_heads = (k: Matrix[], n_heads: number): Matrix[] =>
  Array.from({ length: n_heads }, (_, h) => k[Math.floor((h * k.length) / n_heads)]);

/** Project, split, attend, merge, mix by W_O: x (n_q, d_model) -> (n_q, d_model); keys and values from `memory` or x. */
export function multi_head(
  x: Matrix, w_q: Matrix, w_k: Matrix, w_v: Matrix, w_o: Matrix, n_heads: number, memory = x, visible?: Visible,
): Matrix {
  const [q, k, v] = [product(x, w_q), product(memory, w_k), product(memory, w_v)].map((each) => split(each, n_heads));
  return product(merge(q.map((head, h) => attention(head, k[h], v[h], { visible }))), w_o);
}

/** Pixels attend to pixels, unscaled: x (H, W, C), w_theta and w_phi (C, d_k), w_g (C, d_v) -> (H, W, d_v). */
export function nonlocal_block(x: Matrix[], w_theta: Matrix, w_phi: Matrix, w_g: Matrix): Matrix[] {
  const pixels = x.flat();
  const out = blend(dot_score(product(pixels, w_theta), product(pixels, w_phi)), product(pixels, w_g));
  const width = x[0].length;
  return x.map((_, row) => out.slice(row * width, (row + 1) * width));
}

// ---- the lesson: three views of the same tokens ------------------------------------------------------------

/** Q, K, V = X Wq, X Wk, X Wv: X (n, d_model) -> (n, d_k), (n, d_k), (n, d_v). */
export const project_qkv = (X: Matrix, Wq: Matrix, Wk: Matrix, Wv: Matrix): [Matrix, Matrix, Matrix] => [
  product(X, Wq), product(X, Wk), product(X, Wv),
];

type Shape = [number, number];

/** The shapes of Q, K and V for n tokens; d_model is summed away. */
export const qkv_shapes = (n: number, _d_model: number, d_k: number, d_v: number): Record<"Q" | "K" | "V", Shape> => ({
  Q: [n, d_k], K: [n, d_k], V: [n, d_v],
});

/** The shape of what attention returns: a row for each query, as wide as a value, whatever n_k is. */
export const output_shape = (n_q: number, _n_k: number, d_v: number): Shape => [n_q, d_v];

/** How many weights Wq, Wk and Wv have together, without biases. */
export const param_count = (d_model: number, d_k: number, d_v: number): number => d_model * d_k + d_model * d_k + d_model * d_v;
