/** Draws random queries and keys away from the page, so that no slider waits for them. */
import { WIDTHS, softness } from "../../maths/experiments.ts";

onmessage = ({ data: { n_keys, n_draws } }: MessageEvent<{ n_keys: number; n_draws: number }>) =>
  postMessage({ n_keys, n_draws, widths: WIDTHS.map((d_k) => softness(d_k, n_keys, n_draws)) });
