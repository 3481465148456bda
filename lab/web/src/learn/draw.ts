/** Questions drawn by chance: which of them, in which order, and the options of each in an order of their own. */
import type { Question } from "../content.ts";
import { shuffled } from "../maths/shuffled.ts";

export interface Asked {
  slug: string;
  title: string;
  question: Question;
}

/** `count` of the questions, or all there are, with their options shuffled. */
export function drawn(questions: readonly Asked[], count: number, random: () => number = Math.random): Asked[] {
  return shuffled(questions, random)
    .slice(0, count)
    .map((each) => ({ ...each, question: { ...each.question, options: shuffled(each.question.options, random) } }));
}
