/** Lessons and cards as the site holds them: made by build/content.ts from the folders of qkv_lab, texts already HTML. */

export interface Option {
  /** HTML of one line. */
  text: string;
  right: boolean;
  /** Why it is right, or what is wrong about it. HTML of one line. */
  why: string;
}

/** A question with options, each of which explains itself; exactly one is right. */
export interface Question {
  ask: string;
  options: Option[];
}

export type Answer = number | string | number[] | number[][];

/** A wrong answer that has a cause. */
export interface Slip {
  answer: Answer;
  /** What was done instead: "that is x·W_k". HTML of one line. */
  name: string;
}

/** Part 1 of a lesson: an answer that is typed. */
export interface Typed {
  ask: string;
  /** What stands before the field: "q =". HTML of one line. */
  label: string;
  answer: Answer;
  /** How far each number may be off; it is told to the learner. */
  tolerance: number;
  slips: Slip[];
}

export interface Lesson {
  title: string;
  summary: string;
  /** The name of a figure in src/figures, or nothing. */
  figure: string;
  idea: string;
  predict: Question;
  typed: Typed[];
  /** What Part 2 asks for. */
  task: string;
  check: Question;
  hints: string[];
  reference: string;
  /** Plain Python that runs without NumPy. */
  example: string;
  /** The lesson's Python files by their path in its folder: starter.py, solution.py, tests.py, mutants/…; the grader reads them. */
  python: Record<string, string>;
}

export interface Card {
  title: string;
  summary: string;
  /** The depths, HTML: a handful of lines, in depth, deep dive. */
  brief: string;
  more: string;
  deep: string;
  question: Question;
}
