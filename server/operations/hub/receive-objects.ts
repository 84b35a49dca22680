/** Stores the objects of a deposit as they come, each once its bytes were compared with its id. */
import { isStemmaError } from "../../../shared/errors.js";
import { linksOf } from "../../../shared/delta/links.js";
import type { PackWriter } from "../../../shared/objects/object-store.js";
import { streamMismatch } from "../../../shared/objects/object-errors.js";
import { objectId } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { requireRoom } from "../../services/context/room-for-models.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { Home } from "../../storage/repository/home.js";
import { ByteReader, nextHeader, type EntryHeader } from "./bundle-entry.js";
import type { Deposit } from "./deposits.js";
import { EntryPart, minPartBytes } from "./entry-part.js";
import { bundleInvalid } from "./hub-errors.js";
import { isStreamed } from "./stored-bytes.js";
import type { UnfinishedBytes } from "./unfinished-bytes.js";

/** Bytes and objects after which a pack is written, so that a cut costs no more. */
const packBytes = 32 * 1024 * 1024;
const packObjects = 4096;

interface OpenPack {
  readonly writer: PackWriter;
  /** The objects in it, with the bytes that came for each. */
  readonly ids: Map<Hash, number>;
  bytes: number;
}

export interface Receiver {
  readonly home: Pick<Home, "path" | "ports">;
  readonly objects: FleetRepository["objects"];
  readonly deposit: Deposit;
  readonly unfinished: UnfinishedBytes;
  /** Bytes that unfinished uploads of the fleet may have; absent: no bound. */
  readonly maxUnfinishedBytes?: number | undefined;
}

/**
 * An object that came whole before a cut stays in the store, invisible, and is not asked for again; of a large one that
 * came in part, the part stays.
 * @returns the number of objects that were stored now
 * @throws BUNDLE_INVALID, OBJECT_HASH_MISMATCH, REFERENCE_MISSING, DISK_FULL, QUOTA_EXCEEDED, and the decoders' errors
 */
export async function receiveObjects(receiver: Receiver, body: AsyncIterable<Uint8Array>): Promise<number> {
  const { objects, deposit, unfinished } = receiver;
  const reader = new ByteReader(body);
  let taken = 0;
  let pack: OpenPack | undefined;
  const close = async (): Promise<void> => {
    if (pack === undefined) return;
    const { writer, ids } = pack;
    pack = undefined;
    // An object that another sender stored meanwhile is not this sender's: its bytes here may not have been checked.
    const own = [...ids].filter(([id]) => !objects.has(id));
    await writer.commit();
    for (const [id, bytes] of own) {
      deposit.received.add(id);
      unfinished.add(id, bytes);
    }
    taken += own.length;
  };
  try {
    for (;;) {
      const header = await nextHeader(reader);
      if (header === undefined) break;
      const { id, bytes, offset = 0 } = header;
      requireNamed(deposit, header);
      if (objects.has(id) || pack?.ids.has(id) === true) {
        await passOver(reader, bytes - offset);
        continue;
      }
      pack ??= { writer: await objects.begin(), ids: new Map(), bytes: 0 };
      await requireSpace(receiver, header, pack.bytes);
      if (bytes >= minPartBytes) await putInParts(receiver, pack.writer, header, reader);
      else await putWhole(pack.writer, header, reader);
      pack.ids.set(id, bytes);
      pack.bytes += bytes;
      if (pack.bytes >= packBytes || pack.ids.size >= packObjects) await close();
    }
    await close();
    return taken;
  } catch (error) {
    await keepWhole(pack, close);
    throw error;
  }
}

/** A large object is in its own file first, then also in a pack. */
async function requireSpace(
  { home, deposit: { partPath }, unfinished, maxUnfinishedBytes }: Receiver,
  { bytes, offset = 0 }: EntryHeader,
  packedBytes: number,
): Promise<void> {
  await requireRoom(home, bytes < minPartBytes ? bytes : 2 * bytes - offset);
  const there = bytes < minPartBytes ? 0 : Math.min(bytes, unfinished.partAt(partPath));
  unfinished.require(packedBytes + bytes - there, maxUnfinishedBytes);
}

/** Keeps what came before an error, where its pack can still be written. */
async function keepWhole(pack: OpenPack | undefined, close: () => Promise<void>): Promise<void> {
  try {
    await close();
  } catch (error) {
    await pack?.writer.abort();
    if (!isStemmaError(error)) throw error;
  }
}

function requireNamed({ kinds }: Deposit, { id, kind }: EntryHeader): void {
  if (kinds.get(id) !== kind) throw bundleInvalid(`its manifest does not name ${id.slice(0, 12)} as ${kind}`);
}

/** Stores a large object: its bytes go to a file first, from which the next try goes on, and then into the pack. */
async function putInParts(
  { home, deposit: { partPath }, unfinished }: Receiver,
  writer: PackWriter,
  header: EntryHeader,
  reader: ByteReader,
): Promise<void> {
  const { files } = home.ports;
  const { offset = 0 } = header;
  const ended = unfinished.coming(partPath, header.bytes);
  let part: EntryPart | undefined;
  try {
    const opened = (part = await EntryPart.open(files, partPath, header));
    for await (const piece of reader.pieces(header.bytes - offset)) await opened.write(piece);
    await put(writer, header, () => opened.chunks()).catch(async (error: unknown) => {
      // These bytes are not the object's, so that nothing goes on with them.
      if (!isStemmaError(error, "DISK_FULL")) await files.remove(partPath);
      throw error;
    });
    await files.remove(partPath);
  } finally {
    await part?.close();
    const kept = await files.stat(partPath).catch(() => undefined);
    ended(kept?.size ?? 0);
  }
}

/** Another sender may store the same object meanwhile: then its bytes are passed over. */
async function putWhole(writer: PackWriter, header: EntryHeader, reader: ByteReader): Promise<void> {
  if (header.offset !== undefined)
    throw bundleInvalid(`the entry ${header.id.slice(0, 12)} goes on after bytes that are not here`);
  let isRead = false;
  await put(writer, header, () => {
    isRead = true;
    return reader.pieces(header.bytes);
  });
  if (!isRead) await passOver(reader, header.bytes);
}

async function put(
  writer: PackWriter,
  header: EntryHeader,
  chunks: () => AsyncIterable<Uint8Array>,
): Promise<void> {
  const { id, kind, bytes, tensor, code } = header;
  if (isStreamed(kind)) await writer.putStream(kind, { chunks }, id);
  else if (kind !== "tensor") {
    const whole = await wholeOf(chunks(), bytes);
    const actual = objectId(kind, whole);
    if (actual !== id) throw streamMismatch(kind, id, actual);
    await writer.put(kind, whole);
  } else if (tensor === undefined) throw new TypeError("a tensor has a shape");
  else if (code === undefined) await writer.putTensor({ ...tensor, byteLength: bytes, chunks }, id);
  else {
    const coded = await wholeOf(chunks(), bytes);
    await writer.putCoded({ id, header: tensor, code, bytes: coded, ...linksOf(header) });
  }
}

async function wholeOf(chunks: AsyncIterable<Uint8Array>, byteLength: number): Promise<Uint8Array> {
  const whole = new Uint8Array(byteLength);
  let filled = 0;
  for await (const chunk of chunks) {
    whole.set(chunk, filled);
    filled += chunk.length;
  }
  return whole;
}

async function passOver(reader: ByteReader, bytes: number): Promise<void> {
  const pieces = reader.pieces(bytes);
  while ((await pieces.next()).done !== true);
}
