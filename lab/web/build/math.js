/** Formulas become HTML and MathML while the site is built, so that no page carries KaTeX.
 *
 * KaTeX places its glyphs by inline styles, which the site's content security policy refuses. Each such style becomes a
 * class here, and all of them one small style sheet. */
import katex from "katex";

/** @type {Map<string, string>} */
const styles = new Map();

/** @param {string} tex
 * @param {boolean} displayMode */
function rendered(tex, displayMode) {
  const html = katex.renderToString(tex, { displayMode, throwOnError: true, strict: "error", trust: false });
  return html.replace(/ class="([^"]*)" style="([^"]*)"| style="([^"]*)"/g, (_, /** @type {string} */ names, /** @type {string} */ after, /** @type {string} */ alone) => {
    const style = after ?? alone;
    if (!styles.has(style)) styles.set(style, `m${styles.size.toString(36)}`);
    return ` class="${names ? `${names} ` : ""}${styles.get(style)}"`;
  });
}

/** TeX to HTML without inline styles. `display` sets it on a line of its own; what `\qquad` sets apart there stands side by
 * side where the page is wide enough, and else below each other. One that is wider still scrolls, so the keyboard reaches it.
 * @param {string} tex */
export function formula(tex, display = false) {
  if (!display) return rendered(tex, false);
  const parts = tex.split("\\qquad").map((part) => rendered(part, true));
  return `<span class="formulas" tabindex="0" role="group" aria-label="Formula">${parts.join("")}</span>`;
}

/** A formula in the line with the mark after it. A line may break between the two, so short ones are held together.
 * @param {string} html
 * @param {string} tex
 * @param {string} mark */
const withMark = (html, tex, mark) => (mark && tex.length <= 24 ? `<span class="whole">${html}${mark}</span>` : html + mark);

/** The styles that the formulas made so far need. */
export function mathSheet() {
  return [...styles].map(([style, name]) => `.katex .${name}{${style}}`).join("\n");
}

/** In Svelte markup, {@html tex`…`} is a formula in the line and {@html display`…`} one of its own: TypeScript knows the
 * two as functions (src/virtual.d.ts), and here their calls become the HTML that they stand for. */
export const mathInMarkup = {
  name: "math",
  /** @param {{ content: string; filename?: string }} source */
  markup({ content, filename }) {
    if (filename?.includes("node_modules")) return { code: content };
    const code = content
      .replace(/\{@html display`([^`]*)`\}/g, (_, tex) => `{@html ${JSON.stringify(formula(tex.trim(), true))}}`)
      .replace(/\{@html tex`([^`]*)`\}([.,;:?!)]?)/g, (_, tex, mark) => withMark(`{@html ${JSON.stringify(formula(tex.trim()))}}`, tex, mark));
    return { code };
  },
};

/** Puts `wrap(html)` where a text has `\(…\)` or `\[…\]`.
 * @param {string} text
 * @param {(html: string) => string} wrap */
export function replaceFormulas(text, wrap) {
  return text
    .replace(/\\\[([\s\S]+?)\\\]/g, (_, /** @type {string} */ tex) => wrap(formula(tex.trim(), true)))
    .replace(/\\\(([\s\S]+?)\\\)([.,;:?!)]?)/g, (_, /** @type {string} */ tex, mark) => wrap(withMark(formula(tex.trim()), tex, mark)));
}

/** Serves and writes the style sheet of the formulas; of KaTeX's fonts it keeps woff2, which every browser of these years reads.
 * @returns {import("vite").Plugin} */
export function math() {
  return {
    name: "math",
    enforce: "pre",
    configureServer(server) {
      server.middlewares.use("/assets/math.css", (_, answer) => {
        answer.setHeader("Content-Type", "text/css");
        answer.end(mathSheet());
      });
    },
    generateBundle: {
      order: "post",
      handler(_, bundle) {
        for (const [name, file] of Object.entries(bundle)) {
          if (/KaTeX[^/]*\.(woff|ttf)$/.test(name)) delete bundle[name];
          else if (file.type === "asset" && name.endsWith(".css"))
            file.source = String(file.source).replace(/,url\([^)]*KaTeX[^)]*\.(woff|ttf)\) ?format\("[a-z]+"\)/g, "");
        }
        this.emitFile({ type: "asset", fileName: "assets/math.css", source: mathSheet() });
      },
    },
    transformIndexHtml: () => [{ tag: "link", attrs: { rel: "stylesheet", href: "./assets/math.css" }, injectTo: /** @type {const} */ ("head") }],
  };
}
