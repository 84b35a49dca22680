/**
 * Numbers on an even grid: integer multiples of one power of two for the complete tensor. Two schemes do
 * this: "fixed point" (MH §IV-B: a global exponent for a matrix, k bits for sign and mantissa) and
 * "normalisation" (§V-B, table IV: a number is added that brings all of a matrix to one exponent, so that
 * radices and signs are aligned; x + 1.5·2^p in float32 keeps only a multiple of its unit of x, and its
 * mantissa is that multiple plus half the range).
 *
 * They differ in how the multiples are stored. Fixed point stores them as one tensor of integers. A
 * normalised tensor is stored in byte planes of that mantissa, highest first: its first byte alone
 * distinguishes 256 values, whereas a float32's first byte has the sign and most of the exponent.
 *
 * Bytes: bits u8 ‖ exponent of the unit i16 ‖ exceptions ‖ fixed: one nested tensor of integers; normalised:
 * a nested tensor for each plane. Both zeros become +0; infinities and NaNs are exceptions.
 */
import { ByteReader, ByteWriter } from "../delta/bytes.js";
import type { DeltaCodec } from "../delta/codec.js";
import { encodingMalformed } from "../delta/encoding-malformed.js";
import type { DType } from "../tensor/dtype.js";
import { readExceptions, writeExceptions, type Exception } from "./exceptions.js";
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
 * Symmetric around zero. The lower end of two's complement, −2^(bits−1), is left out: it has no positive
 * counterpart, and as a power of two it would need a coarser grid when reduced again.
 */
function gridOf(bits: number, exponent: number): Grid {
  const max = 2 ** (bits - 1) - 1;
  return { bits, exponent, min: -max, max };
}

/**
 * The finest grid of so many bits that reaches the largest finite number's power of two. @param words float32
 */
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
    if (multiple < min || multiple > max) throw encodingMalformed("a number is outside its grid");
}

function writeHead(out: ByteWriter, words: Uint32Array, { bits, exponent }: Grid): void {
  out.u8(bits);
  out.i16(exponent);
  writeExceptions(out, words);
}

/** @throws DELTA_MALFORMED for grids that no float32 tensor has */
function readHead(
  reader: ByteReader,
  maxBits: number,
  count: number,
): { readonly grid: Grid; readonly exceptions: readonly Exception[] } {
  const bits = reader.u8();
  const exponent = reader.i16();
  if (bits < 2 || bits > maxBits || exponent < -149 || exponent + bits - 1 > 128)
    throw encodingMalformed(`it has ${bits} bits a number and a unit of 2^${exponent}`);
  return { grid: gridOf(bits, exponent), exceptions: readExceptions(reader, count) };
}

function putBack(words: Uint32Array, exceptions: readonly Exception[]): Uint32Array {
  for (const { index, word } of exceptions) words[index] = word;
  return words;
}

function integerType(bits: number): DType {
  return bits <= 8 ? "I8" : bits <= 16 ? "I16" : "I32";
}

/** A float32 matrix as 32-bit words. */
export interface FloatMatrix {
  readonly words: Uint32Array;
  readonly shape: readonly number[];
}

/** @param bits of an integer, 2 to 24 */
export function encodeFixed(codec: DeltaCodec, { words, shape }: FloatMatrix, bits: number): Uint8Array {
  const out = new ByteWriter();
  const grid = gridFor(words, bits);
  const multiples = toGrid(words, grid);
  const dtype = integerType(bits);
  writeHead(out, words, grid);
  const narrow =
    dtype === "I8" ? Int8Array.from(multiples) : dtype === "I16" ? Int16Array.from(multiples) : multiples;
  // Integers of one byte are smallest in planes, by how often each value occurs; wider ones by bit length.
  const options = dtype === "I8" ? ({ layout: "planes" } as const) : {};
  writeNested(out, codec, { dtype, shape, bytes: bytesOf(narrow) }, options);
  return out.finish();
}

/** @throws DELTA_MALFORMED, DELTA_CODE_UNKNOWN, DELTA_REFERENCE_MISSING */
export function decodeFixed(
  codec: DeltaCodec,
  bytes: Uint8Array,
  shape: readonly number[],
  count: number,
): Uint32Array {
  const reader = new ByteReader(bytes);
  const { grid, exceptions } = readHead(reader, 24, count);
  const dtype = integerType(grid.bits);
  const { buffer, byteOffset } = readNested(reader, codec, { dtype, shape });
  if (reader.remaining > 0) throw encodingMalformed("bytes follow its numbers");
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

/** @param bits of a mantissa, 2 to 23 */
export function encodeNormalized(codec: DeltaCodec, { words, shape }: FloatMatrix, bits: number): Uint8Array {
  const out = new ByteWriter();
  const grid = gridFor(words, bits);
  const multiples = toGrid(words, grid);
  writeHead(out, words, grid);
  const halfRange = 2 ** (bits - 1);
  let below = bits;
  for (const width of planeWidths(bits)) {
    below -= width;
    const plane = new Uint8Array(multiples.length);
    const mask = (1 << width) - 1;
    for (let i = 0; i < plane.length; i++) plane[i] = ((multiples[i]! + halfRange) >>> below) & mask;
    writeNested(out, codec, { dtype: "U8", shape, bytes: plane }, { layout: "planes" });
  }
  return out.finish();
}

/** @throws DELTA_MALFORMED, DELTA_CODE_UNKNOWN, DELTA_REFERENCE_MISSING */
export function decodeNormalized(
  codec: DeltaCodec,
  bytes: Uint8Array,
  shape: readonly number[],
  count: number,
): Uint32Array {
  const reader = new ByteReader(bytes);
  const { grid, exceptions } = readHead(reader, 23, count);
  const multiples = new Int32Array(count).fill(-(2 ** (grid.bits - 1)));
  let below = grid.bits;
  for (const width of planeWidths(grid.bits)) {
    below -= width;
    const plane = readNested(reader, codec, { dtype: "U8", shape });
    if (width < 8 && plane.some((part) => part >= 1 << width))
      throw encodingMalformed("a plane holds more than its bits");
    for (let i = 0; i < count; i++) multiples[i] = multiples[i]! + (plane[i]! << below);
  }
  if (reader.remaining > 0) throw encodingMalformed("bytes follow its last plane");
  checkWithin(grid, multiples);
  return putBack(fromGrid(multiples, grid.exponent), exceptions);
}
