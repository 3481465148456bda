/** What was answered to the questions of the cards, kept in the browser. */
import type { Question } from "../content.ts";
import { progress } from "./progress.ts";

const SCORE = "test.last";
const key = (slug: string): string => `card.${slug}`;

/** The option picked for a card, by its index; what fits no option of today counts as no answer. */
export function answered(slug: string, question: Question): number | undefined {
  const picked = progress.done(key(slug));
  return typeof picked === "number" && question.options[picked] !== undefined ? picked : undefined;
}

export const answer = (slug: string, picked: number | undefined): void => progress.mark(key(slug), picked);

export const forgetAnswers = (): void => progress.reset("card.");

export interface Score {
  right: number;
  of: number;
}

/** The score of the last test that was taken to its end. */
export function lastScore(): Score | undefined {
  const kept = progress.done(SCORE) as Partial<Score> | undefined;
  return typeof kept?.right === "number" && typeof kept.of === "number" ? { right: kept.right, of: kept.of } : undefined;
}

export const keepScore = (score: Score): void => progress.mark(SCORE, score);
