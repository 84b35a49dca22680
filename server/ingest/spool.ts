/**
 * Where the blocks of unfinished transfers lie until the whole stream is here: a data file and a
 * small state file per version, in one folder, bounded and expiring. Nothing in it is trusted after
 * a restart: whoever goes on with a transfer checks each block against its hash again, so no fsync
 * is needed here. Knows no protocol.
 */
import { join } from "node:path";
import { isStemmaError } from "../../shared/errors.js";
import type { Clock, Files, Log, OpenFile } from "../../shared/ports.js";
import { isHash } from "../../shared/tensor/hash.js";
import { maxChunkBytes, type Hash } from "../../shared/tensor/tensor.js";
import type { IngestLimits } from "./limits.js";

/** Bytes of one stream, written in any order and read back in pieces. */
export interface Spool {
  readonly byteLength: number;
  write(position: number, bytes: Uint8Array): Promise<void>;
  /** Fills `target` from `position`; returns how many bytes were there. */
  read(position: number, target: Uint8Array): Promise<number>;
  chunks(position: number, length: number): AsyncIterable<Uint8Array>;
  /** Keeps what is needed to go on after a restart. */
  saveState(state: Uint8Array): Promise<void>;
  /** Gives the space back. */
  remove(): Promise<void>;
  /** Stops using it; what is on disk stays for the next try. */
  close(): Promise<void>;
}

export interface Resumed {
  readonly spool: Spool;
  readonly state: Uint8Array;
}

export interface SpoolFolder {
  /** A fresh spool for a version; what lay there before is dropped. Undefined where the quota is reached. */
  create(versionId: Hash, byteLength: number): Promise<Spool | undefined>;
  /** What an earlier run of the server left of this version's transfer. */
  resume(versionId: Hash, maxBytes: number): Promise<Resumed | undefined>;
  /** Removes what nobody touched for too long, and what is none of ours. */
  expire(): Promise<void>;
  readonly bytes: number;
}

const maxStateBytes = 64 * 1024 * 1024;
/** Most bytes of small streams in memory; further ones go to files. */
const maxMemoryBytes = 64 * 1024 * 1024;
type Ports = { readonly files: Files; readonly clock: Pick<Clock, "now">; readonly log: Log };

/** Opens the folder and counts what is in it. */
export async function openSpoolFolder(
  ports: Ports,
  folder: string,
  limits: Pick<IngestLimits, "spoolBytes" | "spoolMs" | "memorySpoolBytes">,
): Promise<SpoolFolder> {
  const { files, clock, log } = ports;
  await files.makeFolder(folder);
  const sizes = new Map<string, number>();
  /** Small streams, by version: bytes, and the state that an interrupted transfer left. */
  const inMemory = new Map<
    string,
    { readonly bytes: Uint8Array; state: Uint8Array | undefined; touchedMs: number }
  >();
  const dataPath = (versionId: string): string => join(folder, `${versionId}.data`);
  const statePath = (versionId: string): string => join(folder, `${versionId}.state`);
  const memoryBytes = (): number => [...inMemory.values()].reduce((sum, { bytes }) => sum + bytes.length, 0);
  const used = (): number => memoryBytes() + [...sizes.values()].reduce((sum, size) => sum + size, 0);
  const open = new Set<string>();

  const remove = async (versionId: string): Promise<void> => {
    const onDisk = sizes.delete(versionId);
    open.delete(versionId);
    inMemory.delete(versionId);
    if (!onDisk) return;
    for (const path of [statePath(versionId), `${statePath(versionId)}.tmp`, dataPath(versionId)])
      await files.remove(path);
  };
  const fileSpool = (versionId: Hash, file: OpenFile, byteLength: number): Spool => {
    open.add(versionId);
    return {
      byteLength,
      write: (position, bytes) => file.write(bytes, position),
      read: (position, target) => readFully(file, position, target),
      chunks: (position, length) => chunksOf((at, target) => readFully(file, at, target), position, length),
      async saveState(state) {
        // Renamed whole, but not synced: a crash of the machine costs a transfer, not a model.
        const temporary = `${statePath(versionId)}.tmp`;
        await files.remove(temporary);
        const out = await files.open(temporary, "create");
        try {
          await out.write(state, 0);
        } finally {
          await out.close();
        }
        await files.rename(temporary, statePath(versionId));
      },
      async remove() {
        await file.close();
        await remove(versionId);
      },
      async close() {
        open.delete(versionId);
        await file.close();
      },
    };
  };
  const memorySpool = (versionId: Hash, bytes: Uint8Array): Spool => {
    open.add(versionId);
    const read = (position: number, target: Uint8Array): Promise<number> => {
      const piece = bytes.subarray(position, position + target.length);
      target.set(piece);
      return Promise.resolve(piece.length);
    };
    return {
      byteLength: bytes.length,
      read,
      write(position, block) {
        bytes.set(block, position);
        return Promise.resolve();
      },
      chunks: (position, length) => chunksOf(read, position, length),
      saveState(state) {
        const held = inMemory.get(versionId);
        if (held !== undefined) {
          held.state = state;
          held.touchedMs = clock.now();
        }
        return Promise.resolve();
      },
      remove: () => remove(versionId),
      close() {
        open.delete(versionId);
        return Promise.resolve();
      },
    };
  };
  const expire = async (): Promise<void> => {
    for (const [versionId, { touchedMs }] of inMemory)
      if (!open.has(versionId) && clock.now() - touchedMs >= limits.spoolMs) inMemory.delete(versionId);
    for (const name of await files.list(folder)) {
      const versionId = name.split(".")[0] ?? "";
      if (open.has(versionId)) continue;
      const stat = await files.stat(join(folder, name));
      if (isHash(versionId) && stat !== undefined && clock.now() - stat.modifiedMs < limits.spoolMs) continue;
      log.info("spool-expired", { name });
      await files.remove(join(folder, name));
      sizes.delete(versionId);
    }
  };

  await expire();
  for (const name of await files.list(folder)) {
    if (!name.endsWith(".data")) continue;
    sizes.set(name.slice(0, -5), (await files.stat(join(folder, name)))?.size ?? 0);
  }
  return {
    async create(versionId, byteLength) {
      await remove(versionId);
      if (used() + byteLength > limits.spoolBytes) return undefined;
      if (byteLength <= limits.memorySpoolBytes && memoryBytes() + byteLength <= maxMemoryBytes) {
        const bytes = new Uint8Array(byteLength);
        inMemory.set(versionId, { bytes, state: undefined, touchedMs: clock.now() });
        return memorySpool(versionId, bytes);
      }
      sizes.set(versionId, byteLength);
      let file: OpenFile | undefined;
      try {
        file = await files.open(dataPath(versionId), "create");
        // Its whole length from the start (a hole where nothing is yet): so the size of what lies there tells
        // the quota.
        await file.truncate(byteLength);
        return fileSpool(versionId, file, byteLength);
      } catch (error) {
        await file?.close();
        await remove(versionId);
        throw error;
      }
    },
    async resume(versionId, maxBytes) {
      if (open.has(versionId)) return undefined;
      const held = inMemory.get(versionId);
      if (held !== undefined)
        return held.state === undefined
          ? undefined
          : { spool: memorySpool(versionId, held.bytes), state: held.state };
      const stat = await files.stat(statePath(versionId));
      if (stat === undefined || stat.size > maxStateBytes) return undefined;
      let file: OpenFile | undefined;
      try {
        const state = await files.read(statePath(versionId));
        file = await files.open(dataPath(versionId), "update");
        const byteLength = await file.size();
        if (byteLength > maxBytes) throw new RangeError("longer than a transfer may be");
        sizes.set(versionId, byteLength);
        return { spool: fileSpool(versionId, file, byteLength), state };
      } catch (error) {
        await file?.close();
        if (isStemmaError(error, "FILE_FAILED")) throw error;
        sizes.set(versionId, 0);
        await remove(versionId);
        return undefined;
      }
    },
    expire,
    get bytes() {
      return used();
    },
  };
}

async function readFully(file: OpenFile, position: number, target: Uint8Array): Promise<number> {
  let got = 0;
  while (got < target.length) {
    const count = await file.read(target.subarray(got), position + got);
    if (count === 0) break;
    got += count;
  }
  return got;
}

/** Pieces small enough to be cheap to hold, large enough to be cheap to read. */
const pieceBytes = Math.min(4 * 1024 * 1024, maxChunkBytes);
async function* chunksOf(
  read: (position: number, target: Uint8Array) => Promise<number>,
  position: number,
  length: number,
): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < length; at += pieceBytes) {
    const piece = new Uint8Array(Math.min(pieceBytes, length - at));
    const got = await read(position + at, piece);
    yield piece.subarray(0, got);
    if (got < piece.length) return;
  }
}
