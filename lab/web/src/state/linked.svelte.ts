/** The state of a figure, in the address of its page too: a link shows the same figure. */

type Value = number | string | boolean;
type Values = Record<string, Value>;

// Browsers refuse more than a few hundred changes of the address in a short time; a slider makes more.
const WAIT_MS = 150;

function read(text: string, as: Value): Value | undefined {
  if (typeof as === "boolean") return text === "1" ? true : text === "0" ? false : undefined;
  if (typeof as === "string") return text;
  const number = Number(text);
  return text.trim() !== "" && Number.isFinite(number) ? number : undefined;
}

const written = (value: Value): string => (typeof value === "boolean" ? (value ? "1" : "0") : String(value));

/** State of the figure `name`, with what it starts from and what the address says. Only differences from `start` are
 * written: `?one-token.query=3`. `accepts` says whether a value of the address may stand; what may not is left out. */
export class Linked<T extends Values> {
  readonly at: T;
  readonly #name: string;
  readonly #start: T;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(name: string, start: T, accepts: Partial<{ [K in keyof T]: (value: T[K]) => boolean }> = {}) {
    this.#name = name;
    this.#start = start;
    const values = { ...start };
    const asked = new URLSearchParams(location.search);
    for (const key of Object.keys(start) as (keyof T & string)[]) {
      const text = asked.get(`${name}.${key}`);
      const value = text === null ? undefined : (read(text, start[key]) as T[typeof key] | undefined);
      if (value !== undefined && (accepts[key]?.(value) ?? true)) values[key] = value;
    }
    this.at = $state(values);
    $effect(() => {
      // Reads every value, so that a change of any one is written.
      JSON.stringify(this.at);
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => history.replaceState(null, "", this.link()), WAIT_MS);
    });
  }

  /** The address that shows the figure as it is now. */
  link(): string {
    const address = new URL(location.href);
    for (const key of Object.keys(this.#start)) {
      const parameter = `${this.#name}.${key}`;
      if (this.at[key] === this.#start[key]) address.searchParams.delete(parameter);
      else address.searchParams.set(parameter, written(this.at[key]));
    }
    return address.href;
  }

  reset(): void {
    Object.assign(this.at, this.#start);
  }
}

/** A test for `Linked`: a number from `least` to `most`, whole unless `whole` is false. */
export const between =
  (least: number, most: number, whole = true) =>
  (value: number): boolean =>
    value >= least && value <= most && (!whole || Number.isInteger(value));
