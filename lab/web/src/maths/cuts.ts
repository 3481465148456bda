/** Ways to cut the toy layer's queries and keys into four heads. All give the right shapes; only one gives the right heads. */
import { type Matrix, head_map, product, split } from "./formula.ts";
import { FEATURES, TOKENS, k, q, w_k, w_q, x } from "./toy.ts";

export const N_HEADS = 4;
const D_K = FEATURES.length / N_HEADS;
const HEADS = Array.from({ length: N_HEADS }, (_, h) => h);

/** The numbers of x, row after row, poured into heads: a head gets a few whole tokens, each in pieces. */
const pour = (x: Matrix): Matrix[] => {
  const flat = x.flat();
  return HEADS.map((h) => x.map((_, i) => flat.slice((h * x.length + i) * D_K, (h * x.length + i + 1) * D_K)));
};

/** Every fourth channel to the same head. */
const deal = (x: Matrix): Matrix[] => HEADS.map((h) => x.map((row) => row.filter((_, c) => c % N_HEADS === h)));

/** The input cut, and not what is made of it: a head sees its own slice of x only. */
const sliceFirst = (w: Matrix): Matrix[] =>
  split(x, N_HEADS).map((part, h) => product(part, w.slice(h * D_K, (h + 1) * D_K).map((row) => row.slice(h * D_K, (h + 1) * D_K))));

export interface Cut {
  name: string;
  /** NumPy for it, of an array of queries or keys, (n, n_heads·d_k). */
  python: string;
  heads: { q: Matrix[]; k: Matrix[] };
  /** What row i of head h really holds. */
  holds: (h: number, i: number) => string;
}

const range = (from: number) => `channels ${from} to ${from + D_K - 1}`;

export const cuts = {
  right: {
    name: "right",
    python: "a.reshape(n, h, d_k).swapaxes(0, 1)",
    heads: { q: split(q, N_HEADS), k: split(k, N_HEADS) },
    holds: (h, i) => `${range(h * D_K)} of “${TOKENS[i]}”`,
  },
  poured: {
    name: "reshape alone",
    python: "a.reshape(h, n, d_k)",
    heads: { q: pour(q), k: pour(k) },
    holds: (h, i) => {
      const at = h * TOKENS.length + i;
      return `${range((at % N_HEADS) * D_K)} of “${TOKENS[Math.floor(at / N_HEADS)]}”`;
    },
  },
  dealt: {
    name: "axes mixed up",
    python: "a.reshape(n, d_k, h).transpose(2, 0, 1)",
    heads: { q: deal(q), k: deal(k) },
    holds: (h, i) => `channels ${HEADS.map((c) => c * N_HEADS + h).join(", ")} of “${TOKENS[i]}”`,
  },
  sliced: {
    name: "input cut first",
    python: "np.stack([x[:, s] @ w[s, s] for s in slices])",
    heads: { q: sliceFirst(w_q), k: sliceFirst(w_k) },
    holds: (h, i) => `what ${range(h * D_K)} of x say about “${TOKENS[i]}”`,
  },
} satisfies Record<string, Cut>;

/** The weights of every head: 4 of (8, 8). */
export const mapOf = ({ heads }: Cut): Matrix[] => heads.q.map((each, h) => head_map(each, heads.k[h]));
