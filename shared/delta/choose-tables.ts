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
  /** Whether rANS is to be used; then `frequencies` has rows, else `lengths`. */
  readonly isClose: boolean;
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
const maxCloseShare = 0.985;

/**
 * Where the most frequent symbol has a smaller share than this, rANS is assumed to save 1 %, without
 * computing it.
 */
const peak = 0.35;
const flatGain = 0.99;

type Expectation = Pick<ExpectedTables, "symbols" | "lengths" | "frequencies">;

/** @param counts by context and symbol; @param totals by context */
export function chooseTables(counts: Uint32Array, totals: Uint32Array, expected: Expectation): TableChoice {
  const lengths: (Uint8Array | undefined)[] = new Array<undefined>(contextCount).fill(undefined);
  let open = 0;
  let packedBits = 0;
  let closeBits = 64;
  for (let context = 0; context < contextCount; context++) {
    const total = totals[context]!;
    if (total === 0) continue;
    const { used, largest, openBits } = sumUp(counts, context, expected);
    open += openBits;
    const row = counts.subarray(context * symbolCount, (context + 1) * symbolCount);
    const packed = cheaper(
      rowBits + lengthBits * used,
      codeBits(row, expected.lengths[context]!),
      total >= minCount ? ownLengths(row) : undefined,
    );
    packedBits += packed.bits;
    lengths[context] = packed.row;
    closeBits +=
      largest < peak * total
        ? flatGain * packed.bits
        : closeRow(row, total, used, expected.frequencies[context]!).bits;
  }
  if (open + closeBits >= maxCloseShare * (open + packedBits))
    return { isClose: false, lengths, frequencies: [], bits: open + packedBits };
  return chooseClose(counts, totals, expected, open);
}

function chooseClose(
  counts: Uint32Array,
  totals: Uint32Array,
  expected: Expectation,
  open: number,
): TableChoice {
  const frequencies: (Uint16Array | undefined)[] = [];
  let bits = open + 64;
  for (let context = 0; context < contextCount; context++) {
    const total = totals[context]!;
    const close =
      total === 0
        ? { row: undefined, bits: 0 }
        : closeRow(
            counts.subarray(context * symbolCount, (context + 1) * symbolCount),
            total,
            sumUp(counts, context, expected).used,
            expected.frequencies[context]!,
          );
    bits += close.bits;
    frequencies.push(close.row);
  }
  return { isClose: true, lengths: [], frequencies, bits };
}

function closeRow(
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

function sumUp(
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

function cheaper<Row>(
  tableBits: number,
  expectedBits: number,
  own: { row: Row; bits: number } | undefined,
): { row: Row | undefined; bits: number } {
  return own !== undefined && own.bits + tableBits + timeBits < expectedBits
    ? { row: own.row, bits: own.bits + tableBits }
    : { row: undefined, bits: expectedBits };
}

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
