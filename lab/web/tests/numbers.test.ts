import { describe, expect, test } from "vitest";
import { outlines, powers, scaleOf } from "../src/parts/chart.ts";
import { amountText, countText, estimateText, numberText, powerText, weightText } from "../src/parts/numbers.ts";

describe("numbers are short, and never rounded to something they are not", () => {
  test.each([
    [0.5, "0.50"], [0, "0.00"], [1, "1.00"], [0.001, "<.01"], [0.999, ">.99"], [Number.NaN, "NaN"],
  ])("the weight %d is %s", (weight, text) => expect(weightText(weight)).toBe(text));

  test.each([
    [0, "0"], [-2.5, "−2.5"], [1234.5, "1230"], [29503488, "2.95 × 10⁷"], [-3.4e-7, "−3.40 × 10⁻⁷"], [Number.NEGATIVE_INFINITY, "−∞"],
  ])("the number %d is %s", (value, text) => expect(numberText(value)).toBe(text));

  test.each([
    [0.8612, 0.0123, "0.86 ± 0.01"], [0.3201, 0.0089, "0.320 ± 0.009"], [61.46, 3.2, "61 ± 3"], [-0.0024, 0.03, "0.00 ± 0.03"],
    [5.1e-6, 3.9e-6, "(5 ± 4) × 10⁻⁶"], [2.302, 0, "2.3"], [512, 14, "512 ± 14"],
  ])("%d with an error of %d is %s", (value, error, text) => expect(estimateText(value, error)).toBe(text));

  test.each([
    [196, "", "196"], [29503488, "", "29.5\u202fM"], [1843968, "B", "1.84\u202fMB"], [10070523904, "B", "10.1\u202fGB"], [12, "B", "12\u202fB"],
    [999999, "", "1\u202fM"],
  ])("the amount %d%s is %s", (amount, unit, text) => expect(amountText(amount, unit)).toBe(text));

  test("counts and powers", () => expect([countText(1048576), powerText(-6), powerText(3)]).toEqual(["1\u202f048\u202f576", "10⁻⁶", "10³"]));
});

describe("a chart", () => {
  test("puts equal ratios at equal distances, and what lies beyond at the end", () => {
    const x = scaleOf({ label: "", least: 4, most: 64, ticks: [], log: true }, [0, 100]);
    expect([4, 16, 64, 1, 500].map((each) => Math.round(x(each)))).toEqual([0, 50, 100, 0, 100]);
  });

  test("draws a band one standard error to either side, around measured points only", () => {
    const same = (value: number) => value;
    const points = [{ x: 0, y: 5, error: 1 }, { x: 1, y: 7, error: 2 }];
    expect(outlines(points, same, same)).toEqual({ line: "M0.0,5.0L1.0,7.0", band: "M0.0,6.0L1.0,9.0L1.0,5.0L0.0,4.0Z" });
    expect(outlines([{ x: 0, y: 5 }], same, same).band).toBe("");
    expect(outlines([], same, same)).toEqual({ line: "", band: "" });
  });

  test("counts powers", () => expect([powers(4, 32), powers(1e-2, 1, 10)]).toEqual([[4, 8, 16, 32], [0.01, 0.1, 1]]));
});
