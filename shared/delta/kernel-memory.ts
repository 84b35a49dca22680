/**
 * The layout of the kernels' memory: first the tables, which are kept from call to call, then the arrays of
 * one piece or segment. Does not depend on a format.
 */
import { normaliseFrequencies, writeFrequencyTables, writePlaneTable } from "./frequencies.js";
import {
  decodingExtras,
  codingExtras,
  huffmanLengths,
  symbolCount,
  writeCodingRow,
  type SymbolDefinition,
} from "./huffman.js";
import type { DeltaKernels, Heap } from "./kernels/kernels.js";
import { expectedCounts, symbolDefinitions, type Alphabet } from "./symbol-definitions.js";
import type { View } from "./numbers.js";
import { contextCount } from "./side-information.js";

const codingBytes = contextCount * symbolCount * 4;
const decodingBytes = contextCount * 1024 * 4;
/** Two alphabets, each for the three shifts that a number kind can have. */
const expectedTableCount = 6;
/** Contexts of a byte plane: the bytes above are zero, or not. */
const planeContexts = 2;

/**
 * Byte offsets of the scratch words, sums and a histogram by context, a coding and a decoding table of one
 * tensor (2048 entries per context for frequencies), then the expected tables, by alphabet and shift.
 */
const scratch = 64;
const totals = 256;
const histogram = 512;
const coding = histogram + codingBytes;
const decoding = coding + codingBytes;
const expectedStart = decoding + 2 * decodingBytes;
const expectedBytes = 2 * codingBytes + decodingBytes + 256;
const piecesStart = expectedStart + expectedTableCount * expectedBytes;

/**
 * The tables of an alphabet's expected frequencies: rows by context, and byte offsets of the kernels' tables.
 */
export interface ExpectedTables {
  readonly symbols: readonly SymbolDefinition[];
  readonly lengths: readonly Uint8Array[];
  readonly frequencies: readonly Uint16Array[];
  readonly coding: number;
  readonly decoding: number;
  /** A coding table (by index) and a decoding table (by symbol) with no codes, only the bits that follow. */
  readonly extraCoding: number;
  readonly extraDecoding: number;
}

/** Byte offsets of one piece's arrays. */
export interface PieceArrays {
  readonly heap: Heap;
  readonly base: number;
  readonly previous: number;
  /**
   * The offset of folded numbers, in the array of `previous`, which is not needed any more once there is a prediction.
   */
  readonly folded: number;
  readonly child: number;
  readonly prediction: number;
  readonly contexts: number;
  readonly indices: number;
  readonly rows: number;
  readonly columns: number;
  readonly inner: number;
  /**
   * Two arrays for streams, each slightly longer than the lanes of the numbers or than the requested size.
   */
  readonly stream: number;
  readonly secondStream: number;
  /** Half of either array: enough for half of its numbers, at 42 bits each. */
  readonly halfStream: number;
}

/** Byte offsets of one segment's arrays in byte planes. */
export interface PlaneArrays {
  readonly heap: Heap;
  /** Planes, `stride` bytes from one to the next; the elements they make, and those of the base. */
  readonly planes: number;
  readonly stride: number;
  readonly elements: number;
  readonly base: number;
  /** Context of each element, exponent of each channel. */
  readonly state: number;
  readonly exponents: number;
  readonly indices: number;
  /** An array for streams, slightly longer than the elements or than the requested size. */
  readonly stream: number;
  readonly streamEnd: number;
}

/**
 * The content of a table: the offset of the expected rows that it was copied from, and the contexts that have
 * rows of their own.
 */
class TableContent {
  expected = 0;
  readonly own = new Uint8Array(contextCount);
}

export class KernelMemory {
  readonly #expected = new Map<number, ExpectedTables>();
  /** The content of the coding and of the decoding table. */
  readonly #contents = [new TableContent(), new TableContent()] as const;
  constructor(readonly kernels: DeltaKernels) {
    kernels.reserve(piecesStart);
  }

  readonly scratch = scratch;
  readonly histogram = histogram;
  readonly totals = totals;
  readonly coding = coding;
  readonly decoding = decoding;

  /**
   * Arrays for a piece of `count` numbers and `streamBytes` of streams. They are not cleared.
   */
  pieceArrays(count: number, view: View, streamBytes: number): PieceArrays {
    const lanes = 4 * count;
    const each = aligned(1.05 * Math.max(streamBytes, lanes) + 4096);
    const base = piecesStart;
    const previous = base + aligned(lanes);
    const child = previous + aligned(lanes);
    const prediction = child + aligned(lanes);
    const contexts = prediction + aligned(lanes);
    const indices = contexts + aligned(count);
    const rows = indices + aligned(2 * count);
    const columns = rows + aligned(4 * view.rows);
    const inner = columns + aligned(4 * view.columns);
    const stream = inner + aligned(4 * view.inner);
    const secondStream = stream + each;
    const halfStream = (each >> 1) & ~15;
    return {
      heap: this.kernels.reserve(secondStream + each),
      base,
      previous,
      folded: previous,
      child,
      prediction,
      contexts,
      indices,
      rows,
      columns,
      inner,
      stream,
      secondStream,
      halfStream,
    };
  }

  /**
   * Arrays for `length` elements of `width` bytes in planes. They are not cleared.
   */
  planeArrays(length: number, width: number, channels: number, streamBytes: number): PlaneArrays {
    const stride = aligned(length);
    const lanes = aligned(width * length);
    const planes = piecesStart;
    const elements = planes + width * stride;
    const base = elements + lanes;
    const state = base + lanes;
    const exponents = state + stride;
    const indices = exponents + aligned(channels);
    const stream = indices + aligned(2 * length);
    const streamEnd = stream + aligned(1.05 * Math.max(streamBytes, 4 * length) + 4096);
    return {
      heap: this.kernels.reserve(streamEnd),
      planes,
      stride,
      elements,
      base,
      state,
      exponents,
      indices,
      stream,
      streamEnd,
    };
  }

  /**
   * Arrays of these lengths in bytes, in place of those of a piece or segment. They are not cleared.
   */
  arrays<Name extends string>(
    lengths: Readonly<Record<Name, number>>,
  ): { readonly heap: Heap; readonly offsets: Readonly<Record<Name, number>> } {
    let end = piecesStart;
    const offsets = {} as Record<Name, number>;
    for (const name of Object.keys(lengths) as Name[]) {
      offsets[name] = end;
      end += aligned(lengths[name]);
    }
    return { heap: this.kernels.reserve(end), offsets };
  }

  /** The expected tables of an alphabet, built at first use. */
  expected(alphabet: Alphabet, shift: number): ExpectedTables {
    const slot = (alphabet === "differences" ? 0 : 3) + (shift === 0 ? 0 : shift === 13 ? 1 : 2);
    let found = this.#expected.get(slot);
    if (found === undefined)
      this.#expected.set(
        slot,
        (found = this.#prepare(alphabet, shift, expectedStart + slot * expectedBytes)),
      );
    return found;
  }

  #prepare(alphabet: Alphabet, shift: number, start: number): ExpectedTables {
    const { u32 } = this.kernels.reserve(piecesStart);
    const symbols = symbolDefinitions(alphabet, shift);
    const offsets = {
      coding: start,
      decoding: start + codingBytes,
      extraCoding: start + codingBytes + decodingBytes,
      extraDecoding: start + 2 * codingBytes + decodingBytes,
    };
    rowOf(u32, offsets.extraDecoding, 0, symbolCount).set(symbols.map(decodingExtras));
    const lengths: Uint8Array[] = [];
    const frequencies: Uint16Array[] = [];
    for (let context = 0; context < contextCount; context++) {
      const counts = expectedCounts(alphabet, context);
      const row = new Uint8Array(symbolCount);
      const shares = new Uint16Array(symbolCount);
      huffmanLengths(counts, row);
      normaliseFrequencies(counts, shares);
      lengths.push(row);
      frequencies.push(shares);
      writeCodingRow(row, symbols, rowOf(u32, offsets.coding, context, symbolCount));
      this.#decodingRow(row, offsets.extraDecoding, offsets.decoding, context);
      rowOf(u32, offsets.extraCoding, context, symbolCount).set(symbols.map(codingExtras));
    }
    return { symbols, lengths, frequencies, ...offsets };
  }

  /**
   * Writes a piece's own rows over the expected ones; returns the table's byte offset. The table keeps the
   * expected rows of the last alphabet, so that only what differs is written.
   */
  codeTables(own: readonly (Uint8Array | undefined)[], expected: ExpectedTables, decode: boolean): number {
    if (own.every((row) => row === undefined)) return decode ? expected.decoding : expected.coding;
    const { u32 } = this.kernels.reserve(piecesStart);
    const width = decode ? 1024 : symbolCount;
    const table = decode ? decoding : coding;
    const from = decode ? expected.decoding : expected.coding;
    const content = this.#contents[decode ? 1 : 0];
    if (content.expected !== from) {
      u32.copyWithin(table >> 2, from >> 2, (from >> 2) + contextCount * width);
      content.own.fill(0);
      content.expected = from;
    }
    for (let context = 0; context < contextCount; context++) {
      const row = own[context];
      if (row !== undefined && decode) this.#decodingRow(row, expected.extraDecoding, table, context);
      else if (row !== undefined) writeCodingRow(row, expected.symbols, rowOf(u32, table, context, width));
      else if (content.own[context] === 1)
        u32.copyWithin(
          (table >> 2) + context * width,
          (from >> 2) + context * width,
          (from >> 2) + (context + 1) * width,
        );
      content.own[context] = row === undefined ? 0 : 1;
    }
    return table;
  }

  #decodingRow(lengths: Uint8Array, definitions: number, table: number, context: number): void {
    this.kernels.reserve(piecesStart).u8.set(lengths, scratch);
    this.kernels.decodingRow(scratch, definitions, scratch + symbolCount, table + context * 4096);
  }

  /**
   * Writes rANS tables for coding or decoding, own rows where there are any, else expected ones; returns
   * their byte offset.
   */
  frequencyTables(
    own: readonly (Uint16Array | undefined)[],
    expected: readonly (Uint16Array | undefined)[],
    decode: boolean,
    { alphabetSize = symbolCount }: { readonly alphabetSize?: number } = {},
  ): number {
    const { u32 } = this.kernels.reserve(piecesStart);
    const table = decode ? decoding : coding;
    this.#contents[decode ? 1 : 0].expected = 0;
    for (let context = 0; context < Math.max(own.length, expected.length); context++) {
      const row = own[context] ?? expected[context];
      const target = rowOf(u32, table, context, decode ? 2048 : alphabetSize);
      if (row === undefined) target.fill(0);
      else writeFrequencyTables(row, decode ? undefined : target, decode ? target : undefined);
    }
    return table;
  }

  /**
   * Writes the decoding tables of byte planes one after the other, each with a row for either context (zeros
   * where it is missing); returns their byte offset.
   */
  planeTables(planes: readonly { readonly rows: readonly Uint16Array[]; readonly mask: number }[]): number {
    const { u32 } = this.kernels.reserve(piecesStart);
    this.#contents[1].expected = 0;
    planes.forEach(({ rows, mask }, plane) => {
      rows.forEach((row, context) => {
        const target = rowOf(u32, decoding, planeContexts * plane + context, 2048);
        if (row.some((share) => share > 0)) writePlaneTable(row, mask, target);
        else target.fill(0);
      });
    });
    return decoding;
  }
}

function rowOf(u32: Uint32Array, table: number, context: number, width: number): Uint32Array {
  const from = (table >> 2) + context * width;
  return u32.subarray(from, from + width);
}

/** Rounds up, with a gap after the array for kernels that read or write complete words. */
function aligned(bytes: number): number {
  return (Math.ceil(bytes) + 31) & ~15;
}
