/** The bytes of any stored object, in pieces. */
import { asyncIterableOf } from "../../../shared/tensor/async-iterable.js";
import { streamedKinds, type ObjectKind, type StreamedKind } from "../../../shared/model/model.js";
import { neverStoredHint, objectMissing } from "../../../shared/objects/object-errors.js";
import type { ObjectReader } from "../../../shared/objects/object-store.js";
import type { Hash } from "../../../shared/tensor/tensor.js";

export function isStreamed(kind: ObjectKind | "tensor"): kind is StreamedKind {
  return (streamedKinds as readonly string[]).includes(kind);
}

/** @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH, at the latest at the end of the pieces */
export async function bytesOf(
  objects: Pick<ObjectReader, "stat" | "read" | "openStream" | "openTensor">,
  id: Hash,
): Promise<{ readonly byteLength: number; readonly chunks: AsyncIterable<Uint8Array> }> {
  const stored = objects.stat(id);
  if (stored === undefined) throw objectMissing(id, neverStoredHint);
  const { kind, byteLength } = stored;
  if (kind === "tensor") return { byteLength, chunks: objects.openTensor(id).chunks() };
  if (isStreamed(kind)) return { byteLength, chunks: objects.openStream(kind, id).chunks() };
  return { byteLength, chunks: asyncIterableOf([await objects.read(kind, id)]) };
}
