/** Typed answers: what was typed against what is asked for, and what to say about it. */
import type { Answer, Typed } from "../content.ts";
import { type Rows, readings, Unreadable } from "./spelling.ts";

export interface Verdict {
  /** `unread`: nothing can be said about it but how to write it. */
  state: "right" | "slip" | "wrong" | "unread";
  /** HTML of one line. */
  says: string;
}

// What float64 may lose in a sum of a few terms, so that an exact 0.3 takes 0.1 + 0.2.
const SLACK = 1e-9;
// Within this many tolerances a number is off by rounding, not by thinking.
const NEAR = 10;

const escaped = (text: string): string => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

const rowsOf = (answer: number | number[] | number[][]): Rows =>
  typeof answer === "number" ? [[answer]] : answer.every((row) => Array.isArray(row)) ? (answer as Rows) : [answer as number[]];

const isMatrix = (answer: Answer): boolean => Array.isArray(answer) && answer.length > 0 && answer.every((row) => Array.isArray(row));

/** The reading in the shape of `like`: rows of a matrix have to be rows, a list may stand in any. */
function shaped(reading: Rows, like: Answer): Rows | undefined {
  const wanted = rowsOf(like as number[]);
  const rows = isMatrix(like) ? reading : [reading.flat()];
  return rows.length === wanted.length && rows.every((row, i) => row.length === wanted[i].length) ? rows : undefined;
}

function off(reading: Rows, answer: Rows, tolerance: number): number[] {
  return answer.flatMap((row, i) =>
    row.map((wanted, j) => {
      const given = reading[i][j];
      if (given === wanted || (Number.isNaN(given) && Number.isNaN(wanted))) return 0;
      return Math.max(0, Math.abs(given - wanted) - tolerance - SLACK * Math.max(1, Math.abs(wanted)));
    }),
  );
}

const letters = (text: string): string => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim();

function same(text: string, answer: Answer, tolerance: number): boolean {
  if (typeof answer === "string") return letters(text) === letters(answer);
  const readable = attempt(() => readings(text)) ?? [];
  return readable.some((reading) => {
    const rows = shaped(reading, answer);
    return rows !== undefined && off(rows, rowsOf(answer as number[]), tolerance).every((each) => each === 0);
  });
}

function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (problem) {
    if (problem instanceof Unreadable) return undefined;
    throw problem;
  }
}

/** How an answer of this shape can be written, with numbers that are nobody's answer. */
export function example(answer: Answer): string {
  if (typeof answer === "string") return answer.length === 1 ? "one letter" : "a word";
  if (typeof answer === "number") return "12.5 or 25/2";
  const row = (length: number, start: number) => `[${Array.from({ length }, (_, c) => start + c + 0.5).join(", ")}]`;
  if (!isMatrix(answer)) return row(answer.length, 10);
  return `[${(answer as Rows).map((each, i) => row(each.length, 10 * (i + 1))).join(", ")}]`;
}

const counted = (count: number): string => (count === 1 ? "one number" : `${count} numbers`);

function shape(rows: Rows): string {
  const widths = new Set(rows.map((row) => row.length));
  const one = rows.length === 1 ? "one row" : `${rows.length} rows`;
  return widths.size === 1 ? `${one} of ${counted([...widths][0])}` : `${one} of different lengths`;
}

function misfit(found: Rows, answer: Answer): string {
  const wanted = rowsOf(answer as number[]);
  if (isMatrix(answer)) return `That is ${shape(found)}; this asks for ${shape(wanted)}. Write it like <code>${example(answer)}</code>, or a row on each line.`;
  const count = found.flat().length;
  return `That is ${count ? counted(count) : "no number"}; this asks for ${counted(wanted.flat().length)}, like <code>${example(answer)}</code>.`;
}

const ordinals = ["first", "second", "third", "fourth", "fifth", "sixth"];

/** Which numbers are off; of a matrix, in which rows. */
function place(distance: number[], answer: Answer): string {
  if (typeof answer === "number") return "Not yet.";
  const wanted = rowsOf(answer as number[]);
  const width = wanted[0].length;
  const at = distance.flatMap((each, index) => (each === 0 ? [] : [index]));
  if (isMatrix(answer)) {
    const rows = [...new Set(at.map((index) => Math.floor(index / width) + 1))];
    return rows.length === wanted.length ? "Not yet." : `Not yet: look at row ${rows.join(" and ")}.`;
  }
  if (at.length === distance.length) return "Not yet.";
  if (at.length === 1 && at[0] < ordinals.length) return `Not yet: the ${ordinals[at[0]]} number is off.`;
  return `Not yet: ${at.length} of ${distance.length} numbers are off.`;
}

function ofNumbers(text: string, { answer, tolerance }: Typed): Verdict {
  let found: Rows[];
  try {
    found = readings(text);
  } catch (problem) {
    if (!(problem instanceof Unreadable)) throw problem;
    return { state: "unread", says: `${escaped(problem.message)} Write it like <code>${example(answer)}</code>.` };
  }
  const rows = found.map((reading) => shaped(reading, answer)).filter((each) => each !== undefined);
  if (!rows.length) return { state: "unread", says: misfit(found[found.length - 1], answer) };
  if (rows.length > 1) return { state: "unread", says: `“${escaped(text.trim())}” can be ${rows.map((each) => each[0][0]).join(" or ")}. Write one of these.` };
  const distance = off(rows[0], rowsOf(answer as number[]), tolerance);
  if (distance.every((each) => each === 0)) return { state: "right", says: "Right." };
  if (tolerance > 0 && distance.every((each) => each <= NEAR * tolerance))
    return { state: "wrong", says: `Close, but not within ${tolerance}. Round at the very end.` };
  return { state: "wrong", says: place(distance, answer) };
}

/** What to say about an answer that was typed. A slip that fits has its name said; whatever else is wrong with it. */
export function judged(text: string, typed: Typed): Verdict {
  if (text.trim() === "") return { state: "unread", says: `Type an answer: ${example(typed.answer)}.` };
  const slip = typed.slips.find(({ answer }) => same(text, answer, typed.tolerance));
  const right = same(text, typed.answer, typed.tolerance);
  if (typeof typed.answer === "string") {
    if (right) return { state: "right", says: "Right." };
    if (!slip && typed.answer.length === 1 && letters(text).length !== 1) return { state: "unread", says: "This asks for one letter." };
    if (!slip) return { state: "wrong", says: "Not yet." };
  }
  if (slip && !right) return { state: "slip", says: slip.name };
  return ofNumbers(text, typed);
}

/** How exact an answer has to be, in words; nothing where letters are asked for. */
export function exactness({ answer, tolerance }: Typed): string {
  if (typeof answer === "string") return "";
  return tolerance > 0 ? `within ${tolerance}` : "exact";
}
