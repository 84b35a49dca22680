/**
 * Tensors that no kept version has, and that stay in the store because tensors of kept versions are encoded
 * against them. Their bytes are part of what a fleet takes; a plan that re-encodes the others frees them.
 */
import { listReferences } from "../../../shared/delta/links.js";
import type { ObjectReader } from "../../../shared/objects/object-store.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { entryBytes } from "./edge-costs.js";

type EncodingReader = Pick<ObjectReader, "stat" | "encodingOf">;

/** Stored bytes of the copy of a tensor that reads use, with its index entry; 0 where it cannot be decoded. */
export function storedBytesOf(objects: EncodingReader, id: Hash): number {
  const encoding = objects.encodingOf(id);
  const header = objects.stat(id)?.header;
  return encoding === undefined || header === undefined
    ? 0
    : encoding.storedBytes + entryBytes(header, encoding);
}

/** The tensors that are needed to decode the kept ones and are not among them. Each tensor is visited once. */
export function findHeldTensors(
  objects: Pick<ObjectReader, "encodingOf">,
  kept: Iterable<Hash>,
): ReadonlySet<Hash> {
  const seen = new Set(kept);
  const held = new Set<Hash>();
  const waiting = [...seen];
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    for (const source of listReferences(objects.encodingOf(id) ?? {})) {
      if (seen.has(source)) continue;
      seen.add(source);
      held.add(source);
      waiting.push(source);
    }
  }
  return held;
}

/**
 * Stored bytes of tensors, and of the others that they cannot be decoded without, with their index entries.
 * @param outside tensors that are kept for other versions, and count there
 */
export function storedBytesWithHeld(
  objects: EncodingReader,
  kept: Iterable<Hash>,
  outside: { keys(): Iterable<Hash> } = new Set(),
): number {
  const ids = new Set(kept);
  let bytes = 0;
  for (const id of ids) bytes += storedBytesOf(objects, id);
  for (const id of findHeldTensors(objects, [...ids, ...outside.keys()])) bytes += storedBytesOf(objects, id);
  return bytes;
}
