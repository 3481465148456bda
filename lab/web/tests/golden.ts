/** The golden values that the Python library writes, and how close a mirror of it has to come. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";

const folder = join(import.meta.dirname, "../../../tests/golden");

export function golden(name: string): any {
  const special: Record<string, number> = { "-inf": Number.NEGATIVE_INFINITY, nan: Number.NaN };
  return JSON.parse(readFileSync(join(folder, `${name}.json`), "utf8"), (_, value) => special[value] ?? value);
}

/** The same names and lengths all the way down, texts and flags equal, numbers within `tolerance` · max(1, |number|). */
export function expectClose(found: unknown, wanted: unknown, tolerance = 1e-12, at = "value"): void {
  if (typeof wanted === "number" && Number.isFinite(wanted) && typeof found === "number") {
    const off = Math.abs(found - wanted);
    expect(off <= tolerance * Math.max(1, Math.abs(wanted)), `${at}: ${found} is not ${wanted}`).toBe(true);
  } else if (wanted !== null && typeof wanted === "object") {
    expect(Object.keys(found as object).sort(), at).toEqual(Object.keys(wanted).sort());
    for (const [key, each] of Object.entries(wanted)) expectClose((found as any)[key], each, tolerance, `${at}.${key}`);
  } else expect(found, at).toEqual(wanted);
}
