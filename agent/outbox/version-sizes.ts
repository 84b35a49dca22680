/** Counts the bytes of a version of this device, as it declares them to the server. */
import type { LeafTable, SaveRecord } from "../../shared/model/model.js";
import { sentStreamsOf } from "../../shared/model/record-objects.js";
import type { ObjectReader } from "../../shared/objects/object-store.js";
import { distinctTrees } from "../../shared/objects/version-trees.js";
import { tensorByteLength } from "../../shared/tensor/dtype.js";

export interface VersionSizes {
  /** The size of the model's tensors. */
  readonly tensorBytes: number;
  /** The size of the tensors of checkpoints and optimizer state. */
  readonly usesTensorBytes: number;
  /** The size of each object that streams and that the device sends, in the record's order. */
  readonly streamedBytes: readonly number[];
}

/** The sizes that a device declares of a version. @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH */
export async function sizesOf(
  objects: Pick<ObjectReader, "read" | "openStream">,
  record: SaveRecord,
): Promise<VersionSizes> {
  let tensorBytes = 0;
  let usesTensorBytes = 0;
  for await (const { references, leaves } of distinctTrees(objects, record)) {
    const bytes = bytesOf(leaves);
    const isModel = references[0].part === "model";
    if (isModel) tensorBytes = bytes;
    usesTensorBytes += (references.length - (isModel ? 1 : 0)) * bytes;
  }
  return {
    tensorBytes,
    usesTensorBytes,
    streamedBytes: sentStreamsOf(record).map(({ kind, id }) => objects.openStream(kind, id).byteLength),
  };
}

function bytesOf(leaves: LeafTable): number {
  return leaves.reduce((sum, leaf) => sum + tensorByteLength(leaf.dtype, leaf.shape), 0);
}

/** Bytes of everything that a record uses and a device sends. @throws as sizesOf */
export async function usesBytesOf(
  objects: Pick<ObjectReader, "read" | "openStream">,
  record: SaveRecord,
): Promise<number> {
  if (record.uses === undefined) return 0;
  const { usesTensorBytes, streamedBytes } = await sizesOf(objects, record);
  return streamedBytes.reduce((sum, bytes) => sum + bytes, usesTensorBytes);
}
