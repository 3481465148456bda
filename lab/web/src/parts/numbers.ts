/** Numbers as the lab writes them: short, and never rounded to something they are not. */

/** A weight: two digits; what is there but too small to show says so. */
export function weightText(weight: number): string {
  if (Number.isNaN(weight)) return "NaN";
  if (weight > 0 && weight < 0.005) return "<.01";
  if (weight < 1 && weight >= 0.995) return ">.99";
  return weight.toFixed(2);
}

/** A number in at most `digits` significant digits, with a true minus sign. */
export function numberText(value: number, digits = 3): string {
  if (value === Number.POSITIVE_INFINITY) return "∞";
  if (value === Number.NEGATIVE_INFINITY) return "−∞";
  if (Number.isNaN(value)) return "NaN";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e6 || size < 1e-4 ? value.toExponential(digits - 1) : String(Number(value.toPrecision(digits)));
  return text.replace(/^-/, "−").replace(/e([+-]?)(\d+)/, (_, sign: string, power: string) => ` × ${powerText(Number(sign + power))}`);
}

/** A measured number and its standard error, to the same place: "0.32 ± 0.03", "(5 ± 4) × 10⁻⁶". */
export function estimateText(value: number, error: number): string {
  if (!(error > 0)) return numberText(value);
  const size = Math.max(Math.abs(value), error);
  const power = size < 1e-3 ? Math.floor(Math.log10(size)) : 0;
  const digits = Math.max(0, power - Math.floor(Math.log10(error)));
  const text = (each: number) => (each / 10 ** power).toFixed(digits).replace(/^-(?=.*[1-9])/, "−").replace(/^-/, "");
  const both = `${text(value)} ± ${text(error)}`;
  return power ? `(${both}) × ${powerText(power)}` : both;
}

/** 10 to a whole power: "10⁻⁶". */
export const powerText = (power: number): string => `10${superscript(String(power).replace("-", "−"))}`;

const PREFIXES: [number, string][] = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** A large amount in three digits: 29503488 -> "29.5 M", with a unit "1.84 MB". */
export function amountText(amount: number, unit = ""): string {
  const rounded = Number(amount.toPrecision(3));
  const [size, prefix] = PREFIXES.find(([size]) => rounded >= size) ?? [1, ""];
  return `${Number((rounded / size).toPrecision(3))}\u202f${prefix}${unit}`.trimEnd();
}

const superscript = (text: string): string => text.replace(/[0-9−]/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"["0123456789−".indexOf(digit)]);

/** A count with thin spaces between thousands: 1048576 -> "1 048 576". */
export const countText = (count: number): string => String(Math.round(count)).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");

/** A row of numbers as Python writes a list. */
export const listText = (row: number[], digits = 4): string => `[${row.map((value) => String(Number(value.toPrecision(digits)))).join(", ")}]`;

/** A matrix of numbers as Python writes a list of lists. */
export const matrixText = (rows: number[][], digits = 6): string => `[${rows.map((row) => listText(row, digits)).join(", ")}]`;
