/**
 * Named, counted random streams. Everything random in a training (sample order, augmentation, dropout,
 * initialisers) is drawn from one of them. All streams derive from one seed, so (seed, invocation, stream
 * name, count) determines which numbers were drawn (ME9; docs/design.md, "Determinism"). Integer arithmetic
 * only: uniform floats are exact quotients, normal numbers come from comparisons of integers. The
 * transcendental functions of Math are not used, because their bits differ between machines.
 *
 * The generator is Philox 4x32-10 (Salmon et al., SC 2011), which is counter-based: a stream's complete state
 * is its count. Its key is the first 64 bits of SHA-256("stemma-stream-1\0" ‖ seed ‖ "\0" ‖ invocation ‖ "\0"
 * ‖ name).
 */
import { createHash } from "node:crypto";
import { StemmaError } from "../errors.js";

const multiplier0 = 0xd2511f53;
const multiplier1 = 0xcd9e8d57;
const weyl0 = 0x9e3779b9;
const weyl1 = 0xbb67ae85;
const twoTo32 = 4294967296;

/** High 32 bits of the product of two unsigned 32-bit numbers. */
function multiplyHigh(a: number, b: number): number {
  const aLow = a & 0xffff;
  const aHigh = a >>> 16;
  const bLow = b & 0xffff;
  const bHigh = b >>> 16;
  const low = aLow * bLow;
  const middle = aHigh * bLow + (low >>> 16);
  const cross = aLow * bHigh + (middle % 65536);
  return (aHigh * bHigh + Math.floor(middle / 65536) + Math.floor(cross / 65536)) >>> 0;
}

/**
 * Computes one Philox 4x32-10 block: four 32-bit words from a counter of 128 bits and a key of 64 bits.
 * Exported for its known-answer test.
 */
export function philoxBlock(
  counter: readonly [number, number, number, number],
  key: readonly [number, number],
): [number, number, number, number] {
  let [c0, c1, c2, c3] = counter;
  let [k0, k1] = key;
  for (let round = 0; round < 10; round++) {
    const high0 = multiplyHigh(multiplier0, c0);
    const low0 = Math.imul(multiplier0, c0) >>> 0;
    const high1 = multiplyHigh(multiplier1, c2);
    const low1 = Math.imul(multiplier1, c2) >>> 0;
    const next0 = (high1 ^ c1 ^ k0) >>> 0;
    const next2 = (high0 ^ c3 ^ k1) >>> 0;
    c0 = next0;
    c1 = low1;
    c2 = next2;
    c3 = low0;
    k0 = (k0 + weyl0) >>> 0;
    k1 = (k1 + weyl1) >>> 0;
  }
  return [c0, c1, c2, c3];
}

/** One stream. Two users must not share one: each gets a stream of its own name from `Streams`. */
export class Stream {
  readonly name: string;
  readonly #key: readonly [number, number];
  #count = 0;
  #block: readonly number[] = [];
  #blockIndex = -1;

  constructor(name: string, key: readonly [number, number]) {
    this.name = name;
    this.#key = key;
  }

  /** Number of 32-bit words drawn so far: the complete state of the stream. */
  get count(): number {
    return this.#count;
  }

  /** Continues from a recorded count. */
  seek(count: number): void {
    if (!Number.isSafeInteger(count) || count < 0)
      throw new StemmaError(
        "RECIPE_PARAMETERS_INVALID",
        `The stream ${this.name} cannot continue from ${count}. Give a whole number ≥ 0.`,
        { count },
      );
    this.#count = count;
  }

  /** The next unsigned 32-bit number. */
  word(): number {
    const index = Math.floor(this.#count / 4);
    if (index !== this.#blockIndex) {
      this.#block = philoxBlock([index >>> 0, Math.floor(index / twoTo32), 0, 0], this.#key);
      this.#blockIndex = index;
    }
    return this.#block[this.#count++ % 4] as number;
  }

  /** A float32 in [0, 1): the upper 24 bits of a word, divided by 2²⁴ exactly. */
  uniform(): number {
    return (this.word() >>> 8) / 16777216;
  }

  /** A float32 in [low, high]; the product and the sum are rounded once each. */
  uniformBetween(low: number, high: number): number {
    return Math.fround(Math.fround(low) + Math.fround(this.uniform() * Math.fround(high - low)));
  }

  /** A whole number in [0, below) without bias (by rejection); `below` is from 1 to 2³². */
  integer(below: number): number {
    if (!Number.isSafeInteger(below) || below < 1 || below > twoTo32)
      throw new StemmaError(
        "RECIPE_PARAMETERS_INVALID",
        `A whole number below ${below} cannot be drawn. Use a bound from 1 to 2^32.`,
        { below },
      );
    const limit = twoTo32 - (twoTo32 % below);
    for (;;) {
      const word = this.word();
      if (word < limit) return word % below;
    }
  }

  /**
   * A standard normal number as float32: algorithm N of Karney, "Sampling exactly from the normal
   * distribution" (ACM TOMS 42, 2016), with uniform numbers of 32 bits. It only compares integers; the usual
   * methods need a logarithm.
   */
  normal(): number {
    for (;;) {
      let k = 0;
      while (this.#halfRun()) k++;
      let accepted = true;
      for (let trial = k * (k - 1); trial > 0 && accepted; trial--) accepted = this.#halfRun();
      if (!accepted) continue;
      const x = this.word();
      for (let trial = 0; trial <= k && accepted; trial++) accepted = this.#fractionRun(k, x);
      if (!accepted) continue;
      const magnitude = Math.fround((k * twoTo32 + x) / twoTo32);
      return (this.word() & 1) === 0 ? magnitude : -magnitude;
    }
  }

  /**
   * True with probability exp(−1/2): when the length of a falling run that starts below 1/2 is even (von
   * Neumann).
   */
  #halfRun(): boolean {
    let last = 0x80000000;
    let length = 0;
    for (let next = this.word(); next < last; next = this.word()) {
      last = next;
      length++;
    }
    return length % 2 === 0;
  }

  /** True with probability exp(−x (2k + x) / (2k + 2)), x as a fraction of 2³² (Karney's algorithm B). */
  #fractionRun(k: number, x: number): boolean {
    let last = x;
    let length = 0;
    for (;;) {
      const next = this.word();
      if (next >= last) break;
      if (this.word() * (2 * k + 2) >= 2 * k * twoTo32 + x) break;
      last = next;
      length++;
    }
    return length % 2 === 0;
  }

  /** The whole numbers 0 … length − 1 in random order (Fisher and Yates). */
  permutation(length: number): Uint32Array {
    const order = Uint32Array.from({ length }, (_, index) => index);
    for (let index = length - 1; index > 0; index--) {
      const other = this.integer(index + 1);
      const swapped = order[index] as number;
      order[index] = order[other] as number;
      order[other] = swapped;
    }
    return order;
  }
}

/** All streams of one training. */
export class Streams {
  readonly seed: string;
  readonly invocation: number;
  readonly #streams = new Map<string, Stream>();
  readonly #following = new Map<number, Streams>();

  /**
   * @param seed decimal string of an unsigned 64-bit number
   * @param invocation how often this trainer ran before (ME9)
   * @throws RECIPE_PARAMETERS_INVALID
   */
  constructor(seed: string, invocation: number) {
    if (!/^(0|[1-9][0-9]{0,19})$/.test(seed) || BigInt(seed) >= 2n ** 64n)
      throw new StemmaError(
        "RECIPE_PARAMETERS_INVALID",
        `The seed "${seed.slice(0, 40)}" is not an unsigned 64-bit number. Give it in decimal digits without leading zeros.`,
      );
    if (!Number.isSafeInteger(invocation) || invocation < 0)
      throw new StemmaError(
        "RECIPE_PARAMETERS_INVALID",
        `The invocation count ${invocation} is not a whole number ≥ 0. Correct it.`,
      );
    this.seed = seed;
    this.invocation = invocation;
  }

  /** The stream of a name; each call returns the same object, so its count continues. */
  stream(name: string): Stream {
    let stream = this.#streams.get(name);
    if (stream === undefined) {
      const digest = createHash("sha256")
        .update(`stemma-stream-1\0${this.seed}\0${this.invocation}\0${name}`, "utf8")
        .digest();
      stream = new Stream(name, [digest.readUInt32LE(0), digest.readUInt32LE(4)]);
      this.#streams.set(name, stream);
    }
    return stream;
  }

  /**
   * The streams of the invocation that follows this one by `offset`, for member `offset` of an ensemble. Their counts
   * are among those of these streams, as "member/<offset>/<name>".
   */
  following(offset: number): Streams {
    let following = this.#following.get(offset);
    if (following === undefined) {
      following = new Streams(this.seed, this.invocation + offset);
      this.#following.set(offset, following);
    }
    return following;
  }

  /** Counts of all streams, sorted by name: for the provenance record, and to continue from a checkpoint. */
  counts(): Readonly<Record<string, number>> {
    const own = [...this.#streams.values()].map((stream) => [stream.name, stream.count] as const);
    const following = [...this.#following].flatMap(([offset, streams]) =>
      Object.entries(streams.counts()).map(([name, count]) => [`member/${offset}/${name}`, count] as const),
    );
    return Object.fromEntries([...own, ...following].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** Continues all streams from recorded counts. */
  restore(counts: Readonly<Record<string, number>>): void {
    for (const [name, count] of Object.entries(counts)) {
      const [, offset, rest] = /^member\/(\d{1,6})\/(.+)$/.exec(name) ?? [];
      if (offset === undefined || rest === undefined) this.stream(name).seek(count);
      else this.following(Number(offset)).restore({ [rest]: count });
    }
  }
}
