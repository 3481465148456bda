/** What a learner has done, kept in this browser under names such as `card.softmax`; it can be taken along as text.
 *
 * Every change reads what is kept, so that two open pages don't undo each other. What can't be understood is put aside,
 * never written over. */

/** How far a lesson is: the entry `lesson.SLUG`. */
export interface LessonProgress {
  /** The option that was picked first, by its index. */
  predict?: number;
  check?: number;
  /** What was typed and checked, by the index of the question. */
  answers: string[];
  /** Every typed answer was right. */
  typed: boolean;
  /** The learner's code; the starter is not kept. */
  draft?: string;
  /** Every function passed. */
  code: boolean;
}

type Entries = Record<string, unknown>;

/** What an import brought. */
export interface Brought {
  /** Entries that were in the text. */
  entries: number;
  /** Lessons whose code in the text differs from the code here, which stays. */
  otherCode: number;
}

const KEY = "qkv.progress";
const ASIDE = "qkv.progress.aside";
const MADE_BY = "qkv lab";
const VERSION = 1;
const MOST_CHARACTERS = 2_000_000;
const MOST_IN_ENTRY = 200_000;
const MOST_ANSWERS = 100;
const LESSON = "lesson.";

/** A text that is no progress, and why. */
export class NotProgress extends Error {}

export const nothing = (): LessonProgress => ({ answers: [], typed: false, code: false });

function want(holds: boolean, what: string): asserts holds {
  if (!holds) throw new NotProgress(what);
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
const isPick = (value: unknown): boolean => value === undefined || (Number.isInteger(value) && (value as number) >= 0 && (value as number) < MOST_ANSWERS);

function isLesson(value: unknown): value is LessonProgress {
  if (!isObject(value)) return false;
  const { predict, check, answers, typed, draft, code } = value;
  const flags = typeof typed === "boolean" && typeof code === "boolean" && (draft === undefined || typeof draft === "string");
  return flags && isPick(predict) && isPick(check) && Array.isArray(answers) && answers.length <= MOST_ANSWERS && answers.every((each) => typeof each === "string");
}

/** Entries from a text, every part of it checked. Throws NotProgress. */
export function parsed(text: string): Entries {
  want(text.length <= MOST_CHARACTERS, "It is too large to be progress in these lessons.");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new NotProgress("It is not a JSON file.");
  }
  want(isObject(value) && value.madeBy === MADE_BY, "It is not progress from qkv lab.");
  want(typeof value.version === "number", "It does not say its version.");
  want(value.version === VERSION, `Its version is ${value.version}; this site reads version ${VERSION}.`);
  want(isObject(value.entries), "It holds no entries.");
  for (const [name, entry] of Object.entries(value.entries)) {
    want(/^[a-z]+(\.[a-z0-9-]+)+$/.test(name), `It has an entry “${name.slice(0, 40)}”, which can't be one.`);
    want(JSON.stringify(entry).length <= MOST_IN_ENTRY, `Its entry “${name}” is too large.`);
    want(!name.startsWith(LESSON) || isLesson(entry), `Its entry “${name}” can't be read.`);
  }
  return value.entries;
}

const written = (entries: Entries): string => JSON.stringify({ madeBy: MADE_BY, version: VERSION, entries }, null, 1);

/** What either lesson has done is done; where both have an answer or code, that of `mine` stays. */
function joinedLesson(mine: LessonProgress, theirs: LessonProgress): LessonProgress {
  const answers = Array.from({ length: Math.max(mine.answers.length, theirs.answers.length) }, (_, at) => mine.answers[at] || theirs.answers[at] || "");
  return { ...theirs, ...mine, answers, typed: mine.typed || theirs.typed, code: mine.code || theirs.code };
}

/** Both, entry by entry; where both have one, lessons are joined and of anything else that of `mine` stays. */
export function joined(mine: Entries, theirs: Entries): Entries {
  const entries = { ...theirs, ...mine };
  for (const name of Object.keys(mine))
    if (name.startsWith(LESSON) && name in theirs) entries[name] = joinedLesson(mine[name] as LessonProgress, theirs[name] as LessonProgress);
  return entries;
}

function otherCode(mine: Entries, theirs: Entries): number {
  const drafts = (entries: Entries, name: string) => (entries[name] as LessonProgress | undefined)?.draft;
  const names = Object.keys(theirs).filter((name) => name.startsWith(LESSON) && drafts(mine, name) !== undefined && drafts(theirs, name) !== undefined);
  return names.filter((name) => drafts(mine, name) !== drafts(theirs, name)).length;
}

type Store = Pick<Storage, "getItem" | "setItem">;

/** Progress in a store as localStorage is one. */
export class Progress {
  readonly #store: Store | undefined;
  #memory: string | null = null;
  /** False where the browser keeps nothing; progress then lasts as long as the page. */
  lasting = true;

  constructor(store: Store | undefined) {
    this.#store = store;
  }

  /** What was marked under `name`, or undefined. */
  done(name: string): unknown {
    return this.#read()[name];
  }

  /** Keeps a value that JSON can hold. */
  mark(name: string, value: unknown): void {
    this.#write(KEY, written({ ...this.#read(), [name]: value }));
  }

  lesson(slug: string): LessonProgress {
    const entry = this.done(LESSON + slug);
    return isLesson(entry) ? entry : nothing();
  }

  markLesson(slug: string, change: Partial<LessonProgress>): void {
    this.mark(LESSON + slug, { ...this.lesson(slug), ...change });
  }

  empty(): boolean {
    return Object.keys(this.#read()).length === 0;
  }

  /** Everything, as text for `import`. */
  export(): string {
    return written(this.#read());
  }

  /** Joins what `export` gave with what is here, of which nothing is lost. Throws NotProgress and changes nothing where
   * the text is something else. */
  import(text: string): Brought {
    const [mine, theirs] = [this.#read(), parsed(text)];
    this.#write(KEY, written(joined(mine, theirs)));
    return { entries: Object.keys(theirs).length, otherCode: otherCode(mine, theirs) };
  }

  /** Forgets everything, or what has a name that begins with `prefix`. */
  reset(prefix = ""): void {
    this.#write(KEY, written(Object.fromEntries(Object.entries(this.#read()).filter(([name]) => !name.startsWith(prefix)))));
  }

  #read(): Entries {
    const text = this.#text();
    if (text === null) return {};
    try {
      return parsed(text);
    } catch (problem) {
      if (!(problem instanceof NotProgress)) throw problem;
      this.#write(ASIDE, text);
      return {};
    }
  }

  #text(): string | null {
    try {
      if (this.lasting && this.#store) return this.#store.getItem(KEY);
    } catch {
      this.lasting = false;
    }
    return this.#memory;
  }

  #write(key: string, text: string): void {
    if (key === KEY) this.#memory = text;
    try {
      if (!this.#store) throw new Error("no store");
      this.#store.setItem(key, text);
    } catch {
      this.lasting = false; // switched off, or full
    }
  }
}

function storage(): Storage | undefined {
  try {
    return globalThis.localStorage;
  } catch {
    return undefined;
  }
}

/** The progress of this browser. */
export const progress = new Progress(storage());
