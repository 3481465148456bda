/** The axes that the figures of this page share. */
import { WIDTHS } from "../../maths/experiments.ts";
import type { Axis } from "../../parts/chart.ts";

export const widthAxis: Axis = { label: "width d_k", least: 4, most: 1024, ticks: WIDTHS, log: true, says: String };
export const shareAxis: Axis = { label: "largest weight", least: 0, most: 1, ticks: [0, 0.2, 0.4, 0.6, 0.8, 1], says: String };

export function entropyAxis(n_keys: number): Axis {
  const most = Math.log(n_keys);
  const step = most > 2 ? 0.5 : most > 0.8 ? 0.25 : 0.1;
  const ticks = Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => at * step);
  return { label: "entropy, nats", least: 0, most, ticks, says: (value) => String(Number(value.toFixed(2))) };
}
