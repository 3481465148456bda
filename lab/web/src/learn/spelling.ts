/** Reads numbers as people write them: [3, 2] · 3 2 · 3;2 · (3, 2) · 3.0,2. · −1/2 · 1/√2 · 25% · 1.5×10^-3 · 0,5. */

/** Rows of numbers; one row where the text has no rows. */
export type Rows = number[][];

/** What can't be read, in words for the learner. */
export class Unreadable extends Error {}

const NUMBER = String.raw`(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf`;
const TOKEN = new RegExp(String.raw`^([+-]?)(√?)(${NUMBER})(?:\/([+-]?)(√?)(${NUMBER}))?(%?)$`);
const DECIMAL_COMMA = /^[+-]?(?:\d+,\d+|\d+)%?$/;

/** One way to write each sign: minus, brackets, fractions, powers of ten. Names and calls around the numbers go. */
function plain(text: string): string {
  return text
    .replace(/(?<!\d)[¼-¾⅐-⅞]|[！-～]/g, (sign) => sign.normalize("NFKC"))
    .replace(/⁻?[⁰¹²³⁴-⁹]+/g, (power) => `^${power.normalize("NFKC")}`)
    .replace(/[−–—﹣]/g, "-")
    .replace(/[⁄÷]/g, "/")
    .replace(/^\s*[\p{L}_]\w*\s*=\s*/u, "")
    .replace(/\b(?:np|numpy|torch)\.|\b(?:array|asarray|tensor)\b|\bfloat(?=\()/g, "")
    .toLowerCase()
    .replace(/∞|infinity/g, "inf")
    .replace(/(?:math\.)?sqrt\s*(?=[(\d.])/g, "√")
    .replace(/√\s*\(\s*([\d.]+)\s*\)/g, "√$1")
    .replace(/√\s+/g, "√")
    .replace(/\s*[×x*·]\s*10\s*(?:\^|\*\*)\s*(?:\(\s*([+-]?\d+)\s*\)|([+-]?\d+))/g, "e$1$2")
    .replace(/\s*\/\s*/g, "/")
    .replace(/\s+%/g, "%")
    .replace(/(^|[,;([{\n])\s*([+-])\s+(?=[\d.√i])/g, "$1$2");
}

function size(root: string, digits: string): number {
  const value = digits === "inf" ? Number.POSITIVE_INFINITY : Number(digits);
  return root ? Math.sqrt(value) : value;
}

function value(token: string): number {
  const match = TOKEN.exec(token);
  if (!match) throw new Unreadable(`“${token}” is not a number.`);
  const [, sign, root, digits, under, underRoot, divisor, percent] = match;
  const top = size(root, digits) * (sign === "-" ? -1 : 1);
  const bottom = divisor === undefined ? 1 : size(underRoot, divisor) * (under === "-" ? -1 : 1);
  return top / bottom / (percent ? 100 : 1);
}

const words = (text: string, separators: RegExp): string[] => text.split(separators).filter((word) => word !== "");

/** Rows stand on lines, in brackets of their own, or between semicolons. */
function rowTexts(text: string): string[] {
  const inner = text.replace(/^[[({]\s*(?=[[({])(.*?)[\])}]?$/s, "$1");
  const between = /[\])}][\s,;]*[[({]/.test(inner) ? /[\])}][\s,;]*[[({]/ : inner.includes("\n") ? /\n/ : /;/;
  return inner.split(between).map(bare).filter((row) => row !== "");
}

const bare = (text: string): string => text.replace(/[[\](){}]/g, " ").trim();

/** What thousands that stand apart can mean: 1 048 576 and 1,048,576 one number, 1,024 any of three things. */
function thousands(text: string): Rows[] {
  const whole = Number(text.replace(/[^\d+-]/g, ""));
  if (/^[+-]?\d{1,3}(?:(?:[ \u00a0\u202f\u2009]\d{3})+|(?:,\d{3}){2,}|(?:_\d{3})+)$/.test(text)) return [[[whole]]];
  if (/^[+-]?\d{1,3},\d{3}$/.test(text)) return [[[Number(text.replace(",", "."))]], [[whole]]];
  return [];
}

/** Every way to read the text: with commas between numbers, with commas inside them, with thousands apart.
 * Throws Unreadable where there is none. */
export function readings(text: string): Rows[] {
  const cleaned = plain(text).trim();
  const found = /[[({]/.test(cleaned) ? [] : thousands(cleaned);
  const rows = rowTexts(cleaned);
  const spaced = rows.map((row) => words(row, /[\s;]+/));
  const inside = spaced.flat().every((word) => DECIMAL_COMMA.test(word)) && rows.some((row) => row.includes(","));
  if (inside && !found.length) found.push(spaced.map((row) => row.map((word) => value(word.replace(",", ".")))));
  if (found.length && !/[,;\s]/.test(cleaned)) return found;
  found.push(rows.map((row) => words(row, /[,;\s]+/).map(value)));
  return found;
}
