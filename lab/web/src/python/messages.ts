/** What the page and its Python say to each other. */

export interface Fault {
  type: string;
  message: string;
  /** The last line of the learner's code that was reached, from 1. */
  line: number | null;
  traceback: string;
}

export interface Failure {
  label: string;
  call: string;
  expected: string;
  got: string;
  problem: string;
  /** Where the function raised something, if it did. */
  line: number | null;
}

export interface Verdict {
  name: string;
  ok: boolean;
  cases: number;
  failed: Failure | null;
  slip: { name: string; why: string } | null;
}

/** What the judge says of a program. */
export interface Report {
  ok: boolean;
  output: string;
  error: Fault | null;
  functions: Verdict[];
}

export interface Ran {
  error: Fault | null;
}

type Table = Record<string, unknown>;
const isTable = (value: unknown): value is Table => typeof value === "object" && value !== null;
const texts = (value: Table, ...names: string[]): boolean => names.every((name) => typeof value[name] === "string");
const isLine = (value: unknown): boolean => value === null || Number.isInteger(value);

const isFault = (value: unknown): boolean => value === null || (isTable(value) && texts(value, "type", "message", "traceback") && isLine(value.line));
const isFailure = (value: unknown): boolean => value === null || (isTable(value) && texts(value, "label", "call", "expected", "got", "problem") && isLine(value.line));
const isSlip = (value: unknown): boolean => value === null || (isTable(value) && texts(value, "name", "why"));
const isVerdict = (value: unknown): boolean =>
  isTable(value) && texts(value, "name") && typeof value.ok === "boolean" && Number.isInteger(value.cases) && isFailure(value.failed) && isSlip(value.slip);

/** Whether an answer has the form of one: a program may have changed what writes it, and the page must not break of that. */
export const isRan = (value: unknown): value is Ran => isTable(value) && isFault(value.error);
export const isReport = (value: unknown): value is Report =>
  isTable(value) && isRan(value) && texts(value, "output") && typeof value.ok === "boolean" && Array.isArray(value.functions) && value.functions.every(isVerdict);

export type Job = { kind: "run"; id: number; code: string } | { kind: "judge"; id: number; code: string; files: Record<string, string>; seed: number };

export interface Begin {
  kind: "begin";
  /** Where Pyodide's files lie: an address that ends with a slash. */
  base: string;
  /** Written to for an interrupt; absent where the page is not isolated. */
  interrupt?: SharedArrayBuffer;
}

export type ToWorker = Begin | Job;

export type FromWorker =
  | { kind: "progress"; share: number; what: string }
  | { kind: "ready" }
  | { kind: "output"; id: number; text: string }
  | { kind: "done"; id: number; result: Ran | Report }
  | { kind: "interrupted"; id: number }
  /** This worker can't go on: Python could not be loaded, or it broke down. */
  | { kind: "broken"; what: string };
