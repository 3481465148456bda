/** The additive and the dot score side by side, by the same plain loops: how long they take and what they hold. */

export interface ScoreTime {
  milliseconds: number;
  /** Bytes of float64 held at the widest step, beside the inputs. */
  bytes: number;
}

const TURNS = 5;

const median = (values: number[]): number => values.sort((a, b) => a - b)[values.length >> 1];

function time(run: () => void): number {
  return median(
    Array.from({ length: TURNS }, () => {
      const start = performance.now();
      run();
      return performance.now() - start;
    }),
  );
}

/** Scores of n queries and n keys, already projected to `hidden` channels: both sides start from the same numbers, and
 * both write out every number that the formula names, as code made of matrix operations does. */
export function scoreTimes(n: number, hidden: number): { dot: ScoreTime; additive: ScoreTime } {
  const q = Float64Array.from({ length: n * hidden }, (_, at) => Math.sin(at));
  const k = Float64Array.from({ length: n * hidden }, (_, at) => Math.cos(at));
  const v = Float64Array.from({ length: hidden }, (_, c) => Math.sin(1 + c));
  const score = new Float64Array(n * n);
  const layer = new Float64Array(n * n * hidden);

  const dot = time(() => {
    for (let i = 0; i < n; i++)
      for (let j = 0; j < n; j++) {
        let sum = 0;
        for (let c = 0; c < hidden; c++) sum += q[i * hidden + c] * k[j * hidden + c];
        score[i * n + j] = sum;
      }
  });
  const additive = time(() => {
    for (let i = 0; i < n; i++)
      for (let j = 0; j < n; j++) {
        const pair = (i * n + j) * hidden;
        let sum = 0;
        for (let c = 0; c < hidden; c++) {
          layer[pair + c] = Math.tanh(q[i * hidden + c] + k[j * hidden + c]);
          sum += v[c] * layer[pair + c];
        }
        score[i * n + j] = sum;
      }
  });
  return {
    dot: { milliseconds: dot, bytes: score.byteLength },
    additive: { milliseconds: additive, bytes: score.byteLength + layer.byteLength },
  };
}
