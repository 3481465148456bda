import { expect, test } from "vitest";
import { drawn, type Asked } from "../src/learn/draw.ts";
import { shuffled } from "../src/maths/shuffled.ts";

const question = (slug: string): Asked => ({
  slug,
  title: slug,
  question: { ask: `${slug}?`, options: ["right", "close", "far"].map((text) => ({ text, right: text === "right", why: `${text} of ${slug}` })) },
});
const questions = ["a", "b", "c", "d", "e"].map(question);

/** Numbers in [0, 1) that are the same each time: a linear congruence. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 1103515245 + 12345) % 2 ** 31) / 2 ** 31;
}

test("a shuffled list has the same things in it, and the list itself stays", () => {
  const list = [1, 2, 3, 4, 5];
  expect(shuffled(list, numbers(1)).sort()).toEqual([1, 2, 3, 4, 5]);
  expect(list).toEqual([1, 2, 3, 4, 5]);
});

test("every order is as likely", () => {
  const random = numbers(7);
  const seen: Record<string, number> = {};
  for (let i = 0; i < 6000; i++) {
    const order = shuffled(["x", "y", "z"], random).join("");
    seen[order] = (seen[order] ?? 0) + 1;
  }
  expect(Object.keys(seen)).toHaveLength(6);
  // 1000 each, with a standard deviation of 29.
  for (const count of Object.values(seen)) expect(Math.abs(count - 1000)).toBeLessThan(150);
});

test("a draw has as many questions as asked for, none twice, and all where there are fewer", () => {
  expect(new Set(drawn(questions, 3, numbers(2)).map((each) => each.slug)).size).toBe(3);
  expect(drawn(questions, 99, numbers(2))).toHaveLength(5);
});

test("each option keeps its explanation, wherever it is moved", () => {
  for (const { slug, question } of drawn(questions, 5, numbers(3))) {
    expect(question.options.filter((option) => option.right)).toHaveLength(1);
    for (const option of question.options) {
      expect(option.why).toBe(`${option.text} of ${slug}`);
      expect(option.right).toBe(option.text === "right");
    }
  }
});

test("two draws differ in questions, in their order, or in their options", () => {
  const random = numbers(4);
  expect(JSON.stringify(drawn(questions, 5, random))).not.toBe(JSON.stringify(drawn(questions, 5, random)));
});
