/**
 * Frequencies of 11 bits for the rANS coder, by context, and the tables that the kernels read. Deterministic;
 * does not depend on tensors.
 */
export const frequencyTotal = 2048;

/**
 * Scales counts to frequencies that add up to 2048, at least 1 for every symbol that occurs; all 0 where none
 * occurs.
 */
export function normaliseFrequencies(counts: ArrayLike<number>, out: Uint16Array): void {
  let total = 0;
  let largest = 0;
  for (let s = 0; s < out.length; s++) {
    total += counts[s]!;
    if (counts[s]! > counts[largest]!) largest = s;
  }
  out.fill(0);
  if (total === 0) return;
  let sum = 0;
  for (let s = 0; s < out.length; s++) {
    if (counts[s]! === 0) continue;
    out[s] = Math.max(1, Math.floor((counts[s]! * frequencyTotal) / total + 0.5));
    sum += out[s]!;
  }
  // The rounding error is taken from or added to the most frequent symbol, as far as its frequency allows,
  // then the next.
  while (sum !== frequencyTotal) {
    const change = Math.max(frequencyTotal - sum, 1 - out[largest]!);
    out[largest] = out[largest]! + change;
    sum += change;
    if (sum === frequencyTotal) break;
    largest = 0;
    for (let s = 1; s < out.length; s++) if (out[s]! > out[largest]!) largest = s;
  }
}

/**
 * Writes one context's rows; `frequencies` add up to 2048. `coding` by symbol, `decoding` by slot (see
 * assembly/rans.ts).
 */
export function writeFrequencyTables(
  frequencies: Uint16Array,
  coding: Uint32Array | undefined,
  decoding: Uint32Array | undefined,
): void {
  let start = 0;
  for (let s = 0; s < frequencies.length; s++) {
    const frequency = frequencies[s]!;
    if (frequency === 0) continue;
    if (coding !== undefined) coding[s] = start | (frequency << 16);
    if (decoding !== undefined)
      for (let i = 0; i < frequency; i++) decoding[start + i] = i | (frequency << 11) | (s << 23);
    start += frequency;
  }
}

/**
 * One context's 2048 decoding entries of a byte plane (see assembly/rans-planes.ts): symbols with a bit of
 * `mask` affect the contexts of the planes below.
 */
export function writePlaneTable(frequencies: Uint16Array, mask: number, target: Uint32Array): void {
  let start = 0;
  for (let s = 0; s < frequencies.length; s++) {
    const frequency = frequencies[s]!;
    const entry = ((s << 11) | ((s & mask) !== 0 ? 1 << 19 : 0) | (frequency << 20)) >>> 0;
    for (let i = 0; i < frequency; i++) target[start + i] = entry | i;
    start += frequency;
  }
}
