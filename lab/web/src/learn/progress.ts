/** What a learner has done, kept in this browser under names such as `card.softmax`; it can be taken along as text. */

const KEY = "qkv.progress";

type Entries = Record<string, unknown>;

function parsed(text: string): Entries {
  const entries: unknown = JSON.parse(text);
  if (typeof entries !== "object" || entries === null || Array.isArray(entries)) throw new TypeError("This is not the progress of a qkv lab.");
  return entries as Entries;
}

function kept(): Entries {
  try {
    return parsed(localStorage.getItem(KEY) ?? "{}");
  } catch {
    return {}; // something else wrote there: begin anew rather than show no page
  }
}

const keep = (entries: Entries): void => localStorage.setItem(KEY, JSON.stringify(entries));

export const progress = {
  /** What was marked under `key`, or undefined. */
  done: (key: string): unknown => kept()[key],

  mark: (key: string, value: unknown): void => keep({ ...kept(), [key]: value }),

  /** Everything, as text for `import`. */
  export: (): string => JSON.stringify(kept(), null, 1),

  /** Takes over what `export` gave; entries of the same name are replaced. Throws where the text is something else. */
  import: (text: string): void => keep({ ...kept(), ...parsed(text) }),

  /** Forgets everything, or what has a name that begins with `prefix`. */
  reset: (prefix = ""): void => keep(Object.fromEntries(Object.entries(kept()).filter(([key]) => !key.startsWith(prefix)))),
};
