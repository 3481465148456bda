// @vitest-environment jsdom
import { createRawSnippet, flushSync, mount, unmount } from "svelte";
import { expect, test } from "vitest";
import Tabs from "../src/parts/Tabs.svelte";

test("the arrow keys walk along the tabs and around their ends", async () => {
  const target = document.body.appendChild(document.createElement("div"));
  const tabs = ["a", "b", "c"].map((value) => ({ value, text: value.toUpperCase() }));
  const children = createRawSnippet(() => ({ render: () => "<p>text</p>" }));
  const shown = mount(Tabs, { target, props: { label: "Depth", tabs, value: "a", children } });
  flushSync();
  const chosen = () => target.querySelector('[aria-selected="true"]')!;
  const press = (key: string) => {
    chosen().dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    flushSync();
    return [chosen().textContent!.trim(), document.activeElement === chosen(), target.querySelectorAll('[tabindex="0"][role="tab"]').length];
  };
  expect(press("ArrowRight")).toEqual(["B", true, 1]);
  expect(press("End")).toEqual(["C", true, 1]);
  expect(press("ArrowRight")).toEqual(["A", true, 1]);
  expect(press("ArrowLeft")).toEqual(["C", true, 1]);
  expect(press("Home")).toEqual(["A", true, 1]);
  expect(target.querySelector('[role="tabpanel"]')!.getAttribute("aria-labelledby")).toBe(chosen().id);
  await unmount(shown);
});
