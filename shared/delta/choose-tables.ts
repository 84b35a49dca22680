/**
 * Decides, from how often each symbol occurred, which contexts get tables of their own and which of the two
 * coders gives fewer bits. Pure.
 */
import { normaliseFrequencies } from "./frequencies.js";
import { huffmanLengths, soleSymbolLength, symbolCount } from "./huffman.js";
import { roughLog2 } from "./numbers.js";
import { contextCount, type OwnTables } from "./side-information.js";
import type { ExpectedTables } from "./kernel-memory.js";

export interface TableChoice {
  /** True if rANS is to be used; then `frequencies` has rows, else `lengths`. */
  readonly usesRans: boolean;
  readonly lengths: OwnTables<Uint8Array>;
  readonly frequencies: OwnTables<Uint16Array>;
  /** Bits of all streams and, roughly, of the tables. */
  readonly bits: number;
}

/**
 * Estimated cost of a table in bits: for the row of a context, and for each symbol's code length or
 * frequency.
 */
const rowBits = 6;
const lengthBits = 2.5;
const frequencyBits = 6;
/** A table must save this many bits more than it takes, because reading it takes time. */
const timeBits = 64;
/** A context with fewer numbers gets no table of its own. */
const minCount = 64;
/** rANS is slower, so it is used only where it needs at most this share of the bits of Huffman codes. */
const maxRansShare = 0.985;

/** A most frequent symbol with a smaller share than this makes rANS save an assumed 1 %, without computing it. */
const minPeakShare = 0.35;
const flatShare = 0.99;

type Expectation = Pick<ExpectedTables, "symbols" | "lengths" | "frequencies">;

/**
 * @param counts by context and symbol
 * @param totals by context
 */
export function chooseTables(counts: Uint32Array, totals: Uint32Array, expected: Expectation): TableChoice {
  const lengths: (Uint8Array | undefined)[] = new Array<undefined>(contextCount).fill(undefined);
  let allOpenBits = 0;
  let packedBits = 0;
  let ransBits = 64;
  for (let context = 0; context < contextCount; context++) {
    const total = totals[context]!;
    if (total === 0) continue;
    const { used, largest, openBits } = summariseCounts(counts, context, expected);
    allOpenBits += openBits;
    const row = counts.subarray(context * symbolCount, (context + 1) * symbolCount);
    const packed = cheaper(
      rowBits + lengthBits * used,
      codeBits(row, expected.lengths[context]!),
      total >= minCount ? ownLengths(row) : undefined,
    );
    packedBits += packed.bits;
    lengths[context] = packed.row;
    ransBits +=
      largest < minPeakShare * total
        ? flatShare * packed.bits
        : ransRow(row, total, used, expected.frequencies[context]!).bits;
  }
  if (allOpenBits + ransBits >= maxRansShare * (allOpenBits + packedBits))
    return { usesRans: false, lengths, frequencies: [], bits: allOpenBits + packedBits };
  return chooseRans(counts, totals, expected, allOpenBits);
}

function chooseRans(
  counts: Uint32Array,
  totals: Uint32Array,
  expected: Expectation,
  allOpenBits: number,
): TableChoice {
  const frequencies: (Uint16Array | undefined)[] = [];
  let bits = allOpenBits + 64;
  for (let context = 0; context < contextCount; context++) {
    const total = totals[context]!;
    const chosen =
      total === 0
        ? { row: undefined, bits: 0 }
        : ransRow(
            counts.subarray(context * symbolCount, (context + 1) * symbolCount),
            total,
            summariseCounts(counts, context, expected).used,
            expected.frequencies[context]!,
          );
    bits += chosen.bits;
    frequencies.push(chosen.row);
  }
  return { usesRans: true, lengths: [], frequencies, bits };
}

function ransRow(
  row: Uint32Array,
  total: number,
  used: number,
  expected: Uint16Array,
): { row: Uint16Array | undefined; bits: number } {
  return cheaper(
    rowBits + frequencyBits * used,
    shareBits(row, expected),
    total >= minCount ? ownFrequencies(row) : undefined,
  );
}

/** Counts the symbols that occur in a context, with the largest of their counts, and the bits that they leave open. */
function summariseCounts(
  counts: Uint32Array,
  context: number,
  { symbols }: Expectation,
): { used: number; largest: number; openBits: number } {
  let used = 0;
  let largest = 0;
  let openBits = 0;
  for (let s = 0; s < symbolCount; s++) {
    const count = counts[context * symbolCount + s]!;
    if (count === 0) continue;
    used++;
    openBits += count * symbols[s]!.width;
    if (count > largest) largest = count;
  }
  return { used, largest, openBits };
}

/** The own row where it saves more than its table takes, else none (the expected row is used). */
function cheaper<Row>(
  tableBits: number,
  expectedBits: number,
  own: { row: Row; bits: number } | undefined,
): { row: Row | undefined; bits: number } {
  return own !== undefined && own.bits + tableBits + timeBits < expectedBits
    ? { row: own.row, bits: own.bits + tableBits }
    : { row: undefined, bits: expectedBits };
}

/** Bits of the symbols by Huffman codes of these lengths. */
function codeBits(row: Uint32Array, lengths: Uint8Array): number {
  let bits = 0;
  for (let s = 0; s < symbolCount; s++) if (lengths[s] !== soleSymbolLength) bits += row[s]! * lengths[s]!;
  return bits;
}

function ownLengths(row: Uint32Array): { row: Uint8Array; bits: number } {
  const lengths = new Uint8Array(symbolCount);
  huffmanLengths(row, lengths);
  return { row: lengths, bits: codeBits(row, lengths) };
}

/** Bits of the symbols by rANS with these frequencies. */
function shareBits(row: Uint32Array, frequencies: Uint16Array): number {
  let bits = 0;
  for (let s = 0; s < symbolCount; s++) if (row[s]! > 0) bits += row[s]! * (11 - roughLog2(frequencies[s]!));
  return bits;
}

function ownFrequencies(row: Uint32Array): { row: Uint16Array; bits: number } {
  const frequencies = new Uint16Array(symbolCount);
  normaliseFrequencies(row, frequencies);
  return { row: frequencies, bits: shareBits(row, frequencies) };
}
