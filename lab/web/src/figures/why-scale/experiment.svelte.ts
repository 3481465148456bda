/** The experiment on random queries and keys at every width, run beside the page so that no slider waits for it. */
import type { Softness } from "../../maths/experiments.ts";

export interface Found {
  n_keys: number;
  n_draws: number;
  widths: Softness[];
}

/** As many draws as take about the same time for any number of keys: 150 for ten of them. */
export const drawsFor = (n_keys: number): number => Math.round(1650 / (n_keys + 1));

// The same keys give the same numbers, so what was found once is kept, for all figures of the page.
const results = new Map<number, Promise<Found>>();
let worker: Worker | undefined;

function measure(n_keys: number): Promise<Found> {
  const known = results.get(n_keys);
  if (known) return known;
  worker ??= new Worker(new URL("./softness.worker.ts", import.meta.url), { type: "module" });
  const running = worker;
  const result = new Promise<Found>((resolve) => {
    running.addEventListener("message", function answer({ data }: MessageEvent<Found>) {
      if (data.n_keys !== n_keys) return;
      running.removeEventListener("message", answer);
      resolve(data);
    });
    running.postMessage({ n_keys, n_draws: drawsFor(n_keys) });
  });
  results.set(n_keys, result);
  return result;
}

export class Experiment {
  /** The last result; while another is on its way, it is still the one for its own n_keys. */
  found = $state.raw<Found>();
  #asked = 0;
  #busy = false;

  /** Runs it for this many keys; of questions that come while it runs, only the last is answered. */
  async ask(n_keys: number): Promise<void> {
    this.#asked = n_keys;
    if (this.#busy) return;
    this.#busy = true;
    let found: Found;
    do this.found = found = await measure(this.#asked);
    while (found.n_keys !== this.#asked);
    this.#busy = false;
  }
}
