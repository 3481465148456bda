declare module "virtual:pages" {
  export type Page = import("../build/pages.ts").Page;
  const pages: Page[];
  export default pages;
}
declare module "virtual:lessons" {
  const lessons: Record<string, () => Promise<{ default: import("./content.ts").Lesson }>>;
  export default lessons;
}
declare module "virtual:cards" {
  const cards: Record<string, () => Promise<{ default: import("./content.ts").Card }>>;
  export default cards;
}
declare module "virtual:questions" {
  const questions: { slug: string; title: string; question: import("./content.ts").Question }[];
  export default questions;
}

/** A formula in the line, written in TeX; build/math.js renders it while the site is built. */
declare const tex: typeof String.raw;
/** A formula on a line of its own. */
declare const display: typeof String.raw;
