/**
 * The two alphabets of 64 symbols, differences and exponents: what each symbol means, and how often it is
 * expected where no table was sent.
 */
import { symbolCount, type SymbolDefinition } from "./huffman.js";

export type Alphabet = "differences" | "exponents";

const rawBits: SymbolDefinition = { width: 32, kind: 2, high: 0 };
export const rawEscape = 62;

/** @param shift low bits of a lane that are always zero */
export function symbolDefinitions(alphabet: Alphabet, shift: number): readonly SymbolDefinition[] {
  const mantissa = (j: number): SymbolDefinition => ({ width: 24 - shift, kind: 1, high: j });
  return Array.from({ length: symbolCount }, (_, s): SymbolDefinition => {
    if (alphabet === "exponents")
      return s < 62 ? mantissa(s) : s === 62 ? { width: 0, kind: 3, high: 0 } : rawBits;
    if (s >= 50) return s < rawEscape ? mantissa(s - 50) : rawBits;
    const k = s >> 1;
    return { width: k < 2 ? k : k - 1, kind: 0, high: k < 2 ? k : 2 | (s & 1) };
  });
}

/** 2^(i/2), exactly rounded on every machine. */
function halfOctaves(i: number): number {
  const whole = 2 ** Math.floor(i / 2);
  return i % 2 === 0 ? whole : whole * Math.SQRT2;
}

/**
 * Expected share of every symbol in a context, of 2^16, at least 1: magnitudes with the survival function
 * (3m / (3m + x))^4, m the mean that the context stands for. Heavy-tailed, because the numbers of one context
 * differ in scale.
 */
export function expectedCounts(alphabet: Alphabet, context: number): Float64Array {
  const counts = new Float64Array(symbolCount).fill(1);
  const total = 65_536;
  const mean = alphabet === "differences" ? halfOctaves(context - 8) : halfOctaves(4 - context);
  const survival = (x: number): number => {
    const share = (3 * mean) / (3 * mean + Math.max(x, 0));
    return share * share * share * share;
  };
  const add = (s: number, from: number, to: number): void => {
    counts[s] = Math.max(1, Math.round(total * (survival(from) - survival(to))));
  };
  if (alphabet === "exponents") {
    for (let j = 0; j < 62; j++) add(j, 2 ** -j, 2 ** (1 - j));
    counts[62] = 64;
    return counts;
  }
  add(0, -1, 0.5);
  for (let k = 1; k < 25; k++) {
    const low = 2 ** (k - 1);
    const width = k === 1 ? 1 : low / 2;
    add(2 * k, low - 0.5, low + width - 0.5);
    if (k > 1) add(2 * k + 1, low + width - 0.5, 2 * low - 0.5);
  }
  // A number that changes its sign is small compared with its difference; the middle escapes cover these.
  for (let j = 0; j < 12; j++) counts[50 + j] = j < 8 ? total / 128 : total / 512;
  return counts;
}
