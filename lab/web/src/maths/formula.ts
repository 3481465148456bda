/** Attention as qkv.formula says it, on plain arrays: the names there, the steps there, held to its golden values.
 *
 * A matrix is an array of rows. Every number is a float64, as in NumPy. */

export type Vector = number[];
export type Matrix = number[][];

export const dot = (a: Vector, b: Vector): number => a.reduce((sum, each, c) => sum + each * b[c], 0);

export const transpose = (m: Matrix): Matrix => (m.length ? m[0].map((_, j) => m.map((row) => row[j])) : []);

/** (n, d) @ (d, c) -> (n, c). */
export function product(a: Matrix, b: Matrix): Matrix {
  const columns = transpose(b);
  return a.map((row) => columns.map((column) => dot(row, column)));
}

/** Every query dotted with every key: q (n_q, d_k), k (n_k, d_k) -> (n_q, n_k). */
export const dot_score = (q: Matrix, k: Matrix): Matrix => q.map((row) => k.map((key) => dot(row, key)));

/** The scaled dot product, in nats; `scale` is 1/√d_k unless given. q (n_q, d_k), k (n_k, d_k) -> (n_q, n_k). */
export function score(q: Matrix, k: Matrix, scale = 1 / Math.sqrt(Math.max(q[0]?.length ?? 1, 1))): Matrix {
  return dot_score(q, k).map((row) => row.map((each) => scale * each));
}

/** −∞ wherever a query may not look: (n_q, n_k) -> (n_q, n_k). */
export const hide = (score: Matrix, visible: boolean[][]): Matrix =>
  score.map((row, i) => row.map((each, j) => (visible[i][j] ? each : Number.NEGATIVE_INFINITY)));

/** Who sees whom when no query may look past its own place: the last query sees the last key. */
export const causal = (n_q: number, n_k: number, offset = n_k - n_q): boolean[][] =>
  Array.from({ length: n_q }, (_, i) => Array.from({ length: n_k }, (_, j) => j <= i + offset));

/** Softmax of a row of scores, with the scores of sinks in the sum: a row that sees nothing is zeros. */
export function weight(score: Vector, sink = Number.NEGATIVE_INFINITY): Vector {
  const total = lse(score, sink);
  return score.map((each) => (total === Number.NEGATIVE_INFINITY ? 0 : Math.exp(each - total)));
}

/** log Σ exp(score) of a row, in nats; −∞ where nothing is visible. */
export function lse(score: Vector, sink = Number.NEGATIVE_INFINITY): number {
  const most = Math.max(sink, ...score);
  if (most === Number.NEGATIVE_INFINITY) return most;
  const sum = score.reduce((sum, each) => sum + Math.exp(each - most), Math.exp(sink - most));
  return most + Math.log(sum);
}

/** Entropy of a row of weights, in nats: −Σ w·log w, where 0·log 0 is 0. */
export const entropy = (weight: Vector): number => -weight.reduce((sum, w) => sum + (w > 0 ? w * Math.log(w) : 0), 0);

/** Each query takes its shares of the values: weight (n_q, n_k), v (n_k, d_v) -> (n_q, d_v). */
export const average = (weight: Matrix, v: Matrix): Matrix => product(weight, v);
