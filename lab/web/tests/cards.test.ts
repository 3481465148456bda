import cards from "virtual:cards";
import pages from "virtual:pages";
import questions from "virtual:questions";
import { expect, test } from "vitest";

const slugs = Object.keys(cards);

test("every card has a page of its own and a question, in the order of their numbers", () => {
  expect(slugs).toHaveLength(19);
  expect(slugs[0]).toBe("query-key-value");
  expect(slugs.at(-1)).toBe("cost");
  expect(questions.map((each) => each.slug)).toEqual(slugs);
  expect(pages.filter((page) => page.view === "cards/Card").map((page) => page.slug)).toEqual(slugs);
});

test("every lesson and card names parts of the essay, and every part has a lesson and a card", () => {
  const essay = pages.filter((page) => page.part === "read").map((page) => page.file);
  for (const view of ["learn/Lesson", "cards/Card"]) {
    const named = pages.filter((page) => page.view === view);
    expect(named.filter((page) => !page.read.length)).toEqual([]);
    expect(new Set(named.flatMap((page) => page.read))).toEqual(new Set(essay));
  }
});

test.each(slugs)("no formula of %s is left as it was typed, and nothing brings a style of its own", async (slug) => {
  const { default: card } = await cards[slug]();
  const options = card.question.options.flatMap((option) => [option.text, option.why]);
  for (const html of [card.brief, card.more, card.deep, card.question.ask, ...options]) {
    const outside = html.replace(/<annotation[^>]*>[\s\S]*?<\/annotation>/g, "");
    expect(outside).not.toMatch(/\\[([\])]|\\[a-z]+|\$|\*\*/);
    expect(html).not.toMatch(/ style="|katex-error|[\ue000\ue001]/);
  }
});
