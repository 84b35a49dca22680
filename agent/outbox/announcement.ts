/**
 * The announcement of a version: its record, the device's signature, and as many small objects as fit into
 * the message.
 */
import type { ObjectReader } from "../../shared/objects/object-store.js";
import type { DeviceKey } from "../../shared/trust/keys.js";
import { signAnnounce } from "../../shared/trust/signatures.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { decodeSaveRecord } from "../../shared/model/save-record.js";
import { maxMessageBytes } from "../../shared/wire/limits.js";
import type { Announce, SmallObject } from "../../shared/wire/messages.js";
import { smallObjectsOf } from "../../shared/model/record-objects.js";
import { sizesOf } from "./version-sizes.js";

/** Bytes of envelope, signature and field headers around record and objects. */
const overheadBytes = 1024;
const objectOverheadBytes = 64;

/** Bytes of one declared size in the message, at most. */
const sizeBytes = 10;

/** @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH, SIGNER_FAILED */
export async function announcementOf(
  objects: ObjectReader,
  versionId: Hash,
  device: DeviceKey,
  { isClaim = false }: { readonly isClaim?: boolean } = {},
): Promise<Announce> {
  const recordBytes = await objects.read("record", versionId);
  const record = decodeSaveRecord(recordBytes);
  const { tensorBytes, usesTensorBytes, streamedBytes } = await sizesOf(objects, record);
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
    signature: await signAnnounce(device, versionId),
    objects: inline,
    tensorBytes,
    ...(streamedBytes.length > 0 && { streamedBytes }),
    ...(usesTensorBytes > 0 && { usesTensorBytes }),
    ...(isClaim && { claim: true }),
  };
}
