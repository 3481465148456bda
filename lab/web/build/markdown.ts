/** The texts of lessons and cards: Markdown, with `\(…\)` and `\[…\]` for formulas. */
import MarkdownIt from "markdown-it";
import { replaceFormulas } from "./math.js";

const markdown = new MarkdownIt({ html: false, linkify: false, typographer: false });

// Tables scroll on their own where the page is narrow; a table is a region that the keyboard can reach.
markdown.renderer.rules.table_open = () => '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>';
markdown.renderer.rules.table_close = () => "</table></div>";

// So does a listing.
const listing = (tokens: { content: string }[], at: number): string => `<pre tabindex="0"><code>${markdown.utils.escapeHtml(tokens[at].content)}</code></pre>\n`;
markdown.renderer.rules.code_block = listing;
markdown.renderer.rules.fence = listing;

// The corner of a table whose rows have names is no heading: it has nothing to say.
const nameless = (tokens: { content: string }[], at: number): boolean => tokens[at + 1].content === "";
markdown.renderer.rules.th_open = (tokens, at) => (nameless(tokens, at) ? "<td>" : '<th scope="col">');
markdown.renderer.rules.th_close = (tokens, at) => (nameless(tokens, at - 2) ? "</td>" : "</th>");

function withFormulas(text: string, render: (text: string) => string): string {
  const formulas: string[] = [];
  const marked = replaceFormulas(text, (html) => `\u{e000}${formulas.push(html) - 1}\u{e001}`);
  return render(marked).replace(/\u{e000}(\d+)\u{e001}/gu, (_, at: string) => formulas[Number(at)]);
}

/** A text of paragraphs, lists and tables to HTML. */
export const blocks = (text: string): string => withFormulas(text, (marked) => markdown.render(marked));

/** One line to HTML, without a paragraph around it. */
export const line = (text: string): string => withFormulas(text, (marked) => markdown.renderInline(marked.trim()));
