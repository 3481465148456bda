/** Attention as qkv.formula says it, on plain arrays: the names there, the steps there, held to its golden values. It has
 * what a figure computes, and no more.
 *
 * A matrix is an array of rows, and heads are an array of matrices. Every number is a float64, as in NumPy. Sources stand
 * in qkv.formula. */

export type Vector = number[];
export type Matrix = number[][];
export type Visible = boolean[][];

const HIDDEN = Number.NEGATIVE_INFINITY;

export const sum = (row: Vector): number => row.reduce((total, each) => total + each, 0);

export function dot(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let total = 0;
  for (let c = 0; c < a.length; c++) total += a[c] * b[c];
  return total;
}

export const transpose = (m: Matrix): Matrix => (m.length ? m[0].map((_, j) => m.map((row) => row[j])) : []);

/** (n, d) @ (d, c) -> (n, c). */
export function product(a: Matrix, b: Matrix): Matrix {
  const columns = transpose(b);
  return a.map((row) => columns.map((column) => dot(row, column)));
}

// ---- score: the first line ---------------------------------------------------------------------------------

/** Every query dotted with every key: q (n_q, d_k), k (n_k, d_k) -> (n_q, n_k). */
export const dot_score = (q: Matrix, k: Matrix): Matrix => q.map((row) => k.map((key) => dot(row, key)));

/** The scaled dot product, in nats; `scale` is 1/√d_k unless given. q (n_q, d_k), k (n_k, d_k) -> (n_q, n_k). */
export function score(q: Matrix, k: Matrix, scale = 1 / Math.sqrt(Math.max(q[0]?.length ?? 1, 1))): Matrix {
  return dot_score(q, k).map((row) => row.map((each) => scale * each));
}

// ---- between score and softmax: hide -----------------------------------------------------------------------

/** −∞ wherever a query may not look: (n_q, n_k) -> (n_q, n_k). */
export const hide = (score: Matrix, visible: Visible): Matrix => score.map((row, i) => row.map((each, j) => (visible[i][j] ? each : HIDDEN)));

/** Who sees whom when no query may look past its own place: the last query sees the last key. */
export const causal = (n_q: number, n_k: number): Visible =>
  Array.from({ length: n_q }, (_, i) => Array.from({ length: n_k }, (_, j) => j <= i + n_k - n_q));

// ---- softmax: the second line ------------------------------------------------------------------------------

/** exp(score − the largest) of a row, and their sum. */
function exponentials(score: Vector): { terms: Vector; most: number; total: number } {
  const most = Math.max(...score);
  const terms = score.map((each) => Math.exp(each - most));
  return { terms, most, total: sum(terms) };
}

/** Softmax of a row of scores; a row that sees nothing is zeros. */
export function weight(score: Vector): Vector {
  // Not exp(score − lse): at large scores the rounding of lse alone would cost digits.
  const { terms, total } = exponentials(score);
  return score.map((each, j) => (each === HIDDEN ? 0 : terms[j] / total));
}

/** log Σ exp(score) of a row, in nats; −∞ where nothing is visible. */
export function lse(score: Vector): number {
  const { most, total } = exponentials(score);
  return most === HIDDEN ? HIDDEN : most + Math.log(total);
}

/** Entropy of a row of weights, in nats: −Σ w·log w, where 0·log 0 is 0. */
export const entropy = (weight: Vector): number => 0 - sum(weight.map((w) => (w > 0 ? w * Math.log(w) : 0)));

// ---- average: the third line -------------------------------------------------------------------------------

/** Each query takes its shares of the values: weight (n_q, n_k), v (n_k, d_v) -> (n_q, d_v). */
export const average = (weight: Matrix, v: Matrix): Matrix => product(weight, v);

// ---- the first two lines together --------------------------------------------------------------------------

export interface Options {
  scale?: number;
  temperature?: number;
  visible?: Visible;
}

/** What the softmax sees: q (n_q, d_k), k (n_k, d_k) -> (n_q, n_k), −∞ where hidden. */
export function biased_score(q: Matrix, k: Matrix, { scale, temperature = 1, visible }: Options = {}): Matrix {
  const tempered = score(q, k, scale).map((row) => row.map((each) => each / temperature));
  return visible ? hide(tempered, visible) : tempered;
}

/** The map of one head: q (n_q, d_k), k (n_k, d_k) -> (n_q, n_k). */
export const head_map = (q: Matrix, k: Matrix, options: Options = {}): Matrix => biased_score(q, k, options).map(weight);

// ---- many heads --------------------------------------------------------------------------------------------

/** The channels cut into heads: (n, n_heads·d) -> n_heads of (n, d). */
export function split(x: Matrix, n_heads: number): Matrix[] {
  const d = x[0].length / n_heads;
  if (!Number.isInteger(d)) throw new RangeError(`x has width ${x[0].length}, which n_heads = ${n_heads} does not cut into equal heads.`);
  return Array.from({ length: n_heads }, (_, h) => x.map((row) => row.slice(h * d, (h + 1) * d)));
}

// ---- the lesson: three views of the same tokens ------------------------------------------------------------

/** Q, K, V = X Wq, X Wk, X Wv: X (n, d_model) -> (n, d_k), (n, d_k), (n, d_v). */
export const project_qkv = (X: Matrix, Wq: Matrix, Wk: Matrix, Wv: Matrix): [Matrix, Matrix, Matrix] => [
  product(X, Wq), product(X, Wk), product(X, Wv),
];

/** How many weights Wq, Wk and Wv have together, without biases. */
export const param_count = (d_model: number, d_k: number, d_v: number): number => d_model * d_k + d_model * d_k + d_model * d_v;
