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

/** What judge.py says of a program. */
export interface Report {
  ok: boolean;
  output: string;
  error: Fault | null;
  functions: Verdict[];
}

export interface Ran {
  error: Fault | null;
}

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
