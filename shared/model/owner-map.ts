/**
 * Maps each leaf to the newest version that changed it. So one lookup finds every tensor and the version it
 * comes from, however long the chain (EV8, EV10). Stored as format u8 = 1 ‖ owner count varint ‖ owners, 32
 * bytes each ‖ run count varint ‖ runs of (length varint ‖ owner index varint). Index 0 is "this version",
 * which is never written as a hash: it is not known yet when the map is hashed.
 */
import { StemmaError } from "../errors.js";
import { hashBytes, hexOf } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { maxLeaves } from "./tree.js";

export interface OwnerMap {
  /**
   * Ancestors that own a leaf, in the order of their first leaf. Entry i has the index i + 1; index 0 is this
   * version.
   */
  readonly owners: readonly Hash[];
  /** The owner of each leaf in canonical order: 0, or 1 + index in `owners`. */
  readonly indices: readonly number[];
}

function invalid(reason: string): StemmaError {
  return new StemmaError(
    "OWNER_MAP_INVALID",
    `This is not an owner map: ${reason}. Fetch it again from where it was saved.`,
  );
}

/** The map in which every leaf belongs to this version. */
export function ownedByThis(leaves: number): OwnerMap {
  return { owners: [], indices: new Array<number>(leaves).fill(0) };
}

/** Makes a map from the owner of each leaf; `undefined` is this version. */
export function ownerMapOf(ownerOfLeaf: readonly (Hash | undefined)[]): OwnerMap {
  const known = new Map<Hash, number>();
  const indices = ownerOfLeaf.map((owner) => {
    if (owner === undefined) return 0;
    const index = known.get(owner) ?? known.size + 1;
    known.set(owner, index);
    return index;
  });
  return { owners: [...known.keys()], indices };
}

/** Owner of a leaf; `thisVersion` where it is this version's own. */
export function ownerOf(map: OwnerMap, leaf: number, thisVersion: Hash): Hash {
  const index = map.indices[leaf];
  if (index === undefined) throw invalid(`it has no leaf ${leaf}`);
  return index === 0 ? thisVersion : (map.owners[index - 1] as Hash);
}

function pushVarint(into: number[], value: number): void {
  let rest = value;
  while (rest >= 0x80) {
    into.push((rest & 0x7f) | 0x80);
    rest = Math.floor(rest / 0x80);
  }
  into.push(rest);
}

/** @throws OWNER_MAP_INVALID for a map that is not in canonical form */
export function encodeOwnerMap(map: OwnerMap): Uint8Array {
  checkCanonical(map);
  const runs: number[] = [];
  let runCount = 0;
  for (let i = 0; i < map.indices.length;) {
    let end = i;
    while (end < map.indices.length && map.indices[end] === map.indices[i]) end++;
    pushVarint(runs, end - i);
    pushVarint(runs, map.indices[i] as number);
    runCount++;
    i = end;
  }
  const head: number[] = [1];
  pushVarint(head, map.owners.length);
  const middle: number[] = [];
  pushVarint(middle, runCount);
  return new Uint8Array(
    Buffer.concat([Buffer.from(head), ...map.owners.map(hashBytes), Buffer.from(middle), Buffer.from(runs)]),
  );
}

/** Checks that owners are in the order of their first leaf, each listed once and used. */
function checkCanonical(map: OwnerMap): void {
  if (map.indices.length > maxLeaves) throw invalid(`it has ${map.indices.length} leaves`);
  if (new Set(map.owners).size !== map.owners.length) throw invalid("an owner is listed twice");
  let seen = 0;
  for (const index of map.indices) {
    if (!Number.isInteger(index) || index < 0 || index > seen + 1)
      throw invalid(`the owner index ${index} comes out of order`);
    seen = Math.max(seen, index);
  }
  if (seen !== map.owners.length)
    throw invalid(`${map.owners.length - seen} owners own nothing, or are missing`);
}

/**
 * @param leafCount leaves of the tree it belongs to; another number is refused, so that nothing larger is
 * allocated
 * @throws OWNER_MAP_INVALID
 */
export function decodeOwnerMap(bytes: Uint8Array, leafCount: number): OwnerMap {
  let at = 0;
  const byte = (): number => {
    const value = bytes[at++];
    if (value === undefined) throw invalid("it ends too early");
    return value;
  };
  const varint = (): number => {
    let value = 0;
    for (let shift = 0; shift < 28; shift += 7) {
      const next = byte();
      value += (next & 0x7f) * 2 ** shift;
      if (next < 0x80) {
        if (next === 0 && shift > 0) throw invalid("a number is not in its shortest form");
        return value;
      }
    }
    throw invalid("a number is too large");
  };
  if (byte() !== 1) throw invalid(`its format is ${bytes[0]}, this Stemma knows 1`);
  const ownerCount = varint();
  if (ownerCount > leafCount || ownerCount * 32 > bytes.length - at)
    throw invalid(`it claims ${ownerCount} owners`);
  const owners: Hash[] = [];
  for (let i = 0; i < ownerCount; i++, at += 32) owners.push(hexOf(bytes.subarray(at, at + 32)));
  const runCount = varint();
  if (runCount > leafCount || runCount * 2 > bytes.length - at) throw invalid(`it claims ${runCount} runs`);
  const indices: number[] = [];
  for (let run = 0; run < runCount; run++) {
    const length = varint();
    const index = varint();
    if (length === 0 || indices.length + length > leafCount)
      throw invalid(`it does not have ${leafCount} leaves`);
    if (run > 0 && indices[indices.length - 1] === index)
      throw invalid("two runs of one owner follow each other");
    for (let i = 0; i < length; i++) indices.push(index);
  }
  if (indices.length !== leafCount)
    throw invalid(`it has ${indices.length} leaves where the model has ${leafCount}`);
  if (at !== bytes.length) throw invalid(`${bytes.length - at} bytes follow its end`);
  const map = { owners, indices };
  checkCanonical(map);
  return map;
}
