/**
 * Quantisation to at most 256 values, with a coding table and a code for each number (MH §IV-B). Uniform: the
 * table's values are at even distances from the tensor's smallest number to its largest. Random: they are the
 * tensor's own numbers, drawn from a named stream, so that values are closest where most numbers are (the
 * "Forgy" and "linear" tables of Han et al., Deep Compression, §3.2, which ModelHub cites). Each number
 * becomes the nearest value; of two equally near ones, that with the even code. A tensor with no more
 * distinct values than the table takes stays exact, including infinities and NaNs. Otherwise those are
 * exceptions, and both zeros become +0.
 *
 * Bytes: table kind u8 (0 range, 1 list) ‖ range: size − 1 u8, smallest and largest value as float32; list:
 * size − 1 u8, nested float32 tensor ‖ exceptions ‖ nested U8 tensor of codes, absent where the table has one
 * value.
 */
import { ByteReader, ByteWriter } from "../delta/bytes.js";
import type { DeltaCodec } from "../delta/codec.js";
import { encodingMalformed } from "../delta/encoding-malformed.js";
import type { Stream } from "../random/streams.js";
import type { FloatMatrix } from "./grid.js";
import { readExceptions, writeExceptions } from "./exceptions.js";
import { readNested, writeNested } from "./nested-tensor.js";
import { bytesOf, isFiniteWord, copyAsWords } from "./float-words.js";

/** The kinds of stored coding tables: by their ends, or value by value. */
const tableKinds = { range: 0, list: 1 } as const;
/** Draws for each value of a random table; a tensor with few distinct values gets a smaller table. */
const drawsPerValue = 16;

/** A coding table: float32 numbers, ascending, each once; both zeros count as +0. */
type CodingTable = Float32Array;

/**
 * `size` values at even distances, computed in float64 and rounded once to float32; fewer where neighbours
 * become equal.
 */
export function uniformTable(min: number, max: number, size: number): CodingTable {
  const step = (max - min) / (size - 1);
  return ascending(Array.from({ length: size }, (_, i) => (i === size - 1 ? max : min + i * step)));
}

/** Draws up to `size` of the tensor's finite numbers from the stream. */
export function randomTable(values: Float32Array, size: number, stream: Stream): CodingTable {
  const found = new Set<number>();
  for (let draw = 0; draw < drawsPerValue * size && found.size < size; draw++) {
    const value = values[stream.integer(values.length)]!;
    if (Number.isFinite(value)) found.add(value + 0);
  }
  return ascending([...found]);
}

function ascending(values: readonly number[]): CodingTable {
  return Float32Array.from(new Set(Float32Array.from(values, (value) => value + 0))).sort();
}

/** The code of the nearest value. */
export function nearestCode(table: CodingTable, value: number): number {
  let low = 0;
  let high = table.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (table[middle]! <= value) low = middle;
    else high = middle;
  }
  const below = value - table[low]!;
  const above = table[high]! - value;
  return below < above || (below === above && (low & 1) === 0) ? low : high;
}

/** The tensor's distinct words, ascending; undefined where there are more than `size`. */
function distinctWords(words: Uint32Array, size: number): Uint32Array | undefined {
  const found = new Set<number>();
  for (const word of words) {
    found.add(word);
    if (found.size > size) return undefined;
  }
  return Uint32Array.from(found).sort();
}

/** Smallest and largest finite number, zeros as +0; undefined where no number is finite. */
function finiteRange(values: Float32Array): readonly [min: number, max: number] | undefined {
  let min = Infinity;
  let max = -Infinity;
  for (const value of values)
    if (Number.isFinite(value)) {
      if (value < min) min = value;
      if (value > max) max = value;
    }
  return min <= max ? [min + 0, max + 0] : undefined;
}

function writeList(out: ByteWriter, codec: DeltaCodec, table: Uint32Array): void {
  out.u8(tableKinds.list);
  out.u8(table.length - 1);
  writeNested(out, codec, { dtype: "F32", shape: [table.length], bytes: bytesOf(table) });
}

function writeCodes(out: ByteWriter, codec: DeltaCodec, shape: readonly number[], codes: Uint8Array): void {
  writeNested(out, codec, { dtype: "U8", shape, bytes: codes }, { layout: "planes" });
}

/**
 * @param bits of a code, 1 to 8
 * @param stream the source of a random table; undefined for a uniform table
 * @returns undefined for a tensor without a finite number whose distinct values do not fit the table
 */
export function encodeQuantized(
  codec: DeltaCodec,
  { words, shape }: FloatMatrix,
  bits: number,
  stream: Stream | undefined,
): Uint8Array | undefined {
  const out = new ByteWriter();
  const size = 2 ** bits;
  const distinct = distinctWords(words, size);
  if (distinct !== undefined) {
    const codes = new Map(Array.from(distinct, (word, code) => [word, code]));
    writeList(out, codec, distinct);
    out.varint(0);
    if (distinct.length > 1)
      writeCodes(
        out,
        codec,
        shape,
        Uint8Array.from(words, (word) => codes.get(word)!),
      );
    return out.finish();
  }
  const values = new Float32Array(words.buffer, words.byteOffset, words.length);
  const range = finiteRange(values);
  if (range === undefined) return undefined;
  const table = stream === undefined ? writeRange(out, range, size) : randomTable(values, size, stream);
  if (table.length === 0) return undefined;
  if (stream !== undefined) writeList(out, codec, new Uint32Array(table.buffer));
  writeExceptions(out, words);
  if (table.length > 1) {
    const codes = new Uint8Array(values.length);
    for (let i = 0; i < codes.length; i++)
      codes[i] = Number.isFinite(values[i]!) ? nearestCode(table, values[i]!) : 0;
    writeCodes(out, codec, shape, codes);
  }
  return out.finish();
}

/** Writes the ends of a uniform table and returns the table. */
function writeRange(out: ByteWriter, [min, max]: readonly [number, number], size: number): CodingTable {
  out.u8(tableKinds.range);
  out.u8(size - 1);
  out.bytes(bytesOf(Float32Array.of(min, max)));
  return uniformTable(min, max, size);
}

/** @throws DELTA_MALFORMED, DELTA_CODE_UNKNOWN, DELTA_REFERENCE_MISSING */
export function decodeQuantized(
  codec: DeltaCodec,
  bytes: Uint8Array,
  shape: readonly number[],
  count: number,
): Uint32Array {
  const reader = new ByteReader(bytes);
  const table = readTable(reader, codec);
  const exceptions = readExceptions(reader, count);
  const codes = table.length > 1 ? readNested(reader, codec, { dtype: "U8", shape }) : undefined;
  if (reader.remaining > 0) throw encodingMalformed("bytes follow its codes");
  const words = new Uint32Array(count);
  if (codes === undefined) words.fill(table[0]!);
  else {
    for (let i = 0; i < count; i++) {
      const code = codes[i]!;
      if (code >= table.length) throw encodingMalformed("a code is outside its table");
      words[i] = table[code]!;
    }
  }
  for (const { index, word } of exceptions) words[index] = word;
  return words;
}

function readTable(reader: ByteReader, codec: DeltaCodec): Uint32Array {
  const kind = reader.u8();
  const size = reader.u8() + 1;
  if (kind === tableKinds.list)
    return copyAsWords(readNested(reader, codec, { dtype: "F32", shape: [size] }));
  const ends = copyAsWords(reader.take(8));
  const [min, max] = new Float32Array(ends.buffer) as unknown as readonly [number, number];
  if (kind !== tableKinds.range || size < 2 || !ends.every(isFiniteWord) || !(min < max))
    throw encodingMalformed("its coding table is malformed");
  return copyAsWords(bytesOf(uniformTable(min, max, size)));
}
