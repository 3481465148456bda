/** What a chart draws: lines over one axis, each number perhaps with its standard error. */
import { scaleLinear, scaleLog } from "d3-scale";

export interface Point {
  x: number;
  y: number;
  /** Standard error: a band of one to either side. */
  error?: number;
}

export interface Line {
  name: string;
  /** Its colour and the shape of its points; names of one line are the same in all charts of a figure. */
  tone: 1 | 2 | 3 | 4;
  points: Point[];
  /** Known rather than measured: dashed, and without points. */
  known?: boolean;
}

export interface Axis {
  label: string;
  least: number;
  most: number;
  ticks: number[];
  /** Equal steps are equal ratios. */
  log?: boolean;
  says?: (value: number) => string;
}

export type Scale = (value: number) => number;

/** Places of an axis in pixels; what lies beyond its ends is drawn at the end. */
export const scaleOf = ({ least, most, log }: Axis, pixels: [number, number]): Scale =>
  (log ? scaleLog() : scaleLinear()).domain([least, most]).range(pixels).clamp(true);

/** The outline of a line, and of its band. */
export function outlines(points: Point[], x: Scale, y: Scale): { line: string; band: string } {
  const path = (at: (point: Point) => number, of: Point[]) => of.map((point) => `${x(point.x).toFixed(1)},${y(at(point)).toFixed(1)}`).join("L");
  const measured = points.filter((point) => point.error !== undefined);
  const upper = path((point) => point.y + point.error!, measured);
  const lower = path((point) => point.y - point.error!, measured.toReversed());
  return {
    line: points.length ? `M${path((point) => point.y, points)}` : "",
    band: measured.length ? `M${upper}L${lower}Z` : "",
  };
}

/** 2, 4, 8 … from `least` to `most`. */
export const powers = (least: number, most: number, base = 2): number[] => {
  const [from, to] = [least, most].map((each) => Math.round(Math.log(each) / Math.log(base)));
  return Array.from({ length: to - from + 1 }, (_, at) => Number((base ** (from + at)).toPrecision(6)));
};
