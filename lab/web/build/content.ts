/** Reads the lessons and cards of qkv_lab while the site is built, and gives each as a module of its own. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "smol-toml";
import type { Plugin } from "vite";
import type { Card, Lesson, Question, Typed } from "../src/content.ts";
import { blocks, line } from "./markdown.ts";
import { folders } from "./pages.ts";

type Table = Record<string, any>;

const text = (...path: string[]): string => readFileSync(join(...path), "utf8");
const toml = (...path: string[]): Table => parse(text(...path)) as Table;

function question(table: Table): Question {
  return {
    ask: line(table.ask),
    options: table.options.map((each: Table) => ({ text: line(each.text), right: each.right === true, why: line(each.why) })),
  };
}

function typed(table: Table): Typed {
  return {
    ask: line(table.ask),
    label: line(table.label),
    answer: table.answer,
    tolerance: table.tolerance ?? 0,
    slips: (table.slips ?? []).map((slip: Table) => ({ answer: slip.answer, name: line(slip.name) })),
  };
}

function pythonFiles(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).map((name) => name.replaceAll("\\", "/"));
  return Object.fromEntries(names.filter((name) => name.endsWith(".py")).sort().map((name) => [name, text(folder, name)]));
}

export function lesson(folder: string): Lesson {
  const table = toml(folder, "lesson.toml");
  const { "example.py": example, ...python } = pythonFiles(folder);
  return {
    title: table.title,
    summary: table.summary,
    figure: table.figure ?? "",
    idea: blocks(text(folder, "idea.md")),
    predict: question(table.predict),
    typed: table.typed.map(typed),
    task: blocks(text(folder, "task.md")),
    check: question(table.check),
    hints: table.hints.map(line),
    reference: blocks(text(folder, "reference.md")),
    example,
    python,
  };
}

export function card(folder: string): Card {
  const table = toml(folder, "card.toml");
  return {
    title: table.title,
    summary: table.summary,
    brief: blocks(text(folder, "brief.md")),
    more: blocks(text(folder, "more.md")),
    deep: blocks(text(folder, "deep.md")),
    question: question(table.question),
  };
}

const lessons = () => folders("lessons", "lesson.toml");
const cards = () => folders("cards", "card.toml");
const lookup = (kind: string, slugs: string[]): string =>
  `export default { ${slugs.map((slug) => `${JSON.stringify(slug)}: () => import("virtual:${kind}/${slug}")`).join(", ")} };`;
const questions = () => cards().map(({ slug, folder }) => ({ slug, title: card(folder).title, question: card(folder).question }));

function source(id: string): string | undefined {
  const [, kind, slug] = /^virtual:(lessons|cards|questions|lesson|card)(?:\/(.+))?$/.exec(id) ?? [];
  if (kind === "lessons") return lookup("lesson", lessons().map((each) => each.slug));
  if (kind === "cards") return lookup("card", cards().map((each) => each.slug));
  if (kind === "questions") return `export default ${JSON.stringify(questions())};`;
  const found = (kind === "lesson" ? lessons() : kind === "card" ? cards() : []).find((each) => each.slug === slug);
  if (!found) return undefined;
  return `export default ${JSON.stringify(kind === "lesson" ? lesson(found.folder) : card(found.folder))};`;
}

/** `virtual:lessons` and `virtual:cards` load one by its name; `virtual:questions` has the question of every card. */
export function siteContent(): Plugin {
  return {
    name: "content",
    resolveId: (id) => (/^virtual:(lessons?|cards?|questions)(\/|$)/.test(id) ? `\0${id}` : undefined),
    load: (id) => (id.startsWith("\0virtual:") ? source(id.slice(1)) : undefined),
  };
}
