/** Which contexts get tables of their own, and which of the two coders is the smaller, from how often each symbol occurred. Pure. */
import { frequenciesOf } from "./frequencies.js";
import { huffmanLengths, soleLength, symbols } from "./huffman.js";
import { roughLog2 } from "./numbers.js";
import { contextCount, type OwnTables } from "./side-information.js";
import type { Expected } from "./workspace.js";

export interface TableChoice {
  /** Whether the asymmetric coder is to be used; then `frequencies` has rows, else `lengths`. */
  readonly close: boolean;
  readonly lengths: OwnTables<Uint8Array>;
  readonly frequencies: OwnTables<Uint16Array>;
  /** Bits of all streams and, roughly, of the tables. */
  readonly bits: number;
}

/** What a row of a table costs: roughly so much a context and so much a symbol. */
const rowBits = 6, lengthBits = 2.5, frequencyBits = 6;
/** Below so many numbers a context's own table is not tried. */
const leastCount = 24;
/** The asymmetric coder is slower: taken for at least so much. */
const closeGain = 0.985;

export function chooseTables(counts: Uint32Array, { meanings, lengths: expectedLengths, frequencies: expectedFrequencies }: Pick<Expected, "meanings" | "lengths" | "frequencies">): TableChoice {
  const lengths: (Uint8Array | undefined)[] = [], frequencies: (Uint16Array | undefined)[] = [];
  let open = 0, packedBits = 0, closeBits = 64;
  for (let context = 0; context < contextCount; context++) {
    const row = counts.subarray(context * symbols, (context + 1) * symbols);
    let total = 0, used = 0;
    for (let s = 0; s < symbols; s++) if (row[s]! > 0) { total += row[s]!; used++; open += row[s]! * meanings[s]!.width; }
    if (total === 0) { lengths.push(undefined); frequencies.push(undefined); continue; }
    const own = total >= leastCount;
    const packed = cheaper(rowBits + lengthBits * used, codeBits(row, expectedLengths[context]!), own ? ownLengths(row) : undefined);
    const close = cheaper(rowBits + frequencyBits * used, shareBits(row, expectedFrequencies[context]!), own ? ownFrequencies(row) : undefined);
    packedBits += packed.bits; closeBits += close.bits;
    lengths.push(packed.row); frequencies.push(close.row);
  }
  const close = open + closeBits < closeGain * (open + packedBits);
  return { close, lengths: close ? [] : lengths, frequencies: close ? frequencies : [], bits: open + (close ? closeBits : packedBits) };
}

function cheaper<Row>(tableBits: number, expectedBits: number, own: { row: Row; bits: number } | undefined): { row: Row | undefined; bits: number } {
  return own !== undefined && own.bits + tableBits < expectedBits ? { row: own.row, bits: own.bits + tableBits } : { row: undefined, bits: expectedBits };
}

function codeBits(row: Uint32Array, lengths: Uint8Array): number {
  let bits = 0;
  for (let s = 0; s < symbols; s++) if (lengths[s] !== soleLength) bits += row[s]! * lengths[s]!;
  return bits;
}

function ownLengths(row: Uint32Array): { row: Uint8Array; bits: number } {
  const lengths = new Uint8Array(symbols);
  huffmanLengths(row, lengths);
  return { row: lengths, bits: codeBits(row, lengths) };
}

function shareBits(row: Uint32Array, frequencies: Uint16Array): number {
  let bits = 0;
  for (let s = 0; s < symbols; s++) if (row[s]! > 0) bits += row[s]! * (11 - roughLog2(frequencies[s]!));
  return bits;
}

function ownFrequencies(row: Uint32Array): { row: Uint16Array; bits: number } {
  const frequencies = new Uint16Array(symbols);
  frequenciesOf(row, frequencies);
  return { row: frequencies, bits: shareBits(row, frequencies) };
}
