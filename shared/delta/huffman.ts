/**
 * Length-limited Huffman codes over 64 symbols, and the tables that the kernels read. Deterministic; does not
 * depend on tensors.
 */
export const symbolCount = 64;
/** Bits of the longest code. */
export const maxCodeLength = 10;
/** The length in a row that marks the only symbol of its context, which takes no bits. */
export const soleSymbolLength = 11;

const parents = new Int32Array(2 * symbolCount);
const weights = new Float64Array(2 * symbolCount);
const depths = new Uint8Array(2 * symbolCount);

/**
 * Writes the lengths of a complete code for `counts`: at most `maxCodeLength`, and 0 for symbols that do not
 * occur.
 */
export function huffmanLengths(counts: ArrayLike<number>, lengths: Uint8Array): void {
  lengths.fill(0);
  const active: number[] = [];
  for (let s = 0; s < symbolCount; s++) if (counts[s]! > 0) active.push(s);
  if (active.length === 1) {
    lengths[active[0]!] = soleSymbolLength;
    return;
  }
  if (active.length === 0) return;
  sortByCount(active, counts);
  const n = active.length;
  for (let i = 0; i < n; i++) weights[i] = counts[active[i]!]!;
  // Leaves and inner nodes are both in order of weight: two queues (van Leeuwen).
  for (let leaf = 0, inner = n, made = n; made < 2 * n - 1; made++) {
    let weight = 0;
    for (let child = 0; child < 2; child++) {
      const node = leaf < n && (inner >= made || weights[leaf]! <= weights[inner]!) ? leaf++ : inner++;
      parents[node] = made;
      weight += weights[node]!;
    }
    weights[made] = weight;
  }
  depths[2 * n - 2] = 0;
  for (let node = 2 * n - 3; node >= 0; node--) depths[node] = depths[parents[node]!]! + 1;
  for (let i = 0; i < n; i++) lengths[active[i]!] = Math.min(depths[i]!, maxCodeLength);
  fitLengths(active, lengths);
}

/** Sorts rarest first, ties by symbol. By insertion, because rows are short and nearly sorted. */
function sortByCount(active: number[], counts: ArrayLike<number>): void {
  for (let i = 1; i < active.length; i++) {
    const s = active[i]!;
    const count = counts[s]!;
    let j = i - 1;
    for (; j >= 0 && counts[active[j]!]! > count; j--) active[j + 1] = active[j]!;
    active[j + 1] = s;
  }
}

/** Makes the code complete again after lengths were cut. `ordered`: rarest first. */
function fitLengths(ordered: readonly number[], lengths: Uint8Array): void {
  const full = 1 << maxCodeLength;
  let used = 0;
  for (const s of ordered) used += full >> lengths[s]!;
  while (used > full)
    for (const s of ordered)
      if (lengths[s]! < maxCodeLength) {
        lengths[s] = lengths[s]! + 1;
        used -= full >> lengths[s];
        break;
      }
  // The remainder is a multiple of the longest code's share, so a longest code can always be shortened and
  // the loop ends.
  while (used < full) {
    for (let i = ordered.length - 1; i >= 0; i--) {
      const s = ordered[i]!;
      const gain = full >> lengths[s]!;
      if (lengths[s]! > 1 && used + gain <= full) {
        lengths[s] = lengths[s]! - 1;
        used += gain;
      }
    }
  }
}

/** True if received lengths form exactly a complete code, or exactly one sole symbol. */
export function isCompleteCode(lengths: Uint8Array): boolean {
  let used = 0;
  let sole = 0;
  for (const length of lengths) {
    if (length === soleSymbolLength) sole++;
    else if (length > 0) used += (1 << maxCodeLength) >> length;
  }
  return sole === 0 ? used === 1 << maxCodeLength : sole === 1 && used === 0;
}

/**
 * The bits that follow a symbol's code: how many, of which kind, and what is already known about the number
 * (see assembly/unpack.ts).
 */
export interface SymbolDefinition {
  readonly width: number;
  readonly kind: number;
  readonly high: number;
}

/**
 * Writes one context's coding row from complete lengths; the kernels' `decodingRow` is its counterpart. Codes
 * are stored with their first bit lowest, as they are read.
 */
export function writeCodingRow(
  lengths: Uint8Array,
  definitions: readonly SymbolDefinition[],
  row: Uint32Array,
): void {
  for (let length = 1, code = 0; length <= maxCodeLength; length++, code <<= 1) {
    for (let s = lengths.indexOf(length); s >= 0; s = lengths.indexOf(length, s + 1)) {
      let reversed = 0;
      for (let bit = 0; bit < length; bit++) reversed |= ((code >> bit) & 1) << (length - 1 - bit);
      row[s] = reversed | (length << 16) | codingExtras(definitions[s]!);
      code++;
    }
  }
  const sole = lengths.indexOf(soleSymbolLength);
  if (sole >= 0) row[sole] = codingExtras(definitions[sole]!);
}

/** The part of a coding entry that defines what follows the code. */
export function codingExtras({ width, kind }: SymbolDefinition): number {
  return (width << 20) | (kind << 28);
}
/** The same for a decoding entry, to which the kernels add the code's length. */
export function decodingExtras({ width, kind, high }: SymbolDefinition): number {
  return (width << 4) | (width << 10) | (high << 16) | (kind << 24);
}
