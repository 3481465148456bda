/** The random numbers of NumPy: `default_rng(seed).standard_normal()` gives the same ones there, to the last bits.
 *
 * So an experiment in the browser and the same one in Python show the same numbers, and not just similar ones.
 * Seeds are mixed by SeedSequence (O'Neill 2015), bits come from PCG64, XSL-RR (O'Neill 2014), and normal numbers from
 * the ziggurat of 256 steps (Marsaglia and Tsang 2000; Doornik 2005). */

const TWO_16 = 2 ** 16;
const TWO_32 = 2 ** 32;

// ---- the seed ----------------------------------------------------------------------------------------------

/** Eight words of 32 bits from the whole numbers of a seed, each below 2³². */
function seedWords(seed: readonly number[]): Uint32Array {
  let constant = 0x43b0d7e5;
  const hash = (value: number) => {
    const mixed = value ^ constant;
    constant = Math.imul(constant, 0x931e8875);
    return xorShift(Math.imul(mixed, constant));
  };
  const mix = (x: number, y: number) => xorShift(Math.imul(0xca01f9dd, x) - Math.imul(0x4973f715, y));
  const pool = Array.from({ length: 4 }, (_, at) => hash(seed[at] ?? 0));
  for (let from = 0; from < 4; from++)
    for (let to = 0; to < 4; to++) if (from !== to) pool[to] = mix(pool[to], hash(pool[from]));
  for (const extra of seed.slice(4)) for (let to = 0; to < 4; to++) pool[to] = mix(pool[to], hash(extra));

  constant = 0x8b51f9dd;
  return Uint32Array.from({ length: 8 }, (_, at) => {
    const mixed = pool[at % 4] ^ constant;
    constant = Math.imul(constant, 0x58f38ded);
    return xorShift(Math.imul(mixed, constant));
  });
}

const xorShift = (value: number): number => value ^ (value >>> 16);

// ---- the bits ----------------------------------------------------------------------------------------------

// The multiplier of the generator, 128 bits in words of 32, lowest first.
const [M0, M1, M2, M3] = [0x9fccf645, 0x4385df64, 0x1fc65da4, 0x2360ed05];

/** The upper 32 bits of a · b; a product with half of b stays below 2⁵³, where doubles are exact. */
const high = (a: number, b: number): number =>
  Math.floor((a * (b >>> 16) + Math.floor((a * (b & 0xffff)) / TWO_16)) / TWO_16);

/** state · multiplier + increment modulo 2¹²⁸, in place; words of 32 bits, lowest first. */
function step(state: Uint32Array, increment: Uint32Array): void {
  const s0 = state[0];
  const s1 = state[1];
  const s2 = state[2];
  const c0 = increment[0] + (Math.imul(s0, M0) >>> 0);
  const c1 = increment[1] + (Math.imul(s0, M1) >>> 0) + (Math.imul(s1, M0) >>> 0) + high(s0, M0) + Math.floor(c0 / TWO_32);
  const c2 =
    increment[2] + (Math.imul(s0, M2) >>> 0) + (Math.imul(s1, M1) >>> 0) + (Math.imul(s2, M0) >>> 0) +
    high(s0, M1) + high(s1, M0) + Math.floor(c1 / TWO_32);
  const c3 =
    increment[3] + Math.imul(s0, M3) + Math.imul(s1, M2) + Math.imul(s2, M1) + Math.imul(state[3], M0) +
    high(s0, M2) + high(s1, M1) + high(s2, M0) + Math.floor(c2 / TWO_32);
  state[0] = c0;
  state[1] = c1;
  state[2] = c2;
  state[3] = c3;
}

// ---- the ziggurat ------------------------------------------------------------------------------------------

const R = 3.6541528853610088; // where the tail begins
const AREA = 0.004928673233974655; // of each of the 256 steps
const TWO_52 = 2 ** 52;
const { width, inside, height } = ziggurat();

/** For each step: the width of 2⁻⁵² of it, how much of it lies under the curve for sure, and the curve's height. */
function ziggurat() {
  const width = new Float64Array(256);
  const inside = new Float64Array(256);
  const height = new Float64Array(256);
  const curve = (x: number) => Math.exp(-0.5 * x * x);
  let x = R;
  const widest = AREA / curve(R);
  [width[0], inside[0], height[0]] = [widest / TWO_52, (R / widest) * TWO_52, 1];
  [width[255], height[255]] = [R / TWO_52, curve(R)];
  for (let at = 254; at >= 1; at--) {
    const next = Math.sqrt(-2 * Math.log(AREA / x + curve(x)));
    [inside[at + 1], width[at], height[at]] = [(next / x) * TWO_52, next / TWO_52, curve(next)];
    x = next;
  }
  return { width, inside, height };
}

/** Standard normal numbers: each call gives the next n. The seed is whole numbers, as `default_rng` takes them. */
export function random(seed: readonly number[]): (n: number) => Float64Array {
  const { state, increment } = start(seed);
  let upper = 0;
  let lower = 0;

  /** The next 64 bits, as two words. */
  function next(): void {
    step(state, increment);
    const a = state[3] ^ state[1];
    const b = state[2] ^ state[0];
    // The 64 bits (a, b) turn to the right; by 32 places a and b change theirs. Bits of chance decide, so that a branch
    // would be guessed wrong every other time: there is none.
    const turn = state[3] >>> 26;
    const by = turn & 31;
    const changed = (a ^ b) & -(turn >>> 5);
    const first = a ^ changed;
    const second = b ^ changed;
    upper = (first >>> by) | ((second << 1) << (31 - by));
    lower = (second >>> by) | ((first << 1) << (31 - by));
  }

  /** From 0 to 1, the upper 53 bits. */
  function uniform(): number {
    next();
    return ((upper >>> 0) * 2 ** 21 + (lower >>> 11)) / 2 ** 53;
  }

  function normal(): number {
    for (;;) {
      next();
      const at = lower & 0xff;
      const size = (upper & 0x1fffffff) * 2 ** 23 + (lower >>> 9);
      const x = size * width[at] * (1 - ((lower >>> 7) & 2));
      if (size < inside[at]) return x;
      if (at === 0) return tail(lower & 0x20000 ? -1 : 1);
      if ((height[at - 1] - height[at]) * uniform() + height[at] < Math.exp(-0.5 * x * x)) return x;
    }
  }

  function tail(sign: number): number {
    for (;;) {
      const x = -Math.log1p(-uniform()) / R;
      const y = -Math.log1p(-uniform());
      if (y + y > x * x) return sign * (R + x);
    }
  }

  return (n) => {
    const numbers = new Float64Array(n);
    for (let at = 0; at < n; at++) numbers[at] = normal();
    return numbers;
  };
}

function start(seed: readonly number[]): { state: Uint32Array; increment: Uint32Array } {
  const [a, b, c, d, e, f, g, h] = seedWords(seed);
  // NumPy reads the words as four of 64 bits: the start, high and low, then the stream, high and low.
  const increment = Uint32Array.of((g << 1) | 1, (h << 1) | (g >>> 31), (e << 1) | (h >>> 31), (f << 1) | (e >>> 31));
  const state = new Uint32Array(4);
  step(state, increment);
  let sum = 0;
  [c, d, a, b].forEach((word, at) => {
    sum = state[at] + word + Math.floor(sum / TWO_32);
    state[at] = sum;
  });
  step(state, increment);
  return { state, increment };
}
