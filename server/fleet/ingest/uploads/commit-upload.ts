/** Writes everything of an announced version into one pack: record, small objects, tensors, streams. */
import { availableParallelism } from "node:os";
import { Turns } from "../../../../shared/concurrency/turns.js";
import type { LeafTable } from "../../../../shared/model/model.js";
import type { ObjectWriter, PackWriter } from "../../../../shared/objects/object-store.js";
import type { Hash, TensorHeader } from "../../../../shared/tensor/tensor.js";
import { openTensorCoder } from "../../../../shared/wire/coding/tensor-coder.js";
import { objectsOfStream } from "../../../../shared/wire/transfer/stream.js";
import { tensorNotAnnounced } from "../ingest-errors.js";
import type { HeldObject } from "./announcement.js";
import { putReceivedTensors } from "./coded-tensors.js";
import type { UploadTransfer } from "./upload-transfer.js";

export interface UploadContent {
  readonly recordBytes: Uint8Array;
  /** Small objects that are not in the store. */
  readonly objects: Iterable<HeldObject>;
  /** Leaves of all trees. */
  readonly leaves: LeafTable;
  /** The transfer that brought tensors and streams; undefined where none was needed. */
  readonly transfer: UploadTransfer | undefined;
}

/**
 * Turns of uploads with much to hash or to decode: each takes some tens of MB, those of the thread that
 * decodes included, and a whole fleet may report at the same moment. More of them than cores are not done
 * earlier. One that takes long, as a device could make them all, gives up its turn.
 */
const largeUploads = new Turns({ count: Math.min(4, Math.max(2, availableParallelism())), turnMs: 10_000 });
const largeBytes = 2 * 1024 * 1024;

/**
 * Writes an upload's objects: when this resolves, everything is on disk; when it rejects, nothing is.
 * @returns bytes of the pack; undefined where all of it was in the store
 * @throws OBJECT_HASH_MISMATCH, TENSOR_SIZE_MISMATCH and the other errors of putReceivedTensors; STORE_FAILED
 */
export async function writeUpload(store: ObjectWriter, content: UploadContent): Promise<number | undefined> {
  const isLarge = (content.transfer?.rawBytes ?? 0) > largeBytes;
  return await (isLarge ? largeUploads.run(() => writePack(store, content)) : writePack(store, content));
}

async function writePack(store: ObjectWriter, content: UploadContent): Promise<number | undefined> {
  const pack = await store.begin();
  try {
    for (const { kind, bytes } of content.objects) await pack.put(kind, bytes);
    await pack.put("record", content.recordBytes);
    if (content.transfer !== undefined) await putTensors(store, pack, content.leaves, content.transfer);
    const { pack: name, bytes } = await pack.commit();
    return name === null ? undefined : bytes;
  } catch (error) {
    await pack.abort();
    throw error;
  }
}

async function putTensors(
  store: ObjectWriter,
  pack: PackWriter,
  leaves: LeafTable,
  transfer: UploadTransfer,
): Promise<void> {
  const headers = new Map(leaves.map((leaf) => [leaf.tensor, leaf]));
  const headerOf = (tensor: Hash): TensorHeader => {
    const leaf = headers.get(tensor);
    if (leaf === undefined) throw tensorNotAnnounced(tensor);
    return { dtype: leaf.dtype, shape: leaf.shape };
  };
  const coder = openTensorCoder(transfer.rawBytes);
  try {
    // The pack hashes what it writes, so the tensors are not hashed here too.
    const stream = objectsOfStream(transfer.request.objects, headerOf, transfer.readRange(), {
      verifyTensors: false,
      encodings: transfer.encodings,
    });
    await putReceivedTensors(pack, store, coder, stream);
  } finally {
    await coder.close();
  }
}
