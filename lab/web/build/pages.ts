/** The pages of the site. Each is an HTML file in one folder, so that any web server can hand them out at any address. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "smol-toml";
import type { Plugin } from "vite";

export interface Page {
  /** The file in the folder of the site. */
  file: string;
  /** The component in src/views that shows it, without `.svelte`. */
  view: string;
  /** Which lesson or card, where one component shows many. */
  slug: string;
  title: string;
  description: string;
  /** The part of the site that it belongs to; pages of one part follow each other. */
  part: "home" | "read" | "learn" | "cards";
  /** Files of the essay that tell more of a lesson or card. */
  read: string[];
}

const content = join(import.meta.dirname, "../../src/qkv_lab");

const essay: [file: string, view: string, title: string, description: string][] = [
  ["three-names", "ThreeNames", "Three names", "One token becomes a query, a key and a value: attention as a soft dictionary."],
  ["one-token", "OneToken", "One token", "Score, softmax, average: attention of one query over eight tokens, step by step."],
  ["all-at-once", "AllAtOnce", "All at once", "The matrix form of attention, with shapes that follow your sizes, for tokens and for pixels."],
  ["why-scale", "WhyScale", "Why √dₖ", "The experiment behind the scale, run in your browser: what wide keys do to a softmax."],
  ["heads", "Heads", "Heads", "The same width cut into slices, each with an opinion of its own."],
  ["cost", "Cost", "What it costs", "Projections against pairs, from a sentence to the pixels of a picture."],
  ["map", "Map", "The map as a picture", "A trained head, and what its picture does not prove."],
  ["three-roles", "ThreeRoles", "Three roles", "Self, causal and cross attention: one formula, other inputs."],
];

interface Heading {
  title: string;
  summary: string;
  read?: string[];
}

/** Folders of content in order, with the heading of each. Names sort: `1-scores` comes before `2-softmax`. */
export function folders(kind: "lessons" | "cards", heading: string): { slug: string; folder: string; heading: Heading }[] {
  const root = join(content, kind);
  if (!existsSync(root)) return [];
  return readdirSync(root, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && existsSync(join(root, entry.name, heading)))
    .map((entry) => ({ name: entry.name, folder: join(root, entry.name) }))
    .sort((a, b) => Number.parseInt(a.name) - Number.parseInt(b.name))
    .map(({ name, folder }) => ({
      slug: name.replace(/^\d+-/, ""),
      folder,
      heading: parse(readFileSync(join(folder, heading), "utf8")) as unknown as Heading,
    }));
}

/** The files of the parts of the essay that a lesson or card names. */
function partsOf({ title, read = [] }: Heading): string[] {
  const lost = read.find((name) => !essay.some(([file]) => file === name));
  if (lost) throw new Error(`“${title}” names ${lost} to read; the essay has ${essay.map(([file]) => file).join(", ")}`);
  return read.map((name) => `${name}.html`);
}

export function pages(): Page[] {
  const lessons = folders("lessons", "lesson.toml");
  const cards = folders("cards", "card.toml");
  const home = "Read how attention works, try every figure, and prove your own code, in the browser.";
  return [
    { file: "index.html", view: "Home", slug: "", title: "qkv lab", description: home, part: "home", read: [] },
    ...essay.map(([file, view, title, description]): Page => ({ file: `${file}.html`, view: `read/${view}`, slug: "", title, description, part: "read", read: [] })),
    { file: "learn.html", view: "learn/Chapter", slug: "", title: "All lessons", description: `${lessons.length} lessons: predict, compute by hand, write it in Python, and have it checked.`, part: "learn", read: [] },
    ...lessons.map(({ slug, heading }): Page => ({ file: `lesson-${slug}.html`, view: "learn/Lesson", slug, title: heading.title, description: heading.summary, part: "learn", read: partsOf(heading) })),
    { file: "cards.html", view: "cards/Cards", slug: "", title: "All cards", description: `${cards.length} ideas of attention, each in three depths.`, part: "cards", read: [] },
    ...cards.map(({ slug, heading }): Page => ({ file: `card-${slug}.html`, view: "cards/Card", slug, title: heading.title, description: heading.summary, part: "cards", read: partsOf(heading) })),
    { file: "test.html", view: "cards/Test", slug: "", title: "Test", description: "A test drawn from all cards; every answer explains itself.", part: "cards", read: [] },
  ];
}

/** What a page may load: what comes with it, and nothing from outside. Python needs WebAssembly. */
export const policy =
  "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; font-src 'self'; img-src 'self' data: blob:; " +
  "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'";

function fill(html: string, page: Page): string {
  const values: Record<string, string> = { view: page.view, slug: page.slug, description: page.description, csp: policy, title: page.part === "home" ? "qkv lab" : `${page.title} · qkv lab` };
  return html.replace(/%(view|slug|title|description|csp)%/g, (_, name: string) => values[name].replace(/&/g, "&amp;").replace(/"/g, "&quot;"));
}

/** Writes an HTML file for each page, from the one template, and tells the site of its pages as `virtual:pages`. */
export function sitePages(): Plugin {
  return {
    name: "pages",
    enforce: "post",
    resolveId: (id) => (id === "virtual:pages" ? "\0virtual:pages" : undefined),
    load: (id) => (id === "\0virtual:pages" ? `export default ${JSON.stringify(pages())}` : undefined),
    configureServer(server) {
      // Vite's own client puts styles into the page as it develops, which the policy of the built site would refuse.
      return () => {
        server.middlewares.use(async (request, answer, next) => {
          const file = (request.originalUrl ?? "/").split(/[?#]/)[0].slice(1) || "index.html";
          const page = pages().find((each) => each.file === file);
          if (!page) return next();
          const template = readFileSync(join(server.config.root, "index.html"), "utf8").replace(/.*Content-Security-Policy.*\n/, "");
          answer.setHeader("Content-Type", "text/html");
          answer.end(await server.transformIndexHtml(request.url ?? "/", fill(template, page)));
        });
      };
    },
    generateBundle(_, bundle) {
      const template = bundle["index.html"];
      if (template?.type !== "asset") return;
      const html = String(template.source);
      for (const page of pages()) {
        if (page.file === "index.html") template.source = fill(html, page);
        else this.emitFile({ type: "asset", fileName: page.file, source: fill(html, page) });
      }
    },
  };
}
