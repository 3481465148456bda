// @vitest-environment jsdom
import { flushSync, mount, unmount } from "svelte";
import { afterEach, expect, test, vi } from "vitest";
import type { Question } from "../src/content.ts";
import Choice from "../src/parts/Choice.svelte";

const question: Question = {
  ask: "What do the weights of a row sum to?",
  options: [
    { text: "To n", right: false, why: "That is what a column may reach." },
    { text: "To 1", right: true, why: "The softmax divides by the sum." },
    { text: "To 0", right: false, why: "Weights are never negative." },
  ],
};
let shown: ReturnType<typeof mount> | undefined;

function show(props: { picked?: number; onpick?: (at: number) => void } = {}): HTMLElement {
  const target = document.body.appendChild(document.createElement("div"));
  shown = mount(Choice, { target, props: { question, ...props } });
  flushSync();
  return target;
}

function press(target: HTMLElement, name: string): void {
  const button = [...target.querySelectorAll("button")].find((each) => each.textContent?.includes(name));
  button!.click();
  flushSync();
}

afterEach(async () => {
  if (shown) await unmount(shown);
  document.body.replaceChildren();
});

test("nothing is given away before a pick", () => {
  const target = show();
  for (const option of question.options) expect(target.textContent).not.toContain(option.why);
});

test("the option picked explains itself, in words and by a sign, where a screen reader hears it", () => {
  const target = show();
  press(target, "To n");
  const status = [...target.querySelectorAll('[role="status"]')].map((each) => each.textContent).join("");
  expect(status).toContain("Not right.");
  expect(status).toContain("That is what a column may reach.");
  expect(target.textContent).toContain("✗");
  expect(target.textContent).not.toContain("The softmax divides by the sum.");
});

test("the others explain themselves on demand", () => {
  const target = show();
  press(target, "To n");
  press(target, "Explain the other options");
  for (const option of question.options) expect(target.textContent).toContain(option.why);
});

test("only the first pick counts", () => {
  const onpick = vi.fn();
  const target = show({ onpick });
  press(target, "To 0");
  press(target, "To 1");
  expect(onpick.mock.calls).toEqual([[2]]);
  expect(target.textContent).not.toContain("Right.");
});

test("a pick of earlier is shown as it was", () => {
  const target = show({ picked: 1 });
  expect(target.querySelector('[aria-pressed="true"]')?.textContent).toContain("To 1");
  expect(target.textContent).toContain("The softmax divides by the sum.");
});
