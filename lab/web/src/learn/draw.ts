/** Questions drawn by chance: which of them, in which order, and the options of each in an order of their own. */
import type { Question } from "../content.ts";

export interface Asked {
  slug: string;
  title: string;
  question: Question;
}

/** A new list in an order in which every order is as likely. `random` gives numbers in [0, 1). */
export function shuffled<T>(list: readonly T[], random: () => number = Math.random): T[] {
  const order = [...list];
  for (let at = order.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [order[at], order[other]] = [order[other], order[at]];
  }
  return order;
}

/** `count` of the questions, or all there are, with their options shuffled. */
export function drawn(questions: readonly Asked[], count: number, random: () => number = Math.random): Asked[] {
  return shuffled(questions, random)
    .slice(0, count)
    .map((each) => ({ ...each, question: { ...each.question, options: shuffled(each.question.options, random) } }));
}
