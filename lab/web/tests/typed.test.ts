import { describe, expect, it } from "vitest";
import type { Answer, Slip, Typed } from "../src/content.ts";
import { exactness, judged } from "../src/learn/typed.ts";

const asks = (answer: Answer, tolerance = 0, slips: Slip[] = []): Typed => ({ ask: "", label: "", answer, tolerance, slips });
const state = (text: string, answer: Answer, tolerance = 0): string => judged(text, asks(answer, tolerance)).state;
const says = (text: string, answer: Answer, tolerance = 0): string => judged(text, asks(answer, tolerance)).says;

describe("a list is read in any reasonable spelling", () => {
  const spellings = [
    "[3, 2]", "3 2", "3;2", "(3,2)", "3.0,2.", "3, 2", " 3  2 ", "{3; 2}", "[3 2]", "[3,2", "3,2]", "３，２", "+3 +2", "6/2 4/2", "3e0, 20e-1",
    "q = [3, 2]", "np.array([3, 2])", "array([3., 2.])", "[[3, 2]]", "3\n2", "3,0 2,0", "3,0; 2,0", "[3,\u00a02]", "√9, √4", "sqrt(9) 2", "300% 200%", "30×10^-1, 2", "3.0·10⁰ 2",
  ];
  for (const text of spellings) it(JSON.stringify(text), () => expect(judged(text, asks([3, 2]))).toEqual({ state: "right", says: "Right." }));
});

describe("signs, fractions and decimal commas", () => {
  for (const minus of ["-", "−", "–", "—", "﹣", "－"]) {
    it(`minus ${minus}`, () => expect(state(`${minus}1, ${minus}2.5`, [-1, -2.5])).toBe("right"));
    it(`minus ${minus} with a space after it`, () => expect(state(`[${minus} 1, ${minus} 2.5]`, [-1, -2.5])).toBe("right"));
  }
  const numbers: [string, number][] = [
    ["1/2", 0.5], ["-1/2", -0.5], ["1 / 2", 0.5], ["½", 0.5], ["-¾", -0.75], ["0,5", 0.5], [".5", 0.5], ["50%", 0.5], ["50 %", 0.5], ["1/√4", 0.5], ["1/sqrt(4)", 0.5],
    ["5e-1", 0.5], ["5×10^-1", 0.5], ["5 · 10⁻¹", 0.5], ["1 048 576", 1048576], ["1,048,576", 1048576], ["1\u202f048\u202f576", 1048576], ["1_000", 1000], ["-inf", Number.NEGATIVE_INFINITY], ["−∞", Number.NEGATIVE_INFINITY],
  ];
  for (const [text, value] of numbers) it(`${text} is ${value}`, () => expect(state(text, value)).toBe("right"));
  it("a comma stands inside a number only where that gives the right count", () => {
    expect(state("1,5 2,5", [1.5, 2.5])).toBe("right");
    expect(state("1,5 2,5", [1, 5, 2, 5])).toBe("right");
    expect(state("1,5", [1, 5])).toBe("right");
    expect(state("1,5", 1.5)).toBe("right");
  });
  it("1,024 is asked about, not guessed", () => {
    expect(judged("1,024", asks(1024))).toEqual({ state: "unread", says: "“1,024” can be 1.024 or 1024. Write one of these." });
    expect(state("1,024", [1, 24])).toBe("right");
  });
});

describe("a matrix", () => {
  const answer = [[1, 0, 2], [-1, 1, 0.5]];
  const spellings = ["[[1, 0, 2], [-1, 1, 0.5]]", "1 0 2\n-1 1 0.5", "1 0 2; -1 1 1/2", "(1,0,2),(-1,1,.5)", "[1 0 2] [-1 1 0.5]", "[[ 1.   0.   2. ]\n [-1.   1.   0.5]]", "1,0,2\n-1,1,0.5\n", "[1,0,2];[-1,1,0.5]", "1;0;2\n-1;1;0,5", "W = [[1,0,2],[-1,1,0.5]]"];
  for (const text of spellings) it(JSON.stringify(text), () => expect(state(text, answer)).toBe("right"));
  it("transposed has another shape, and is told which", () => expect(says("1 -1; 0 1; 2 0.5", answer)).toMatch(/^That is 3 rows of 2 numbers; this asks for 2 rows of 3 numbers\./));
  it("without rows has no rows", () => expect(says("1 0 2 -1 1 0.5", answer)).toMatch(/^That is one row of 6 numbers/));
  it("the row that is off is named", () => expect(says("1 0 2; -1 1 5", answer)).toBe("Not yet: look at row 2."));
});

describe("what can't be read or counted has one clear message", () => {
  const messages: [string, Answer, string][] = [
    ["3, x", [3, 2], "“x” is not a number. Write it like <code>[10.5, 11.5]</code>."],
    ["3 - 2", [3, 2], "“-” is not a number. Write it like <code>[10.5, 11.5]</code>."],
    ["12½", 12.5, "“12½” is not a number. Write it like <code>12.5 or 25/2</code>."],
    ["3", [3, 2], "That is one number; this asks for 2 numbers, like <code>[10.5, 11.5]</code>."],
    ["3 2 1", [3, 2], "That is 3 numbers; this asks for 2 numbers, like <code>[10.5, 11.5]</code>."],
    ["[]", [3, 2], "That is no number; this asks for 2 numbers, like <code>[10.5, 11.5]</code>."],
    ["3 2", 3, "That is 2 numbers; this asks for one number, like <code>12.5 or 25/2</code>."],
    ["1.2.3", 3, "“1.2.3” is not a number. Write it like <code>12.5 or 25/2</code>."],
    ["the values", "V", "This asks for one letter."],
    ["", "V", "Type an answer: one letter."],
    ["<b>", 3, "“&#60;b&#62;” is not a number. Write it like <code>12.5 or 25/2</code>."],
  ];
  for (const [text, answer, message] of messages) it(JSON.stringify(text), () => expect(judged(text, asks(answer))).toEqual({ state: "unread", says: message }));
});

describe("letters", () => {
  for (const text of ["V", "v", " V. ", "(V)", "“v”"]) it(text, () => expect(state(text, "V")).toBe("right"));
  it("another letter is wrong", () => expect(state("K", "V")).toBe("wrong"));
  it("another letter can be a slip", () => expect(judged("k", asks("V", 0, [{ answer: "K", name: "keys are matched" }]))).toEqual({ state: "slip", says: "keys are matched" }));
});

describe("numbers that are off", () => {
  it("names which", () => {
    expect(says("3, 5", [3, 2])).toBe("Not yet: the second number is off.");
    expect(says("4, 5", [3, 2])).toBe("Not yet.");
    expect(says("1 5 6", [1, 2, 3])).toBe("Not yet: 2 of 3 numbers are off.");
  });
  it("takes what the tolerance allows, and no more", () => {
    expect(state("0.67", 0.6698, 0.005)).toBe("right");
    expect(state("0.6748", 0.6698, 0.005)).toBe("right");
    expect(state("0.6750", 0.6698, 0.005)).toBe("wrong");
    expect(says("0.70", 0.6698, 0.005)).toBe("Close, but not within 0.005. Round at the very end.");
    expect(says("0.9", 0.6698, 0.005)).toBe("Not yet.");
  });
  it("an exact answer forgives float64 and nothing else", () => {
    expect(state("0.3", 0.1 + 0.2)).toBe("right");
    expect(state("0.3001", 0.3)).toBe("wrong");
  });
  it("says how exact it has to be", () => {
    expect(exactness(asks(1, 0.01))).toBe("within 0.01");
    expect(exactness(asks([1, 2]))).toBe("exact");
    expect(exactness(asks("V"))).toBe("");
  });
});

describe("slips have their names said", () => {
  const typed = asks([3, 2], 0.01, [{ answer: [2, 1], name: "that is x·W_k" }, { answer: 5, name: "that is their sum" }, { answer: [[3], [2]], name: "that is a column" }]);
  it("in any spelling", () => {
    for (const text of ["[2, 1]", "2;1", "2.004 1", "k = (2, 1)"]) expect(judged(text, typed)).toEqual({ state: "slip", says: "that is x·W_k" });
  });
  it("of another shape too", () => expect(judged("5", typed).says).toBe("that is their sum"));
  it("never for the right answer", () => expect(judged("3 2", asks([3, 2], 1, [{ answer: [3, 2.5], name: "near" }])).state).toBe("right"));
  it("never for another wrong answer", () => expect(judged("7 7", typed).state).toBe("wrong"));
});

describe("whatever numbers are asked for, their spellings are right and their neighbours wrong", () => {
  const joins = [(row: string[]) => row.join(" "), (row: string[]) => row.join(", "), (row: string[]) => `[${row.join(",")}]`, (row: string[]) => `(${row.join("; ")})`];
  for (let seed = 1; seed <= 40; seed++) {
    const row = Array.from({ length: 1 + (seed % 4) }, (_, c) => Math.round(1000 * Math.sin(seed * 12.9898 + c * 78.233)) / 100);
    it(row.join(" "), () => {
      for (const join of joins) {
        const texts = [row.map(String), row.map((each) => each.toFixed(3)), row.map((each) => String(each).replace("-", "−")), row.map((each) => `${Math.round(each * 100)}/100`)];
        for (const text of texts) expect(state(join(text), row), join(text)).toBe("right");
        expect(state(join(row.map((each) => String(each + 0.02))), row)).toBe("wrong");
      }
    });
  }
});
