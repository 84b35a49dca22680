/** The tables of a fleet's state in its index, and how their values are written. */
import { deserialize, serialize } from "node:v8";
import { hashBytes, hexOf } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { LayeredLists, type ListCodec } from "../../index/layered-lists.js";
import type { SavedRows } from "../../index/layers.js";

/** The first byte of the keys of each table. A number is never given to another table. */
export const stateTables = {
  versions: 1,
  versionIds: 2,
  names: 3,
  records: 4,
  byDevice: 5,
  byBase: 6,
  bySuccessorOf: 7,
  activations: 8,
  devices: 9,
  rollouts: 10,
  rest: 11,
  unsettled: 12,
  evaluated: 13,
  replayed: 14,
  bySequence: 15,
  lineHeads: 16,
  candidates: 17,
  candidateRanks: 18,
} as const;

/** Values as V8 writes them for structured clones: plain data, sets and maps. */
export function serialized<Value>(): ListCodec<Value> {
  return { encode: (value) => serialize(value), decode: (bytes) => deserialize(bytes) as Value };
}

const ids: ListCodec<Hash> = {
  encode: (id) => Buffer.from(hashBytes(id)),
  decode: (bytes) => hexOf(bytes),
};

/** Lists of versions, each under a key. */
export type VersionLists = LayeredLists<Hash>;

export function versionLists(table: number, saved: SavedRows): VersionLists {
  return new LayeredLists<Hash>(table, ids, saved);
}
