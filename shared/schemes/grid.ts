/**
 * Numbers on an even grid: whole multiples of one power of two a tensor. Both "fixed point" (MH §IV-B: a
 * global exponent per matrix, k bits for sign and mantissa) and "normalisation" (a number is added that
 * brings all of a matrix to one exponent, so that radices and signs are aligned; §V-B, table IV) are that:
 * x + 1.5·2^p in float32 keeps of x a multiple of its unit, and its mantissa is that multiple plus a half
 * range. They differ in layout, and so in what can be read of them: fixed point is coded whole;
 * a normalised tensor lies in byte planes of that mantissa, highest first, so that already its first byte
 * tells 256 values apart, where a float32's first byte has the sign and most of the exponent.
 *
 * Bytes: bits u8 ‖ exponent of the unit i16 ‖ exceptions ‖ fixed: one inner tensor of integers;
 * normalised: an inner tensor a plane. Nought is +0 and infinities and NaNs are exceptions.
 */
import { ByteReader, ByteWriter } from "../delta/bytes.js";
import type { DeltaCodec } from "../delta/codec.js";
import { encodingMalformed } from "../delta/encoding-malformed.js";
import type { DType } from "../tensor/dtype.js";
import { readExceptions, writeExceptions } from "./exceptions.js";
import { readNested, writeNested } from "./nested-tensor.js";
import {
  bytesOf,
  infinity,
  isFiniteWord,
  magnitudeMask,
  shiftToNearestEven,
  significand,
  unitExponent,
  wordOfProduct,
} from "./float-words.js";

export interface Grid {
  readonly bits: number;
  /** The numbers are multiples of 2^exponent. */
  readonly exponent: number;
  /** Smallest multiple. */
  readonly min: number;
  /** Largest multiple. */
  readonly max: number;
}

/**
 * Symmetric: of the two ends the lower has no partner, and would be a power of two that asks for a coarser
 * grid itself.
 */
function gridOf(bits: number, exponent: number): Grid {
  const max = 2 ** (bits - 1) - 1;
  return { bits, exponent, min: -max, max };
}

/** The finest grid of so many bits that reaches the largest finite number's power of two. */
export function gridFor(words: Uint32Array, bits: number): Grid {
  let largest = 0;
  for (const word of words) {
    const magnitude = word & magnitudeMask;
    if (magnitude < infinity && magnitude > largest) largest = magnitude;
  }
  const length = 32 - Math.clz32(significand(largest));
  return gridOf(bits, unitExponent(largest) + Math.max(0, length - (bits - 1)));
}

/** Each number's nearest multiple, ties to even, within the grid; 0 for infinities and NaNs. */
export function toGrid(words: Uint32Array, { exponent, min, max }: Grid): Int32Array {
  const multiples = new Int32Array(words.length);
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    if (!isFiniteWord(word)) continue;
    const magnitude = shiftToNearestEven(significand(word), exponent - unitExponent(word));
    multiples[i] = Math.max(min, Math.min(max, word >>> 31 === 1 ? -magnitude : magnitude));
  }
  return multiples;
}

export function fromGrid(multiples: Int32Array, exponent: number): Uint32Array {
  const words = new Uint32Array(multiples.length);
  for (let i = 0; i < words.length; i++) words[i] = wordOfProduct(multiples[i]!, exponent);
  return words;
}

/** @throws DELTA_MALFORMED */
function checkWithin({ min, max }: Grid, multiples: Int32Array): void {
  for (const multiple of multiples)
    if (multiple < min || multiple > max) throw encodingMalformed("a number lies outside its grid");
}

function writeHead(out: ByteWriter, words: Uint32Array, { bits, exponent }: Grid): void {
  out.u8(bits);
  out.i16(exponent);
  writeExceptions(out, words);
}

/** @throws DELTA_MALFORMED for grids that no float32 tensor has */
function readHead(
  reader: ByteReader,
  mostBits: number,
  count: number,
): { readonly grid: Grid; readonly exceptions: ReturnType<typeof readExceptions> } {
  const bits = reader.u8(),
    exponent = reader.i16();
  if (bits < 2 || bits > mostBits || exponent < -149 || exponent + bits - 1 > 128)
    throw encodingMalformed(`it has ${bits} bits a number and a unit of 2^${exponent}`);
  return { grid: gridOf(bits, exponent), exceptions: readExceptions(reader, count) };
}

function putBack(words: Uint32Array, exceptions: ReturnType<typeof readExceptions>): Uint32Array {
  for (const { index, word } of exceptions) words[index] = word;
  return words;
}

function integerType(bits: number): DType {
  return bits <= 8 ? "I8" : bits <= 16 ? "I16" : "I32";
}

export function encodeFixed(
  codec: DeltaCodec,
  words: Uint32Array,
  shape: readonly number[],
  bits: number,
): Uint8Array {
  const out = new ByteWriter(),
    grid = gridFor(words, bits),
    multiples = toGrid(words, grid),
    dtype = integerType(bits);
  writeHead(out, words, grid);
  const narrow =
    dtype === "I8" ? Int8Array.from(multiples) : dtype === "I16" ? Int16Array.from(multiples) : multiples;
  // Few bits are best coded as bytes that occur more or less often, many by their lengths.
  writeNested(out, codec, { dtype, shape }, bytesOf(narrow), dtype === "I8" ? { layout: "planes" } : {});
  return out.finish();
}

/** @throws DELTA_MALFORMED, DELTA_CODE_UNKNOWN, DELTA_REFERENCE_MISSING */
export function decodeFixed(
  codec: DeltaCodec,
  bytes: Uint8Array,
  shape: readonly number[],
  count: number,
): Uint32Array {
  const reader = new ByteReader(bytes),
    { grid, exceptions } = readHead(reader, 24, count),
    dtype = integerType(grid.bits);
  const { buffer, byteOffset } = readNested(reader, codec, { dtype, shape });
  if (reader.left > 0) throw encodingMalformed("bytes follow its numbers");
  const stored =
    dtype === "I8"
      ? new Int8Array(buffer, byteOffset, count)
      : dtype === "I16"
        ? new Int16Array(buffer, byteOffset, count)
        : new Int32Array(buffer, byteOffset, count);
  const multiples = Int32Array.from(stored);
  checkWithin(grid, multiples);
  return putBack(fromGrid(multiples, grid.exponent), exceptions);
}

/** Bits of each plane, highest first: eight, and what is left for the last. */
function planeWidths(bits: number): readonly number[] {
  return Array.from({ length: Math.ceil(bits / 8) }, (_, plane) => Math.min(8, bits - 8 * plane));
}

export function encodeNormalized(
  codec: DeltaCodec,
  words: Uint32Array,
  shape: readonly number[],
  bits: number,
): Uint8Array {
  const out = new ByteWriter(),
    grid = gridFor(words, bits),
    multiples = toGrid(words, grid);
  writeHead(out, words, grid);
  const half = 2 ** (bits - 1);
  let below = bits;
  for (const width of planeWidths(bits)) {
    below -= width;
    const plane = new Uint8Array(multiples.length),
      mask = (1 << width) - 1;
    for (let i = 0; i < plane.length; i++) plane[i] = ((multiples[i]! + half) >>> below) & mask;
    writeNested(out, codec, { dtype: "U8", shape }, plane, { layout: "planes" });
  }
  return out.finish();
}

/**
 * What the first planes of a normalised tensor say of each number: its multiple is `low` of its grid or up to
 * `span` − 1 above it.
 */
export interface KnownMultiples {
  readonly grid: Grid;
  readonly exceptions: ReturnType<typeof readExceptions>;
  readonly low: Int32Array;
  readonly span: number;
}

/** @param planes of those it has, highest first; `bytes` may end after them @throws as decodeFixed */
export function readNormalized(
  codec: DeltaCodec,
  bytes: Uint8Array,
  shape: readonly number[],
  count: number,
  planes = 4,
): KnownMultiples {
  const reader = new ByteReader(bytes),
    { grid, exceptions } = readHead(reader, 23, count),
    widths = planeWidths(grid.bits);
  const low = new Int32Array(count),
    half = 2 ** (grid.bits - 1);
  let below = grid.bits;
  for (const width of widths.slice(0, planes)) {
    below -= width;
    const plane = readNested(reader, codec, { dtype: "U8", shape });
    if (width < 8 && plane.some((part) => part >= 1 << width))
      throw encodingMalformed("a plane holds more than its bits");
    for (let i = 0; i < count; i++) low[i] = low[i]! | (plane[i]! << below);
  }
  if (planes >= widths.length && reader.left > 0) throw encodingMalformed("bytes follow its last plane");
  for (let i = 0; i < count; i++) low[i] = low[i]! - half;
  return { grid, exceptions, low, span: 2 ** below };
}

export function decodeNormalized(
  codec: DeltaCodec,
  bytes: Uint8Array,
  shape: readonly number[],
  count: number,
): Uint32Array {
  const { grid, exceptions, low } = readNormalized(codec, bytes, shape, count);
  checkWithin(grid, low);
  return putBack(fromGrid(low, grid.exponent), exceptions);
}
