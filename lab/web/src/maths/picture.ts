/** A small picture to attend in: two suns, a sky and a field, in three channels from −1 to 1, with noise that any language
 * makes alike, because it is whole numbers until the last step. */
import type { Matrix } from "./formula.ts";

export const HEIGHT = 15;
export const WIDTH = 24;

// Park and Miller 1988: random enough for a picture, and exact in float64.
const MULTIPLIER = 16807;
const MODULUS = 2147483647;

const SUN = [0.9, -0.1, -0.8];
const SKY = [-0.7, 0.1, 0.8];
const FIELD = [-0.5, 0.4, -0.8];
const SUNS = [
  { row: 4, column: 5, radius: 3.3 },
  { row: 5, column: 18, radius: 3.3 },
];

function clean(row: number, column: number): number[] {
  if (row >= 10) return FIELD;
  return SUNS.some((sun) => (row - sun.row) ** 2 + (column - sun.column) ** 2 <= sun.radius ** 2) ? SUN : SKY;
}

/** Pixels row by row: (HEIGHT · WIDTH, 3). Each number is off by at most `noise`, and stays from −1 to 1. */
export function picture(noise: number): Matrix {
  let seed = 1;
  const off = () => {
    seed = (seed * MULTIPLIER) % MODULUS;
    return (2 * seed) / MODULUS - 1;
  };
  return Array.from({ length: HEIGHT * WIDTH }, (_, pixel) =>
    clean(Math.floor(pixel / WIDTH), pixel % WIDTH).map((level) => Math.min(1, Math.max(-1, level + noise * off()))),
  );
}
