// @vitest-environment jsdom
import { beforeEach, expect, test } from "vitest";
import { progress } from "../src/learn/progress.ts";

beforeEach(() => localStorage.clear());

test("what is marked is found, and nothing else", () => {
  progress.mark("card.softmax", "1");
  expect(progress.done("card.softmax")).toBe("1");
  expect(progress.done("card.soft")).toBeUndefined();
});

test("an export brings it all back after a reset", () => {
  progress.mark("card.softmax", { picked: 2 });
  progress.mark("lesson.scores", [1, 2]);
  const text = progress.export();
  progress.reset();
  expect(progress.done("lesson.scores")).toBeUndefined();
  progress.import(text);
  expect(progress.done("card.softmax")).toEqual({ picked: 2 });
  expect(progress.done("lesson.scores")).toEqual([1, 2]);
});

test("a reset by prefix leaves the rest", () => {
  progress.mark("card.softmax", 1);
  progress.mark("lesson.scores", 1);
  progress.reset("card.");
  expect(progress.done("card.softmax")).toBeUndefined();
  expect(progress.done("lesson.scores")).toBe(1);
});

test("a text that is no progress is refused and changes nothing", () => {
  progress.mark("card.softmax", 1);
  for (const text of ["[1]", "3", "null", "{"]) expect(() => progress.import(text)).toThrow();
  expect(progress.done("card.softmax")).toBe(1);
});

test("garbage in the store is no progress", () => {
  localStorage.setItem("qkv.progress", "{{");
  expect(progress.done("card.softmax")).toBeUndefined();
});
