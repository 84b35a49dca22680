/**
 * Finds which runs of a file's bytes are those of another file, at other offsets: a header grew, names are longer,
 * parts changed places. Bytes are compared four apart, so that floats that were trained a little are found by their
 * highest bytes. Pure.
 */
import type { PositionRun } from "./positions.js";

/** Bytes of a window are so far apart, and so many: it spans 64 bytes. */
const stride = 4;
const windowBytes = 16;
const span = stride * windowBytes;
/** Windows of the base are looked up from so far apart; odd, so that each place in a number is seen. */
const step = 61;
/** A span follows the base where so many of its bytes, four apart, are the base's. */
const minAlike = 9;
/** The same of the spans after a window that was found. */
const confirmedSpans = 4;
/** Runs that are shorter are not worth their place. */
const minRun = 256;
const factor = 0x01000193;
/** The weight of the byte that leaves a window. */
const leaving = Array.from({ length: windowBytes }).reduce<number>((power) => Math.imul(power, factor), 1);

/** The runs of the child that follow the base's bytes, nearly or exactly, with new ones between; empty: none. */
export function findRuns(child: Uint8Array, base: Uint8Array): readonly PositionRun[] {
  const places = new WindowTable(base);
  const runs = new RunList(child.length);
  let shift = 0;
  for (let at = 0; at + span <= child.length;) {
    if (isAlike(child, base, at, at + shift)) {
      runs.add(at, at + shift, span);
      at += span;
      continue;
    }
    runs.extend(child, base);
    at = Math.max(at, runs.end);
    const found = nextLike(child, base, { places, at, shift });
    if (found === undefined) break;
    shift = found.from - found.at;
    const back = equalBefore(child, base, found, runs.end);
    runs.add(found.at - back, found.from - back, back);
    at = found.at;
  }
  runs.extend(child, base);
  return runs.all();
}

/** Collects runs in the order of the child's bytes; what is between them is new. */
class RunList {
  readonly #runs: { at: number; from: number; length: number }[] = [];
  constructor(private readonly childBytes: number) {}

  /** The end of the last run. */
  get end(): number {
    const last = this.#runs.at(-1);
    return last === undefined ? 0 : last.at + last.length;
  }

  add(at: number, from: number, length: number): void {
    const last = this.#runs.at(-1);
    const gap = last === undefined ? undefined : at - last.at - last.length;
    // A short unlike piece within a run costs less as a difference than another run.
    if (last !== undefined && gap! < minRun && from - at === last.from - last.at)
      last.length += gap! + length;
    else if (length > 0) this.#runs.push({ at, from, length });
  }

  /** Adds to the last run what follows it byte for byte. */
  extend(child: Uint8Array, base: Uint8Array): void {
    const last = this.#runs.at(-1);
    if (last === undefined) return;
    while (
      last.at + last.length < child.length &&
      child[last.at + last.length] === base[last.from + last.length]
    )
      last.length++;
  }

  all(): readonly PositionRun[] {
    const runs: PositionRun[] = [];
    let end = 0;
    for (const { at, from, length } of this.#runs.filter((run) => run.length >= minRun)) {
      if (at > end) runs.push({ from: -1, length: at - end });
      runs.push({ from, length });
      end = at + length;
    }
    if (runs.length > 0 && end < this.childBytes) runs.push({ from: -1, length: this.childBytes - end });
    return runs;
  }
}

/** True if a span of the child mostly has the bytes of the base there, at one of the places in a number. */
function isAlike(child: Uint8Array, base: Uint8Array, at: number, from: number): boolean {
  if (from < 0 || from + span > base.length) return false;
  for (let lane = stride - 1; lane >= 0; lane--) {
    let alike = 0;
    for (let offset = lane; offset < span; offset += stride)
      if (child[at + offset] === base[from + offset]) alike++;
    if (alike >= minAlike) return true;
  }
  return false;
}

interface Place {
  readonly at: number;
  readonly from: number;
}

/** Finds where the child follows the base again: with the shift that it had, or from a window of the base on. */
function nextLike(
  child: Uint8Array,
  base: Uint8Array,
  { places, at: begin, shift }: { readonly places: WindowTable; readonly at: number; readonly shift: number },
): Place | undefined {
  const hashes = [0, 0, 0, 0];
  for (let at = begin; at + span <= child.length; at++) {
    const lane = at % stride;
    const isFirst = at < begin + stride;
    const hash = isFirst ? hashOf(child, at) : rolled(hashes[lane]!, child, at);
    hashes[lane] = hash;
    const from = places.find(hash);
    if (from !== undefined && isConfirmed(child, base, at, from)) return { at, from };
    if ((at - begin) % span === 0 && isConfirmed(child, base, at, at + shift))
      return { at, from: at + shift };
  }
  return undefined;
}

/** True if several spans from here on follow the base, as far as both have them. */
function isConfirmed(child: Uint8Array, base: Uint8Array, at: number, from: number): boolean {
  for (let nth = 0; nth < confirmedSpans; nth++) {
    const offset = nth * span;
    const isEnd = at + offset + span > child.length || from + offset + span > base.length;
    if (isEnd) return nth > 0;
    if (!isAlike(child, base, at + offset, from + offset)) return false;
  }
  return true;
}

/** Counts the bytes before a place that are equal in both. */
function equalBefore(child: Uint8Array, base: Uint8Array, { at, from }: Place, end: number): number {
  let count = 0;
  while (at - count > end && from > count && child[at - count - 1] === base[from - count - 1]) count++;
  return count;
}

function hashOf(bytes: Uint8Array, at: number): number {
  let hash = 0;
  for (let offset = 0; offset < span; offset += stride)
    hash = Math.imul(hash, factor) + bytes[at + offset]! + 1;
  return hash | 0;
}

/** The hash of a window, from that of the window four bytes before. */
function rolled(before: number, bytes: Uint8Array, at: number): number {
  const left = Math.imul(leaving, bytes[at - stride]! + 1);
  return (Math.imul(before, factor) - left + bytes[at + span - stride]! + 1) | 0;
}

/** The number of slots that are tried for a hash, also where a file was made so that its hashes are near. */
const maxProbes = 16;

/** The places of a base's windows by their hashes; of equal windows the first, and none of equal bytes. */
class WindowTable {
  readonly #mask: number;
  readonly #hashes: Int32Array;
  /** Place + 1; 0 is free. */
  readonly #places: Int32Array;

  constructor(base: Uint8Array) {
    const size = 2 ** Math.max(4, Math.ceil(Math.log2((2 * base.length) / step + 1)));
    this.#mask = size - 1;
    this.#hashes = new Int32Array(size);
    this.#places = new Int32Array(size);
    for (let from = 0; from + span <= base.length; from += step)
      if (!isUniform(base, from)) this.#add(hashOf(base, from), from);
  }

  find(hash: number): number | undefined {
    const slot = this.#slotOf(hash);
    return slot === undefined || this.#places[slot] === 0 ? undefined : this.#places[slot]! - 1;
  }

  #add(hash: number, from: number): void {
    const slot = this.#slotOf(hash);
    if (slot === undefined || this.#places[slot] !== 0) return;
    this.#hashes[slot] = hash;
    this.#places[slot] = from + 1;
  }

  /** The slot that has this hash, else the one that is free for it; undefined: its slots are taken. */
  #slotOf(hash: number): number | undefined {
    const first = hash ^ (hash >>> 15);
    for (let probe = 0; probe < maxProbes; probe++) {
      const slot = (first + probe) & this.#mask;
      if (this.#places[slot] === 0 || this.#hashes[slot] === hash) return slot;
    }
    return undefined;
  }
}

function isUniform(bytes: Uint8Array, at: number): boolean {
  for (let offset = stride; offset < span; offset += stride)
    if (bytes[at + offset] !== bytes[at]) return false;
  return true;
}
