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
import { bundleInvalid } from "./hub-errors.js";
import { isStreamed } from "./stored-bytes.js";

/** Bytes and objects after which a pack is written, so that a cut costs no more. */
const packBytes = 32 * 1024 * 1024;
const packObjects = 4096;

interface OpenPack {
  readonly writer: PackWriter;
  readonly ids: Set<Hash>;
  bytes: number;
}

/**
 * An object that came whole before a cut stays in the store, invisible, and is not asked for again.
 * @returns the number of objects that were stored now
 * @throws BUNDLE_INVALID, OBJECT_HASH_MISMATCH, REFERENCE_MISSING, DISK_FULL, and the decoders' errors
 */
export async function receiveObjects(
  home: Pick<Home, "path" | "ports">,
  { objects }: Pick<FleetRepository, "objects">,
  deposit: Deposit,
  body: AsyncIterable<Uint8Array>,
): Promise<number> {
  const reader = new ByteReader(body);
  let taken = 0;
  let pack: OpenPack | undefined;
  const close = async (): Promise<void> => {
    if (pack === undefined) return;
    const { writer, ids } = pack;
    pack = undefined;
    // An object that another sender stored meanwhile is not this sender's: its bytes here may not have been checked.
    const own = [...ids].filter((id) => !objects.has(id));
    await writer.commit();
    for (const id of own) deposit.received.add(id);
    taken += own.length;
  };
  try {
    for (;;) {
      const header = await nextHeader(reader);
      if (header === undefined) break;
      requireNamed(deposit, header);
      if (objects.has(header.id) || pack?.ids.has(header.id) === true) {
        await passOver(reader, header.bytes);
        continue;
      }
      await requireRoom(home, header.bytes);
      pack ??= { writer: await objects.begin(), ids: new Set(), bytes: 0 };
      await put(pack.writer, header, reader);
      pack.ids.add(header.id);
      pack.bytes += header.bytes;
      if (pack.bytes >= packBytes || pack.ids.size >= packObjects) await close();
    }
    await close();
    return taken;
  } catch (error) {
    await keepWhole(pack, close);
    throw error;
  }
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

/** Another sender may store the same object meanwhile: then its bytes are passed over. */
async function put(writer: PackWriter, header: EntryHeader, reader: ByteReader): Promise<void> {
  const { id, kind, bytes, tensor, code } = header;
  let isRead = false;
  const pieces = {
    chunks: () => {
      isRead = true;
      return reader.pieces(bytes);
    },
  };
  if (isStreamed(kind)) await writer.putStream(kind, pieces, id);
  else if (kind === "tensor" && tensor !== undefined && code === undefined)
    await writer.putTensor({ ...tensor, byteLength: bytes, ...pieces }, id);
  else return await putWhole(writer, header, await reader.take(bytes));
  if (!isRead) await passOver(reader, bytes);
}

async function putWhole(writer: PackWriter, header: EntryHeader, bytes: Uint8Array): Promise<void> {
  const { id, kind, tensor, code } = header;
  if (kind === "tensor") {
    if (tensor === undefined || code === undefined)
      throw new TypeError("a coded tensor has a shape and a code");
    await writer.putCoded({ id, header: tensor, code, bytes, ...linksOf(header) });
    return;
  }
  const actual = objectId(kind, bytes);
  if (actual !== id) throw streamMismatch(kind, id, actual);
  await writer.put(kind, bytes);
}

async function passOver(reader: ByteReader, bytes: number): Promise<void> {
  const pieces = reader.pieces(bytes);
  while ((await pieces.next()).done !== true);
}
