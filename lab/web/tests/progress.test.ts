import { describe, expect, it } from "vitest";
import { joined, type LessonProgress, NotProgress, nothing, parsed, Progress } from "../src/learn/progress.ts";

function store(values: Record<string, string> = {}) {
  return { values, getItem: (key: string) => values[key] ?? null, setItem: (key: string, value: string) => void (values[key] = value) };
}

const lesson = (each: Partial<LessonProgress>): LessonProgress => ({ ...nothing(), ...each });
const text = (entries: unknown, more: object = {}): string => JSON.stringify({ madeBy: "qkv lab", version: 1, entries, ...more });

describe("what is kept", () => {
  it("is what was marked, and nothing else", () => {
    const progress = new Progress(store());
    progress.mark("card.softmax", { picked: 2 });
    expect(progress.done("card.softmax")).toEqual({ picked: 2 });
    expect(progress.done("card.soft")).toBeUndefined();
    expect(progress.empty()).toBe(false);
  });
  it("of a lesson grows by each change", () => {
    const progress = new Progress(store());
    progress.markLesson("heads", { predict: 2, answers: ["3 2"] });
    progress.markLesson("heads", { draft: "x = 1" });
    progress.markLesson("scores", { typed: true });
    expect(progress.lesson("heads")).toEqual({ predict: 2, answers: ["3 2"], typed: false, code: false, draft: "x = 1" });
    expect(progress.lesson("scores").typed).toBe(true);
    expect(progress.lesson("unknown")).toEqual(nothing());
  });
  it("of two open pages is both", () => {
    const shared = store();
    const [one, other] = [new Progress(shared), new Progress(shared)];
    one.markLesson("heads", { code: true });
    other.markLesson("scores", { code: true });
    expect([one.lesson("scores").code, other.lesson("heads").code]).toEqual([true, true]);
  });
  it("forgets a draft when the learner starts over", () => {
    const progress = new Progress(store());
    progress.markLesson("heads", { draft: "x = 1" });
    progress.markLesson("heads", { draft: undefined });
    expect("draft" in progress.lesson("heads")).toBe(false);
  });
  it("lasts as long as the page where the browser keeps nothing", () => {
    const refuse = () => { throw new Error("no"); };
    for (const none of [undefined, { getItem: refuse, setItem: refuse }, { getItem: () => null, setItem: refuse }]) {
      const progress = new Progress(none);
      progress.markLesson("heads", { typed: true });
      expect(progress.lesson("heads").typed).toBe(true);
      expect(progress.lasting).toBe(false);
    }
  });
  it("but can't be read is put aside, not lost", () => {
    for (const broken of ["{", text({}, { version: 2 }), "[]", '{"card.softmax":1}']) {
      const kept = store({ "qkv.progress": broken });
      const progress = new Progress(kept);
      expect(progress.empty()).toBe(true);
      progress.markLesson("heads", { typed: true });
      expect(kept.values["qkv.progress.aside"]).toBe(broken);
      expect(progress.lesson("heads").typed).toBe(true);
    }
  });
  it("is gone after a reset, or what begins with a prefix", () => {
    const progress = new Progress(store());
    progress.mark("card.softmax", 1);
    progress.markLesson("heads", { typed: true });
    progress.reset("card.");
    expect(progress.done("card.softmax")).toBeUndefined();
    expect(progress.lesson("heads").typed).toBe(true);
    progress.reset();
    expect(progress.empty()).toBe(true);
  });
});

describe("a text", () => {
  it("brings everything to another browser", () => {
    const [here, there] = [new Progress(store()), new Progress(store())];
    here.mark("card.softmax", { picked: 2 });
    here.markLesson("heads", { predict: 0, check: 1, answers: ["3 2", ""], typed: true, draft: "x = 'ü'\n", code: true });
    expect(there.import(here.export())).toEqual({ entries: 2, otherCode: 0 });
    expect(there.done("card.softmax")).toEqual({ picked: 2 });
    expect(there.lesson("heads")).toEqual(here.lesson("heads"));
  });

  const says: [string, string][] = [
    ["no json", "It is not a JSON file."],
    ["3", "It is not progress from qkv lab."],
    ["{}", "It is not progress from qkv lab."],
    [text({}, { madeBy: "another" }), "It is not progress from qkv lab."],
    [text({}, { version: undefined }), "It does not say its version."],
    [text({}, { version: 2 }), "Its version is 2; this site reads version 1."],
    [text([]), "It holds no entries."],
    [text({ "../x": 1 }), "It has an entry “../x”, which can't be one."],
    ['{"madeBy":"qkv lab","version":1,"entries":{"__proto__":{}}}', "It has an entry “__proto__”, which can't be one."],
    [text({ "card.softmax": "x".repeat(200_001) }), "Its entry “card.softmax” is too large."],
    [" ".repeat(2_000_001), "It is too large to be progress in these lessons."],
  ];
  const wrong = [null, 3, [], lesson({ typed: "yes" as never }), lesson({ predict: -1 }), lesson({ check: 1.5 }), lesson({ draft: 3 as never }), lesson({ answers: [1] as never }), { typed: true }];
  for (const each of wrong) says.push([text({ "lesson.heads": each }), "Its entry “lesson.heads” can't be read."]);
  for (const [given, what] of says)
    it(`${given.slice(0, 90)} is refused and changes nothing`, () => {
      const progress = new Progress(store());
      progress.mark("card.softmax", 1);
      expect(() => parsed(given)).toThrow(new NotProgress(what));
      expect(() => progress.import(given)).toThrow(NotProgress);
      expect(progress.done("card.softmax")).toBe(1);
    });
});

describe("joining", () => {
  const mine = { "lesson.heads": lesson({ predict: 1, answers: ["3 2"], draft: "mine", code: true }), "lesson.scores": lesson({ answers: ["", "5"] }), "card.softmax": 1 };
  const theirs = {
    "lesson.heads": lesson({ predict: 0, check: 2, answers: ["9", "8"], typed: true, draft: "theirs" }),
    "lesson.masks": lesson({ draft: "masks", typed: true }),
    "lesson.scores": lesson({ draft: "scores" }),
    "card.softmax": 2,
    "card.heads": 2,
  };
  const both = joined(mine, theirs);
  it("keeps what is done on either side", () => {
    expect(both["lesson.heads"]).toMatchObject({ typed: true, code: true, check: 2 });
    expect(both["lesson.masks"]).toEqual(theirs["lesson.masks"]);
    expect(both["card.heads"]).toBe(2);
  });
  it("keeps picks, answers and code of this browser", () => {
    expect(both["lesson.heads"]).toMatchObject({ predict: 1, draft: "mine", answers: ["3 2", "8"] });
    expect(both["lesson.scores"]).toMatchObject({ answers: ["", "5"], draft: "scores" });
    expect(both["card.softmax"]).toBe(1);
  });
  it("with itself or nothing changes nothing", () => {
    expect(joined(mine, mine)).toEqual(mine);
    expect(joined(mine, {})).toEqual(mine);
    expect(joined({}, mine)).toEqual(mine);
  });
  it("says in how many lessons the code differs", () => {
    const progress = new Progress(store());
    progress.import(text(mine));
    expect(progress.import(text(theirs))).toEqual({ entries: 5, otherCode: 1 });
  });
});
