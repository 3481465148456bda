/** What attention costs, as qkv.cost counts it: multiply-adds, numbers in memory, parameters. One multiply-add is a
 * multiplication and the addition after it. */

export interface Layer {
  d_model: number;
  n_heads: number;
  d_k: number;
  /** Numbers in the four matrices: 4·d_model², whatever n_heads. */
  parameters: number;
}

/** A plain layer of self-attention without biases: d_k = d_v = d_model / n_heads. */
export function layer(d_model: number, n_heads: number): Layer {
  const d_k = d_model / n_heads;
  return { d_model, n_heads, d_k, parameters: 3 * d_model * n_heads * d_k + n_heads * d_k * d_model };
}

/** Numbers in memory; `weights` where they are stored, or else `lse` in their place. */
export interface Activations {
  q: number;
  k: number;
  v: number;
  weights: number;
  lse: number;
  heads: number;
  out: number;
}

export interface Cost {
  /** (query, key) that may meet, in one head. */
  pairs: number;
  /** Multiply-adds of the four products with matrices. */
  projections: number;
  /** Multiply-adds of Q Kᵀ. */
  scores: number;
  /** Multiply-adds of A V. */
  average: number;
  exponentials: number;
  multiply_adds: number;
  activations: Activations;
  weights_bytes: number;
}

/** One call over n tokens; itemsize: bytes of a number. */
export function cost({ d_model, n_heads, d_k, parameters }: Layer, n: number, causal = false, itemsize = 4): Cost {
  const pairs = causal ? (n * (n + 1)) / 2 : n * n;
  const met = n_heads * pairs;
  const width = n_heads * n * d_k;
  const [projections, scores, average, weights] = [n * parameters, met * d_k, met * d_k, n_heads * n * n];
  return {
    pairs, projections, scores, average,
    exponentials: met,
    multiply_adds: projections + scores + average,
    activations: { q: width, k: width, v: width, weights, lse: n_heads * n, heads: width, out: n * d_model },
    weights_bytes: weights * itemsize,
  };
}

// ---- kinds of layers ---------------------------------------------------------------------------------------

/** One kind of layer at a given n and d: the value of `term`, steps that wait for each other, the longest path. */
export interface Kind {
  name: string;
  term: string;
  multiply_adds: number;
  sequential: number;
  path: number;
  path_term: string;
}

/** Self-attention, recurrent, convolutional of kernel k and, where r is given, self-attention to r neighbours. */
export function kinds(n: number, d: number, k = 3, r?: number): Kind[] {
  const rows: Kind[] = [
    { name: "self-attention", term: "n²·d", multiply_adds: n * n * d, sequential: 1, path: 1, path_term: "1" },
    { name: "recurrent", term: "n·d²", multiply_adds: n * d * d, sequential: n, path: n, path_term: "n" },
    { name: "convolutional", term: "k·n·d²", multiply_adds: k * n * d * d, sequential: 1, path: dilatedLayers(n, k), path_term: "log_k(n)" },
  ];
  if (r === undefined) return rows;
  return [...rows, { name: "restricted", term: "r·n·d", multiply_adds: r * n * d, sequential: 1, path: Math.ceil(n / r), path_term: "n/r" }];
}

/** The layers of kernel k that it takes to span n positions, each k times wider than the one below: ⌈log_k n⌉. */
function dilatedLayers(n: number, k: number): number {
  let layers = 0;
  for (let span = 1; span < n; span *= k) layers++;
  return Math.max(layers, 1);
}

/** With fewer than n positions `below` takes fewer multiply-adds, with more `above` does. */
export interface Flip {
  n: number;
  below: string;
  above: string;
}

/** The lengths up to which self-attention is the cheaper one. */
export const flips = (d: number, k = 3): Flip[] => [
  { n: d, below: "self-attention", above: "recurrent" },
  { n: k * d, below: "self-attention", above: "convolutional" },
];
