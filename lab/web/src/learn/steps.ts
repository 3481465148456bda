/** The four steps of a lesson, and which are done. */
import type { LessonProgress } from "./progress.ts";

export const steps = [
  { id: "predict", name: "Predict", done: (kept: LessonProgress) => kept.predict !== undefined },
  { id: "by-hand", name: "By hand", done: (kept: LessonProgress) => kept.typed },
  { id: "in-code", name: "In code", done: (kept: LessonProgress) => kept.code },
  { id: "check", name: "Check", done: (kept: LessonProgress) => kept.check !== undefined },
] as const;
