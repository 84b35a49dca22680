/** Where things lie in the kernels' memory: tables at the bottom, kept from call to call, then one piece's arrays. Knows no format. */
import { frequenciesOf, writeFrequencyTables } from "./frequencies.js";
import { huffmanLengths, symbols, writeTables, type Meaning } from "./huffman.js";
import type { DeltaKernels, Heap } from "./kernels/kernels.js";
import { expectedCounts, meaningsOf, type Alphabet } from "./meanings.js";
import type { View } from "./numbers.js";
import { contextCount } from "./side-information.js";

const codingBytes = contextCount * symbols * 4;
const decodingBytes = contextCount * 1024 * 4;
const slots = 6;

/** Scratch words, histogram, a coding and a decoding table of one tensor (2048 entries a context for frequencies), then what is expected, by alphabet and shift. */
const scratch = 64;
const histogram = 256;
const coding = histogram + codingBytes;
const decoding = coding + codingBytes;
const expectedAt = decoding + 2 * decodingBytes;
const expectedBytes = 2 * codingBytes + decodingBytes + 256;
const piecesAt = expectedAt + slots * expectedBytes;

/** What is expected of an alphabet: rows by context, and where its tables lie. */
export interface Expected {
  readonly meanings: readonly Meaning[];
  readonly lengths: readonly Uint8Array[];
  readonly frequencies: readonly Uint16Array[];
  readonly coding: number;
  readonly decoding: number;
  /** A coding table (by index) and a decoding table (by symbol) with no codes, only the bits that follow. */
  readonly extraCoding: number;
  readonly extraDecoding: number;
}

/** Byte offsets of one piece's arrays. */
export interface PieceRoom {
  readonly heap: Heap;
  readonly base: number;
  readonly previous: number;
  readonly child: number;
  readonly prediction: number;
  readonly contexts: number;
  readonly indices: number;
  readonly rows: number;
  readonly columns: number;
  readonly inner: number;
  /** Free space to the end, at least as long as the numbers' lanes and 64 bytes. */
  readonly stream: number;
  readonly streamEnd: number;
}

export class Workspace {
  readonly #expected = new Map<number, Expected>();
  constructor(readonly kernels: DeltaKernels) { kernels.reserve(piecesAt); }

  readonly scratch = scratch;
  readonly histogram = histogram;
  readonly coding = coding;
  readonly decoding = decoding;

  /** Room for a piece of `count` numbers and `streamBytes` of streams. What an earlier piece left there may still be there. */
  pieceRoom(count: number, view: View, streamBytes: number): PieceRoom {
    let at = piecesAt;
    const take = (bytes: number): number => { const from = at; at = (at + bytes + 31) & ~15; return from; };
    const lanes = 4 * count;
    const places = {
      base: take(lanes), previous: take(lanes), child: take(lanes), prediction: take(lanes), contexts: take(count), indices: take(2 * count),
      rows: take(4 * view.rows), columns: take(4 * view.columns), inner: take(4 * view.inner), stream: at,
    };
    const streamEnd = at + Math.max(streamBytes, lanes) + 64;
    return { ...places, streamEnd, heap: this.kernels.reserve(streamEnd + 64) };
  }

  /** Made at first use. */
  expected(alphabet: Alphabet, shift: number): Expected {
    const slot = (alphabet === "differences" ? 0 : 3) + (shift === 0 ? 0 : shift === 13 ? 1 : 2);
    let found = this.#expected.get(slot);
    if (found === undefined) this.#expected.set(slot, found = this.#prepare(alphabet, shift, expectedAt + slot * expectedBytes));
    return found;
  }

  #prepare(alphabet: Alphabet, shift: number, at: number): Expected {
    const { u32 } = this.kernels.reserve(piecesAt), meanings = meaningsOf(alphabet, shift);
    const places = { coding: at, decoding: at + codingBytes, extraCoding: at + codingBytes + decodingBytes, extraDecoding: at + 2 * codingBytes + decodingBytes };
    const lengths: Uint8Array[] = [], frequencies: Uint16Array[] = [];
    for (let context = 0; context < contextCount; context++) {
      const counts = expectedCounts(alphabet, context);
      const row = new Uint8Array(symbols), shares = new Uint16Array(symbols);
      huffmanLengths(counts, row);
      frequenciesOf(counts, shares);
      lengths.push(row);
      frequencies.push(shares);
      writeTables(row, meanings, rowOf(u32, places.coding, context, symbols), rowOf(u32, places.decoding, context, 1024));
      const extras = rowOf(u32, places.extraCoding, context, symbols);
      for (const [symbol, { width, kind }] of meanings.entries()) extras[symbol] = (width << 20) | (kind << 28);
    }
    const extras = rowOf(u32, places.extraDecoding, 0, symbols);
    for (const [symbol, { width, kind, high }] of meanings.entries()) extras[symbol] = (width << 8) | (high << 16) | (kind << 24);
    return { meanings, lengths, frequencies, ...places };
  }

  /** Puts together this tensor's own rows and the expected ones; returns where the table lies. @param used contexts that occur (all when decoding) */
  codeTables(own: readonly (Uint8Array | undefined)[], expected: Expected, decode: boolean): number {
    if (own.every((row) => row === undefined)) return decode ? expected.decoding : expected.coding;
    const { u32 } = this.kernels.reserve(piecesAt), width = decode ? 1024 : symbols, place = decode ? decoding : coding;
    for (let context = 0; context < contextCount; context++) {
      const target = rowOf(u32, place, context, width), row = own[context];
      if (row === undefined) target.set(rowOf(u32, decode ? expected.decoding : expected.coding, context, width));
      else writeTables(row, expected.meanings, decode ? undefined : target, decode ? target : undefined);
    }
    return place;
  }

  frequencyTables(own: readonly (Uint16Array | undefined)[], expected: readonly (Uint16Array | undefined)[], decode: boolean, alphabetSize: number = symbols): number {
    const { u32 } = this.kernels.reserve(piecesAt), place = decode ? decoding : coding;
    for (let context = 0; context < Math.max(own.length, expected.length); context++) {
      const row = own[context] ?? expected[context];
      const target = rowOf(u32, place, context, decode ? 2048 : alphabetSize);
      if (row === undefined) target.fill(0);
      else writeFrequencyTables(row, decode ? undefined : target, decode ? target : undefined);
    }
    return place;
  }
}

function rowOf(u32: Uint32Array, table: number, context: number, width: number): Uint32Array {
  const from = (table >> 2) + context * width;
  return u32.subarray(from, from + width);
}
