/**
 * Reads and writes the data before the streams of a piece in `packed` or `rans`. Those are scales and, for
 * contexts whose symbols do not occur as often as expected, tables. All of it is range-coded, and bounded and
 * checked when it is read.
 */
import { frequencyTotal } from "./frequencies.js";
import { isCompleteCode, soleSymbolLength, symbolCount } from "./huffman.js";
import { encodingMalformed } from "./encoding-malformed.js";
import type { View } from "./numbers.js";
import {
  codeNumber,
  newBitModel,
  numberContexts,
  RangeDecoder,
  RangeEncoder,
  type BitCoder,
} from "./range-coder.js";
import { maxScale, type Scales } from "./scales.js";

export const contextCount = 64;

/** One row of lengths or frequencies for every context that has a table of its own. */
export type OwnTables<Row extends Uint8Array | Uint16Array> = readonly (Row | undefined)[];

export interface SideInformation {
  readonly scales: Scales;
  readonly lengths: OwnTables<Uint8Array>;
  readonly frequencies: OwnTables<Uint16Array>;
}

/** The side information without vectors and tables: a coder would write only zeros, which it drops at the end. */
const nothing = new Uint8Array();

export function writeSideInformation({ scales, lengths, frequencies }: SideInformation): Uint8Array {
  if (
    scales.rows === undefined &&
    scales.columns === undefined &&
    scales.inner === undefined &&
    [...lengths, ...frequencies].every((row) => row === undefined)
  )
    return nothing;
  const coder = new RangeEncoder();
  for (const vector of [scales.rows, scales.columns, scales.inner])
    if (vector !== undefined) codeVector(coder, vector);
  codeRows(coder, lengths, codeLengths, () => new Uint8Array(symbolCount));
  codeRows(coder, frequencies, codeFrequencies, () => new Uint16Array(symbolCount));
  return coder.finish();
}

/** The statements of a piece's head about its side information. */
export interface SideInformationHead {
  readonly mean: number;
  /** The vectors of scales that were sent: of rows, columns, inner elements. */
  readonly present: readonly [boolean, boolean, boolean];
  /** True if tables are of frequencies (rANS), not of code lengths (Huffman). */
  readonly usesRans: boolean;
}

/** @throws DELTA_MALFORMED */
export function readSideInformation(
  bytes: Uint8Array,
  view: View,
  { mean, present, usesRans }: SideInformationHead,
): SideInformation {
  if (bytes.length === 0 && !present.includes(true))
    return {
      scales: { mean, rows: undefined, columns: undefined, inner: undefined },
      lengths: [],
      frequencies: [],
    };
  const coder = new RangeDecoder(bytes);
  const vector = (sent: boolean, length: number): Int8Array | undefined =>
    sent ? codeVector(coder, new Int8Array(length)) : undefined;
  const scales = {
    mean,
    rows: vector(present[0], view.rows),
    columns: vector(present[1], view.columns),
    inner: vector(present[2], view.inner),
  };
  const lengths = usesRans
    ? []
    : codeRows<Uint8Array>(coder, undefined, codeLengths, () => new Uint8Array(symbolCount));
  const frequencies = usesRans
    ? codeRows<Uint16Array>(coder, undefined, codeFrequencies, () => new Uint16Array(symbolCount))
    : [];
  for (const row of lengths)
    if (row !== undefined && !isCompleteCode(row))
      throw encodingMalformed("a table of code lengths is incomplete");
  for (const row of frequencies)
    if (row !== undefined && row.reduce((sum, frequency) => sum + frequency, 0) !== frequencyTotal)
      throw encodingMalformed("a table of frequencies does not add up");
  return { scales, lengths, frequencies };
}

function codeVector(coder: BitCoder, vector: Int8Array): Int8Array {
  const model = newBitModel(numberContexts);
  for (let i = 0; i < vector.length; i++)
    vector[i] = Math.max(-maxScale, Math.min(maxScale, codeNumber(coder, model, vector[i]!)));
  return vector;
}

type CodeRow<Row> = (coder: BitCoder, models: RowModels, row: Row, before: Row) => void;
interface RowModels {
  readonly flags: Uint16Array;
  readonly bounds: Uint16Array;
  readonly values: Uint16Array;
}

/**
 * Writes or reads the rows of the contexts that have a table of their own.
 * @param rows undefined: they are read; empty: nothing is written, as this kind of table is not used
 */
function codeRows<Row extends Uint8Array | Uint16Array>(
  coder: BitCoder,
  rows: OwnTables<Row> | undefined,
  codeRow: CodeRow<Row>,
  emptyRow: () => Row,
): OwnTables<Row> {
  if (rows !== undefined && rows.length === 0) return [];
  const models = {
    flags: newBitModel(4),
    bounds: newBitModel(2 * numberContexts),
    values: newBitModel(16 * numberContexts),
  };
  let before = emptyRow();
  let last = 0;
  const found: (Row | undefined)[] = [];
  for (let context = 0; context < contextCount; context++) {
    last = coder.bit(models.flags, last, rows?.[context] === undefined ? 0 : 1);
    if (last === 0) {
      found.push(undefined);
      continue;
    }
    const row = rows?.[context] ?? emptyRow();
    codeRow(coder, models, row, before);
    before = row;
    found.push(row);
  }
  return found;
}

function outermost(row: Uint8Array | Uint16Array, which: 0 | 1): number {
  let s = which === 0 ? 0 : symbolCount - 1;
  for (let i = 0; i < symbolCount && row[s] === 0; i++) s += which === 0 ? 1 : -1;
  return s < 0 || s >= symbolCount ? 0 : s;
}

/** First and last symbol that occur, against those of the row before. */
function codeBounds(
  coder: BitCoder,
  models: RowModels,
  row: Uint8Array | Uint16Array,
  before: Uint8Array | Uint16Array,
): readonly [number, number] {
  const values = ([0, 1] as const).map((which) => {
    const previous = outermost(before, which);
    const value =
      previous + codeNumber(coder, models.bounds, outermost(row, which) - previous, which * numberContexts);
    if (value < 0 || value >= symbolCount)
      throw encodingMalformed("a table names a symbol outside the alphabet");
    return value;
  });
  return [values[0]!, values[1]!];
}

/** Each length by a tree of four bits, in the context of the same symbol's length in the row before. */
function codeLengths(coder: BitCoder, models: RowModels, row: Uint8Array, before: Uint8Array): void {
  const [first, last] = codeBounds(coder, models, row, before);
  for (let s = first; s <= last; s++) {
    const tree = 16 * before[s]!;
    let node = 1;
    for (let bit = 3; bit >= 0; bit--)
      node = (node << 1) | coder.bit(models.values, tree + node, (row[s]! >> bit) & 1);
    row[s] = node & 15;
    if (row[s]! > soleSymbolLength) throw encodingMalformed("a code is longer than the longest allowed");
  }
}

/** Each frequency as a number, in the context of the magnitude of the symbol before it. */
function codeFrequencies(coder: BitCoder, models: RowModels, row: Uint16Array, before: Uint16Array): void {
  const [first, last] = codeBounds(coder, models, row, before);
  for (let s = first; s <= last; s++) {
    const context = s === first ? 0 : 32 - Math.clz32(row[s - 1]!);
    const value = codeNumber(coder, models.values, row[s]!, context * numberContexts);
    if (value < 0 || value > frequencyTotal) throw encodingMalformed("a frequency is out of range");
    row[s] = value;
  }
}
