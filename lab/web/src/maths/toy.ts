/** The layer of eight tokens of qkv.toy, number by number. Nothing is trained or random; why each number is there, qkv.toy
 * says: tokens with the feature `asks` ask a question, tokens with `answers` answer it. */
import { type Matrix, dot_score, head_map, product, split } from "./formula.ts";

export const TOKENS = ["the", "cat", "sat", "on", "the", "mat", "because", "it"];
export const HEADS = [1, 2, 4, 8];
export const SLICES = ["same word", "reference", "predicates", "same phrase"];

const WORDS = ["the − because", "cat − mat", "sat − on", "word it"];
const KINDS = ["noun", "animate", "place", "article", "pronoun", "verb", "preposition", "conjunction"];
const PHRASES = ["[the cat]", "[sat]", "[on the mat]", "[because it]"];
export const FEATURES = [...WORDS, ...KINDS, ...PHRASES];

/** A channel of q and k. ask, answer: how loudly, the number in W_Q and the one in W_K. */
export interface Question {
  name: string;
  asks: string;
  ask: number;
  answers: string;
  answer: number;
}

const question = (name: string, asks: string, ask: number, answers: string): Question => ({ name, asks, ask, answers, answer: 2 });

export const QUESTIONS: Question[] = [
  ...WORDS.map((word) => question(word, word, 2, word)),
  question("which noun", "pronoun", 2, "noun"),
  question("which animate", "pronoun", 3, "animate"),
  question("not a pronoun", "pronoun", -2, "pronoun"),
  question("its noun", "article", 3, "noun"),
  question("who", "verb", 3, "animate"),
  question("on what", "preposition", 3, "place"),
  question("what happened", "conjunction", 3, "verb"),
  question("to whom", "conjunction", 3, "pronoun"),
  ...PHRASES.map((phrase) => question(phrase, phrase, 2, phrase)),
];

const TOKEN_FEATURES: Record<string, number>[] = [
  { "the − because": 1, article: 1, "[the cat]": 1 },
  { "cat − mat": 1, noun: 1, animate: 1, "[the cat]": 1 },
  { "sat − on": 1, verb: 1, "[sat]": 1 },
  { "sat − on": -1, preposition: 1, "[on the mat]": 1 },
  { "the − because": 1, article: 1, "[on the mat]": 1 },
  { "cat − mat": -1, noun: 1, place: 1, "[on the mat]": 1 },
  { "the − because": -1, conjunction: 1, "[because it]": 1 },
  { "word it": 1, pronoun: 1, "[because it]": 1 },
];

/** The tokens, a row each: (8, 16). */
export const x: Matrix = TOKEN_FEATURES.map((token) => FEATURES.map((feature) => token[feature] ?? 0));

/** The matrices of the layer, (16, 16) each, used as x W; the number of heads only says how q, k and v are cut. */
export const w_q: Matrix = FEATURES.map((feature) => QUESTIONS.map(({ asks, ask }) => (asks === feature ? ask : 0)));
export const w_k: Matrix = FEATURES.map((feature) => QUESTIONS.map(({ answers, answer }) => (answers === feature ? answer : 0)));
/** A key delivers its word, the first four features, into every slice. */
const w_v: Matrix = FEATURES.map((_, row) => FEATURES.map((_, column) => (column % WORDS.length === row ? 1 : 0)));

export const q: Matrix = product(x, w_q);
export const k: Matrix = product(x, w_k);
export const v: Matrix = product(x, w_v);

/** What each head sums up, q·k before the scale: n_heads of (8, 8). */
export function dots(n_heads: number): Matrix[] {
  const keys = split(k, n_heads);
  return split(q, n_heads).map((head, h) => dot_score(head, keys[h]));
}

/** The weights of every head over the sentence: n_heads of (8, 8). */
export function map(n_heads: number, temperature = 1): Matrix[] {
  const keys = split(k, n_heads);
  return split(q, n_heads).map((head, h) => head_map(head, keys[h], { temperature }));
}

/** What each head does. */
export function names(n_heads: number): string[] {
  if (n_heads === 1) return ["every question"];
  const parts = n_heads / SLICES.length;
  if (parts > 1) return SLICES.flatMap((name) => Array.from({ length: parts }, (_, part) => `${name}, half ${part + 1}`));
  return Array.from({ length: n_heads }, (_, h) => SLICES.slice(h / parts, (h + 1) / parts).join(" + "));
}
