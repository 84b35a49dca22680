/**
 * The announcement of a version: its record, the device's signature, and as many small objects as fit into
 * the message.
 */
import type { ObjectReader } from "../../shared/objects/object-store.js";
import type { Signer } from "../../shared/trust/keys.js";
import { signAnnounce } from "../../shared/trust/signatures.js";
import { tensorByteLength } from "../../shared/tensor/dtype.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { decodeSaveRecord } from "../../shared/model/save-record.js";
import { maxMessageBytes } from "../../shared/wire/limits.js";
import type { Announce, SmallObject } from "../../shared/wire/messages.js";
import type { LeafTable } from "../../shared/model/model.js";
import { sentStreamsOf, smallObjectsOf } from "../../shared/model/record-objects.js";
import { readTrees } from "../../shared/objects/version-trees.js";

/** Bytes of envelope, signature and field headers around record and objects. */
const overheadBytes = 1024;
const objectOverheadBytes = 64;

/** Bytes of one declared size in the message, at most. */
const sizeBytes = 10;

/** @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH */
export async function announcementOf(
  objects: ObjectReader,
  versionId: Hash,
  device: Signer,
): Promise<Announce> {
  const recordBytes = await objects.read("record", versionId);
  const record = decodeSaveRecord(recordBytes);
  const [model, ...others] = (await readTrees(objects, record)).map(({ leaves }) => bytesOf(leaves));
  const usesTensorBytes = others.reduce((sum, bytes) => sum + bytes, 0);
  const streamedBytes = sentStreamsOf(record).map(({ kind, id }) => objects.openStream(kind, id).byteLength);
  const inline: SmallObject[] = [];
  let left = maxMessageBytes - overheadBytes - recordBytes.length - sizeBytes * streamedBytes.length;
  for (const { kind, id } of smallObjectsOf(record)) {
    const size = (objects.stat(id)?.byteLength ?? Infinity) + objectOverheadBytes;
    if (size > left) continue;
    inline.push({ kind, data: await objects.read(kind, id) });
    left -= size;
  }
  return {
    type: "announce",
    record: recordBytes,
    signature: signAnnounce(device, versionId),
    objects: inline,
    tensorBytes: model ?? 0,
    ...(streamedBytes.length > 0 && { streamedBytes }),
    ...(usesTensorBytes > 0 && { usesTensorBytes }),
  };
}

function bytesOf(leaves: LeafTable): number {
  return leaves.reduce((sum, leaf) => sum + tensorByteLength(leaf.dtype, leaf.shape), 0);
}
