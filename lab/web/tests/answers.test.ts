// @vitest-environment jsdom
import { beforeEach, expect, test } from "vitest";
import { progress } from "../src/learn/progress.ts";
import { answer, answered, forgetAnswers, keepScore, lastScore } from "../src/learn/answers.ts";

const question = { ask: "?", options: [true, false].map((right) => ({ text: String(right), right, why: "" })) };

beforeEach(() => localStorage.clear());

test("an answer is kept, and can be taken back", () => {
  answer("softmax", 1);
  expect(answered("softmax", question)).toBe(1);
  expect(answered("mask", question)).toBeUndefined();
  answer("softmax", undefined);
  expect(answered("softmax", question)).toBeUndefined();
});

test("an answer that fits no option of today is no answer", () => {
  answer("softmax", 2);
  expect(answered("softmax", question)).toBeUndefined();
});

test("forgetting the answers leaves the score of the last test", () => {
  answer("softmax", 0);
  keepScore({ right: 4, of: 5 });
  forgetAnswers();
  expect(answered("softmax", question)).toBeUndefined();
  expect(lastScore()).toEqual({ right: 4, of: 5 });
});

test("what is kept of cards and tests can be taken along", () => {
  answer("softmax", 1);
  keepScore({ right: 4, of: 5 });
  const text = progress.export();
  progress.reset();
  expect(progress.import(text).entries).toBe(2);
  expect(answered("softmax", question)).toBe(1);
  expect(lastScore()).toEqual({ right: 4, of: 5 });
});

test("what is no score is none", () => {
  progress.mark("test.last", 3);
  expect(lastScore()).toBeUndefined();
});
