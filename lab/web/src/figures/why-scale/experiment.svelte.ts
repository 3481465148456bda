/** The experiment on random queries and keys at every width, run beside the page. */
import type { Softness } from "../../maths/experiments.ts";

export interface Found {
  n_keys: number;
  n_draws: number;
  widths: Softness[];
}

/** As many draws as take about the same time for any number of keys: 150 for ten of them. */
export const drawsFor = (n_keys: number): number => Math.round(1650 / (n_keys + 1));

export class Experiment {
  /** The last result; while another is on its way, it is still the one for its own n_keys. */
  found = $state.raw<Found>();
  readonly #worker = new Worker(new URL("./softness.worker.ts", import.meta.url), { type: "module" });
  #running: number | undefined;
  #next: number | undefined;

  constructor() {
    this.#worker.onmessage = ({ data }: MessageEvent<Found>) => {
      this.found = data;
      this.#running = undefined;
      if (this.#next !== undefined) this.ask(this.#next);
    };
    $effect(() => () => this.#worker.terminate());
  }

  /** Runs it for this many keys; of questions that come while it runs, only the last is kept. */
  ask(n_keys: number): void {
    const busy = this.#running !== undefined;
    this.#next = busy ? n_keys : undefined;
    if (busy || this.found?.n_keys === n_keys) return;
    this.#running = n_keys;
    this.#worker.postMessage({ n_keys, n_draws: drawsFor(n_keys) });
  }
}
