/** Lengths and widths that the figures of cost can be set to: powers of two, and sizes that are known by name. */
import { countText } from "../../parts/numbers.ts";

export const LENGTHS = [8, 16, 32, 50, 64, 128, 196, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 50176, 65536, 131072];
export const WIDTHS = [16, 32, 64, 128, 256, 512, 768, 1024, 2048, 4096, 8192];

const NAMES: Record<number, string> = { 50: "a long sentence", 196: "14 × 14 patches", 50176: "224 × 224 pixels" };

/** "196, 14 × 14 patches". */
export const lengthText = (n: number): string => countText(n) + (NAMES[n] ? `, ${NAMES[n]}` : "");

/** A test for a value of the address: one of these. */
export const oneOf = (values: number[]) => (value: number) => values.includes(value);
