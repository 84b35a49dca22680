/**
 * Quantisation to at most 256 values, with the coding table beside the codes (MH §IV-B). Uniform: values at
 * even distances from the tensor's least number to its largest. Random: the tensor's own numbers, drawn
 * from a named stream, so that values lie closest where most numbers do (the "Forgy" and "linear" tables of
 * Han et al., Deep Compression, §3.2, which ModelHub cites for it). Each number becomes the nearest value,
 * of two equally near ones that of the even code. A tensor with no more values than the table takes stays
 * exact, infinities, NaNs and all; else those are exceptions, and nought is +0.
 *
 * Bytes: table kind u8 (0 range, 1 list) ‖ range: size − 1 u8, least and largest as float32; list: size − 1
 * u8, inner float32 tensor ‖ exceptions ‖ inner U8 tensor of codes, absent where the table has one value.
 */
import { ByteReader, ByteWriter } from "../delta/bytes.js";
import type { DeltaCodec } from "../delta/codec.js";
import { encodingMalformed } from "../delta/encoding-malformed.js";
import type { Stream } from "../random/streams.js";
import { readExceptions, writeExceptions } from "./exceptions.js";
import { readNested, writeNested } from "./nested-tensor.js";
import { bytesOf, isFiniteWord, wordsOf } from "./float-words.js";

const range = 0,
  list = 1;
/** Draws for each value that a random table may have; a tensor of few values gets a smaller table. */
const drawsPerValue = 16;

/** Float32 numbers, ascending, each once; both noughts count as +0. */
type Table = Float32Array;

/**
 * `size` values at even distances, in float64 rounded once to float32; fewer where neighbours fall together.
 */
export function uniformTable(least: number, largest: number, size: number): Table {
  const step = (largest - least) / (size - 1);
  return ascending(Array.from({ length: size }, (_, i) => (i === size - 1 ? largest : least + i * step)));
}

export function randomTable(values: Float32Array, size: number, stream: Stream): Table {
  const found = new Set<number>();
  for (let draw = 0; draw < drawsPerValue * size && found.size < size; draw++) {
    const value = values[stream.integer(values.length)]!;
    if (Number.isFinite(value)) found.add(value + 0);
  }
  return ascending([...found]);
}

function ascending(values: readonly number[]): Table {
  return Float32Array.from(new Set(Float32Array.from(values, (value) => value + 0))).sort();
}

/** The code of the nearest value. */
export function nearestCode(table: Table, value: number): number {
  let low = 0,
    high = table.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (table[middle]! <= value) low = middle;
    else high = middle;
  }
  const below = value - table[low]!,
    above = table[high]! - value;
  return below < above || (below === above && (low & 1) === 0) ? low : high;
}

/** The tensor's own words, where they are few enough for the table. */
function ownWords(words: Uint32Array, size: number): Uint32Array | undefined {
  const found = new Set<number>();
  for (const word of words) {
    found.add(word);
    if (found.size > size) return undefined;
  }
  return Uint32Array.from(found).sort();
}

function finiteRange(values: Float32Array): readonly [number, number] | undefined {
  let least = Infinity,
    largest = -Infinity;
  for (const value of values)
    if (Number.isFinite(value)) {
      if (value < least) least = value;
      if (value > largest) largest = value;
    }
  return least <= largest ? [least + 0, largest + 0] : undefined;
}

function writeList(out: ByteWriter, codec: DeltaCodec, table: Uint32Array): void {
  out.u8(list);
  out.u8(table.length - 1);
  writeNested(out, codec, { dtype: "F32", shape: [table.length] }, bytesOf(table));
}

/**
 * @param stream for a random table; absent: uniform @returns undefined for a tensor without a finite number
 * that is not exact already
 */
export function encodeQuantized(
  codec: DeltaCodec,
  words: Uint32Array,
  shape: readonly number[],
  bits: number,
  stream: Stream | undefined,
): Uint8Array | undefined {
  const out = new ByteWriter(),
    size = 2 ** bits,
    own = ownWords(words, size);
  if (own !== undefined) {
    const codes = new Map(Array.from(own, (word, code) => [word, code]));
    writeList(out, codec, own);
    out.varint(0);
    if (own.length > 1)
      writeNested(
        out,
        codec,
        { dtype: "U8", shape },
        Uint8Array.from(words, (word) => codes.get(word)!),
        { layout: "planes" },
      );
    return out.finish();
  }
  const values = new Float32Array(words.buffer, words.byteOffset, words.length),
    ends = finiteRange(values);
  if (ends === undefined) return undefined;
  const table = stream === undefined ? tableOfRange(out, ends, size) : randomTable(values, size, stream);
  if (table.length === 0) return undefined;
  if (stream !== undefined) writeList(out, codec, new Uint32Array(table.buffer));
  writeExceptions(out, words);
  if (table.length > 1) {
    const codes = new Uint8Array(values.length);
    for (let i = 0; i < codes.length; i++)
      codes[i] = Number.isFinite(values[i]!) ? nearestCode(table, values[i]!) : 0;
    writeNested(out, codec, { dtype: "U8", shape }, codes, { layout: "planes" });
  }
  return out.finish();
}

function tableOfRange(out: ByteWriter, [least, largest]: readonly [number, number], size: number): Table {
  out.u8(range);
  out.u8(size - 1);
  out.bytes(bytesOf(Float32Array.of(least, largest)));
  return uniformTable(least, largest, size);
}

/** @throws DELTA_MALFORMED, DELTA_CODE_UNKNOWN, DELTA_REFERENCE_MISSING */
export function decodeQuantized(
  codec: DeltaCodec,
  bytes: Uint8Array,
  shape: readonly number[],
  count: number,
): Uint32Array {
  const reader = new ByteReader(bytes),
    table = readTable(reader, codec),
    exceptions = readExceptions(reader, count);
  const codes = table.length > 1 ? readNested(reader, codec, { dtype: "U8", shape }) : undefined;
  if (reader.left > 0) throw encodingMalformed("bytes follow its codes");
  const words = new Uint32Array(count);
  if (codes === undefined) words.fill(table[0]!);
  else {
    for (let i = 0; i < count; i++) {
      const code = codes[i]!;
      if (code >= table.length) throw encodingMalformed("a code is none of its table");
      words[i] = table[code]!;
    }
  }
  for (const { index, word } of exceptions) words[index] = word;
  return words;
}

function readTable(reader: ByteReader, codec: DeltaCodec): Uint32Array {
  const kind = reader.u8(),
    size = reader.u8() + 1;
  if (kind === list) return wordsOf(readNested(reader, codec, { dtype: "F32", shape: [size] }));
  const ends = wordsOf(reader.take(8)),
    [least, largest] = new Float32Array(ends.buffer) as unknown as readonly [number, number];
  if (kind !== range || size < 2 || !ends.every(isFiniteWord) || !(least < largest))
    throw encodingMalformed("its coding table is none");
  return wordsOf(bytesOf(uniformTable(least, largest, size)));
}
