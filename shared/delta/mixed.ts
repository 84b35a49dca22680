/**
 * Codes integers, short floats and masks bit by bit, with probabilities mixed from what surrounds an element.
 * It is for types whose values repeat, follow each other, or have few values (docs/codec.md, "Mixed bits").
 * Slow, and smaller than general coders. Bytes: flags u8 ‖ range coder's stream.
 */
import { encodingMalformed } from "./encoding-malformed.js";
import { BitCells, MixedBitsReader, MixedBitsWriter, MixedBytes, type MixedBits } from "./mixing-model.js";

/**
 * The flags for what is coded of an element, and how: its difference from the base's element; from the
 * element before it; first whether it is the expected one; first whether it is one of those that were there
 * lately; with the base's element as a context.
 */
export const mixedFlags = { fromBase: 1, fromBefore: 2, expected: 4, recent: 8, base: 16 } as const;
const allFlags = 31;

export interface MixedSource {
  /** The size of an element: 1, 2, 4 or 8 bytes. */
  readonly width: number;
  /** Elements of a row: the element above is a context. */
  readonly columns: number;
  readonly base: Uint8Array | undefined;
}

/** Elements as two words; `high` is zero for elements of at most 4 bytes. */
interface Words {
  readonly low: Uint32Array;
  readonly high: Uint32Array;
}

function wordsOf(bytes: Uint8Array, width: number): Words {
  const count = bytes.length / width;
  const low = new Uint32Array(count);
  const high = new Uint32Array(width === 8 ? count : 0);
  const part = Math.min(4, width);
  for (let i = 0, at = 0; i < count; i++, at += width) {
    let value = 0;
    for (let byte = part - 1; byte >= 0; byte--) value = (value << 8) | bytes[at + byte]!;
    low[i] = value;
    if (width === 8)
      high[i] = bytes[at + 4]! | (bytes[at + 5]! << 8) | (bytes[at + 6]! << 16) | (bytes[at + 7]! << 24);
  }
  return { low, high };
}

function writeWords({ low, high }: Words, width: number, target: Uint8Array): void {
  const part = Math.min(4, width);
  for (let i = 0, at = 0; i < low.length; i++, at += width) {
    for (let byte = 0; byte < part; byte++) target[at + byte] = low[i]! >>> (8 * byte);
    if (width === 8) for (let byte = 0; byte < 4; byte++) target[at + 4 + byte] = high[i]! >>> (8 * byte);
  }
}

/** Adds (`sign` 1) or subtracts (−1) the elements of `from`, each half on its own; shifted by `lag` elements. */
function combine(words: Words, from: Words, { width, sign, lag }: Combination): void {
  const mask = width >= 4 ? -1 : 2 ** (8 * width) - 1;
  for (const half of ["low", "high"] as const) {
    const own = words[half];
    const other = from[half];
    if (sign < 0) for (let i = own.length - 1; i >= lag; i--) own[i] = (own[i]! - other[i - lag]!) & mask;
    else for (let i = lag; i < own.length; i++) own[i] = (own[i]! + other[i - lag]!) & mask;
  }
}

interface Combination {
  readonly width: number;
  readonly sign: 1 | -1;
  readonly lag: 0 | 1;
}

/** Recently coded distinct elements, latest first. */
const recentCount = 256;
const maxTableBits = 20;
const maxMatchBits = 16;
const maxHistoryBits = 12;
const hashedContexts = 5;

/** Codes elements in order; a writer is given their values, a reader fills them in. */
class ElementCoder {
  readonly #bytes: MixedBytes;
  readonly #flags: BitCells;
  readonly #ranks = new BitCells(2 * 512, 60);
  readonly #matches: Int32Array;
  /** log2 of the elements that can be found, and of the histories that are told apart: by the tensor's size. */
  readonly #matchBits: number;
  readonly #historyMask: number;
  readonly #recent: number[] = [];
  #matchAt = -1;
  #matchLength = 0;
  #history = 0;

  constructor(
    private readonly bits: MixedBits,
    private readonly words: Words,
    private readonly base: Words | undefined,
    private readonly source: Pick<MixedSource, "width" | "columns"> & { readonly flags: number },
  ) {
    const countBits = 32 - Math.clz32(words.low.length);
    const tableBits = Math.min(maxTableBits, 4 + 32 - Math.clz32(words.low.length * source.width));
    this.#bytes = new MixedBytes(hashedContexts, 16, tableBits);
    this.#matchBits = Math.min(maxMatchBits, 1 + countBits);
    this.#matches = new Int32Array(2 ** this.#matchBits).fill(-1);
    const histories = 2 ** Math.min(maxHistoryBits, countBits);
    this.#historyMask = histories - 1;
    this.#flags = new BitCells(16 * histories, 255);
  }

  run(): void {
    const { flags } = this.source;
    const { low } = this.words;
    for (let i = 0; i < low.length; i++) {
      this.#findMatch(i);
      if ((flags & mixedFlags.expected) === 0 || !this.#codeExpected(i))
        if ((flags & mixedFlags.recent) === 0 || !this.#codeRecent(i)) this.#codeBytes(i);
      if ((flags & mixedFlags.recent) !== 0) this.#touchRecent(i);
    }
  }

  #equals(i: number, j: number): boolean {
    return this.words.low[i] === this.words.low[j] && this.words.high[i] === this.words.high[j];
  }

  #hashOfLast(i: number): number {
    const { low } = this.words;
    return Math.imul(Math.imul(low[i]!, 0x2c1b3c6d) ^ low[i - 1]!, 0x297a2d39) >>> (32 - this.#matchBits);
  }

  #findMatch(i: number): void {
    if (i < 2) return;
    if (this.#matchAt >= 0 && this.#equals(this.#matchAt, i - 1)) {
      this.#matchAt++;
      this.#matchLength++;
      this.#matches[this.#hashOfLast(i - 1)] = i - 1;
      return;
    }
    const hash = this.#hashOfLast(i - 1);
    const found = this.#matches[hash]!;
    this.#matches[hash] = i - 1;
    this.#matchLength = 0;
    this.#matchAt = -1;
    if (found < 0 || !this.#equals(found, i - 1)) return;
    this.#matchAt = found + 1;
    while (
      this.#matchLength < 16 &&
      found >= this.#matchLength + 1 &&
      this.#equals(found - this.#matchLength, i - 1 - this.#matchLength)
    )
      this.#matchLength++;
  }

  /** The element that comes next if things go on as they did. Returns false where there is none. */
  #codeExpected(i: number): boolean {
    const { low, high } = this.words;
    const { base } = this;
    const isMatch = this.#matchLength > 0;
    const expectedLow = isMatch
      ? low[this.#matchAt]!
      : base !== undefined
        ? base.low[i]!
        : i > 0
          ? low[i - 1]!
          : 0;
    const expectedHigh = isMatch
      ? high[this.#matchAt]!
      : base !== undefined
        ? base.high[i]!
        : i > 0
          ? high[i - 1]!
          : 0;
    const isSame = expectedLow === low[i] && (high.length === 0 || expectedHigh === high[i]);
    const slot =
      (Math.min(15, this.#matchLength) * (this.#historyMask + 1)) | (this.#history & this.#historyMask);
    const hit = this.#flags.code(this.bits, slot, isSame ? 1 : 0);
    this.#history = (this.#history << 1) | hit;
    if (hit === 0) return false;
    low[i] = expectedLow;
    if (high.length > 0) high[i] = expectedHigh;
    return true;
  }

  /** Codes how many other elements were there since this one; rank 0 as "not lately". */
  #codeRecent(i: number): boolean {
    const { low, high } = this.words;
    let rank = 0;
    for (let k = 0; k < this.#recent.length; k++) {
      const at = this.#recent[k]!;
      if (low[at] === low[i] && high[at] === high[i]) {
        rank = k + 1;
        break;
      }
    }
    const length = this.#rankBits(rank);
    if (length === 0) return false;
    const at = this.#recent[length - 1];
    if (at === undefined) throw encodingMalformed("an element is to be one of more than there were");
    low[i] = low[at]!;
    if (high.length > 0) high[i] = high[at]!;
    return true;
  }

  /** A number up to 256: its bit length, then the bits below the highest, all adaptively. */
  #rankBits(rank: number): number {
    const context = (this.#history & 1) << 9;
    const ownLength = 32 - Math.clz32(rank);
    let length = 0;
    while (length < 9 && this.#rankBit(context + length, ownLength > length ? 1 : 0) === 1) length++;
    let value = length === 0 ? 0 : 1;
    for (let bit = length - 2; bit >= 0; bit--)
      value =
        (value << 1) |
        this.#rankBit(
          context + 16 + (value < 64 ? 64 * Math.min(6, length - 2) + value : 0),
          (rank >>> bit) & 1,
        );
    return value;
  }

  #rankBit(slot: number, bit: number): number {
    return this.#ranks.code(this.bits, slot, bit);
  }

  #touchRecent(i: number): void {
    const recent = this.#recent;
    let k = recent.findIndex((at) => this.#equals(at, i));
    if (k < 0) {
      if (recent.length < recentCount) recent.push(i);
      k = recent.length - 1;
    }
    recent.copyWithin(1, 0, k);
    recent[0] = i;
  }

  /** The bytes of an element, the highest first. */
  #codeBytes(i: number): void {
    const { words, base } = this;
    const { width, columns } = this.source;
    const above = i >= columns && columns > 1 ? i - columns : -1;
    const first = i > 0 ? words.low[i - 1]! : 0;
    const second = i > 1 ? words.low[i - 2]! : 0;
    const side = base !== undefined ? base.low[i]! : above >= 0 ? words.low[above]! : 0;
    const sideHigh = base !== undefined ? (base.high[i] ?? 0) : above >= 0 ? (words.high[above] ?? 0) : 0;
    const firstHash = Math.imul(first, 0x2c1b3c6d);
    const secondHash = Math.imul(second, 0x1b873593);
    let path = 0;
    for (let position = width - 1; position >= 0; position--) {
      const from = position >= 4 ? words.high : words.low;
      const shift = 8 * (position & 3);
      const sideByte = ((position >= 4 ? sideHigh : side) >>> shift) & 255;
      const firstByte = ((position >= 4 ? (i > 0 ? words.high[i - 1]! : 0) : first) >>> shift) & 255;
      const matchByte = this.#matchLength > 0 ? (from[this.#matchAt]! >>> shift) & 255 : -1;
      const contexts = this.#bytes.contexts;
      contexts[0] = hash(path, position, 1);
      contexts[1] = hash(path, firstHash + position, 2);
      contexts[2] = hash(path, firstHash ^ secondHash, 3 + position);
      contexts[3] = hash(path, (sideByte << 8) | position, 4);
      contexts[4] = hash((sideByte << 8) | firstByte, position, 5);
      const set = (position << 1) | (matchByte >= 0 ? 1 : 0);
      const byte = this.#bytes.code(this.bits, (from[i]! >>> shift) & 255, {
        plain: position,
        set,
        expected: matchByte,
      });
      from[i] = (from[i]! & ~(255 << shift)) | (byte << shift);
      path = Math.imul(path ^ (byte + 1), 0x9e3779b1);
    }
  }
}

function hash(a: number, b: number, salt: number): number {
  const mixed =
    Math.imul(Math.imul(a ^ 0x27d4eb2f, 0x165667b1) + b, 0xc2b2ae35) + Math.imul(salt, 0x9e3779b1);
  return mixed ^ (mixed >>> 15);
}

/** The stream alone, for these flags. */
export function writeMixed(
  bytes: Uint8Array,
  { width, columns, base }: MixedSource,
  flags: number,
): Uint8Array {
  const words = wordsOf(bytes, width);
  const from = base === undefined ? undefined : wordsOf(base, width);
  if ((flags & mixedFlags.fromBase) !== 0 && from !== undefined)
    combine(words, from, { width, sign: -1, lag: 0 });
  if ((flags & mixedFlags.fromBefore) !== 0) combine(words, words, { width, sign: -1, lag: 1 });
  const bits = new MixedBitsWriter();
  const context = (flags & mixedFlags.base) !== 0 ? from : undefined;
  new ElementCoder(bits, words, context, { width, columns, flags }).run();
  const stream = bits.finish();
  const out = new Uint8Array(stream.length + 1);
  out[0] = flags;
  out.set(stream, 1);
  return out;
}

/** True if `bytes` need a base. @throws DELTA_MALFORMED */
export function mixedNeedsBase(bytes: Uint8Array): boolean {
  return (flagsOf(bytes) & (mixedFlags.fromBase | mixedFlags.base)) !== 0;
}

function flagsOf(bytes: Uint8Array): number {
  const flags = bytes[0] ?? 255;
  if (flags > allFlags) throw encodingMalformed("its flags name no way to code its elements");
  return flags;
}

/**
 * @param bytes the encoding; the base is there where it is needed
 * @throws DELTA_MALFORMED
 */
export function decodeMixed(
  bytes: Uint8Array,
  { width, columns, base }: MixedSource,
  target: Uint8Array,
): void {
  const flags = flagsOf(bytes);
  if (target.length > maxBytesOf(width))
    throw encodingMalformed("a tensor of its size is not coded in mixed bits");
  const count = target.length / width;
  const words = { low: new Uint32Array(count), high: new Uint32Array(width === 8 ? count : 0) };
  const from = mixedNeedsBase(bytes) && base !== undefined ? wordsOf(base, width) : undefined;
  if (mixedNeedsBase(bytes) && from === undefined)
    throw encodingMalformed("it needs a base, which is missing");
  const context = (flags & mixedFlags.base) !== 0 ? from : undefined;
  new ElementCoder(new MixedBitsReader(bytes.subarray(1)), words, context, { width, columns, flags }).run();
  if ((flags & mixedFlags.fromBefore) !== 0) combine(words, words, { width, sign: 1, lag: 1 });
  if ((flags & mixedFlags.fromBase) !== 0 && from !== undefined)
    combine(words, from, { width, sign: 1, lag: 0 });
  writeWords(words, width, target);
}

/**
 * Larger tensors are not coded so, because a megabyte takes about a second, also to decode. Sequences of wide integers
 * gain most: 10 % over the best of others where general coders are a third behind.
 */
const maxBytesOf = (width: number): number => (width >= 4 ? 64 : 8) * 2 ** 20;
/** Larger ones than this must get so much shorter. */
const smallBytes = 2 ** 16;
const minShare = 0.04;
/** All ways are tried on the first so many bytes, the best ones on the second. */
const sampleBytes = [2 ** 12, 2 ** 14] as const;
const keptWays = 2;
/** A sample may take up to the inverse of this share of what it must not exceed. */
const hopeful = 0.85;
const sparseShare = 16;
const sparseSampleBytes = 2 ** 17;
const { fromBase, fromBefore, expected, recent, base: besideBase } = mixedFlags;
const waysAlone = [0, expected, expected | recent, expected | fromBefore] as const;
const waysFromBase = [
  besideBase,
  besideBase | expected | fromBase,
  fromBase,
  fromBase | expected,
  fromBase | expected | fromBefore,
] as const;

function waysOf(base: Uint8Array | undefined): readonly number[] {
  return base === undefined ? waysAlone : [...waysAlone, ...waysFromBase];
}

interface Trial {
  readonly way: number;
  readonly length: number;
}

/** Tries what each way makes of a part of the tensor, shortest first. */
function tryWays(
  bytes: Uint8Array,
  source: MixedSource,
  { ways, sampled }: { readonly ways: readonly number[]; readonly sampled: number },
): readonly Trial[] {
  const start = Math.floor((bytes.length - sampled) / 2 / source.width) * source.width;
  const own = bytes.subarray(start, start + sampled);
  const around = { ...source, base: source.base?.subarray(start, start + sampled) };
  return ways
    .map((way) => ({ way, length: writeMixed(own, around, way).length }))
    .sort((a, b) => a.length - b.length);
}

/** Returns undefined where the encoding would not be shorter than `limit` bytes by enough. */
export function encodeMixed(bytes: Uint8Array, source: MixedSource, limit: number): Uint8Array | undefined {
  if (bytes.length === 0 || bytes.length > maxBytesOf(source.width)) return undefined;
  const maxLength = bytes.length <= smallBytes ? limit - 1 : Math.floor((1 - minShare) * limit);
  const all = waysOf(source.base);
  // A short sample shows little where hardly anything is left to code, and coding takes little time.
  const isSparse = sparseShare * limit < bytes.length;
  const ways = isSparse ? all.filter((way) => (way & expected) !== 0) : all;
  let trials: readonly Trial[] = ways.map((way) => ({ way, length: 0 }));
  for (const sampled of isSparse ? [sparseSampleBytes] : sampleBytes) {
    const part = Math.min(sampled, bytes.length);
    const kept = trials.slice(0, sampled === sampleBytes[1] ? keptWays : trials.length);
    trials = tryWays(bytes, source, { ways: kept.map(({ way }) => way), sampled: part });
    // A long tensor repeats more than its sample does.
    const expectedLength = (trials[0]!.length * bytes.length) / part;
    if (!isSparse && part < bytes.length && hopeful * expectedLength > maxLength) return undefined;
    if (part === bytes.length) break;
  }
  const found = writeMixed(bytes, source, trials[0]!.way);
  return found.length <= maxLength ? found : undefined;
}
