/**
 * Stores the blocks of unfinished transfers until the stream is complete, bounded and expiring. There is a
 * data file and a small state file per version, in one folder; small streams stay in memory. Nothing in it is
 * trusted after a restart: the code that resumes a transfer checks each block against its hash again, so no
 * fsync is needed here. Knows no protocol.
 */
import { join } from "node:path";
import { isStemmaError } from "../../../../shared/errors.js";
import type { Clock, Files, Log, OpenFile } from "../../../../shared/ports.js";
import { isHash } from "../../../../shared/tensor/hash.js";
import { maxChunkBytes, type Hash } from "../../../../shared/tensor/tensor.js";
import type { IngestLimits } from "../limits.js";
import { maySpool, spoolsToEvict, type SpoolUse, type UnusedSpool } from "./spool-shares.js";

/** Bytes of one stream, written in any order and read back in pieces. */
export interface Spool {
  readonly byteLength: number;
  write(position: number, bytes: Uint8Array): Promise<void>;
  /** Fills `target` from `position`; returns how many bytes were there. */
  read(position: number, target: Uint8Array): Promise<number>;
  chunks(position: number, length: number): AsyncIterable<Uint8Array>;
  /** Saves the state from which the transfer is resumed after a restart. */
  saveState(state: Uint8Array): Promise<void>;
  /** Closes it and frees its space. */
  remove(): Promise<void>;
  /** Stops using it; what is on disk stays for the next try. */
  close(): Promise<void>;
}

export interface Resumed {
  readonly spool: Spool;
  readonly state: Uint8Array;
}

export interface SpoolFolder {
  /**
   * A new spool for a version that a device sends; an earlier one is removed. Where space is short, spools that
   * nobody uses now go (spool-shares.ts): that costs a transfer, never a model. Undefined where the device's share
   * of the space that is in use does not allow it.
   */
  create(versionId: Hash, byteLength: number, device: string): Promise<Spool | undefined>;
  /** Resumes this version's transfer that an earlier run of the server left, if this device goes on with it. */
  resume(versionId: Hash, maxBytes: number, device: string): Promise<Resumed | undefined>;
  /**
   * Removes the spools of a device that nobody uses now, and those of which a restart has forgotten the device: that
   * costs a transfer, never a model.
   */
  forget(device: string): Promise<void>;
  /** Removes spools that were not used for too long, and files that do not belong here. */
  expire(): Promise<void>;
  readonly bytes: number;
}

const maxStateBytes = 64 * 1024 * 1024;
/** Max bytes of small streams in memory; further ones go to files. */
const maxMemoryBytes = 64 * 1024 * 1024;
type Ports = { readonly files: Files; readonly clock: Pick<Clock, "now">; readonly log: Log };
type SpoolLimits = Pick<IngestLimits, "spoolBytes" | "spoolBytesPerDevice" | "spoolMs" | "memorySpoolBytes">;

/** A small stream: its bytes, and the state that an interrupted transfer left. */
interface MemoryStream {
  readonly bytes: Uint8Array;
  state: Uint8Array | undefined;
  touchedMs: number;
}

/** Opens the folder, removes expired files and counts the bytes of the others. */
export async function openSpoolFolder(
  ports: Ports,
  folder: string,
  limits: SpoolLimits,
): Promise<SpoolFolder> {
  await ports.files.makeFolder(folder);
  const spools = new BoundedSpoolFolder(ports, folder, limits);
  await spools.expire();
  await spools.countFiles();
  return spools;
}

class BoundedSpoolFolder implements SpoolFolder {
  /** Bytes of the data files, by version. */
  readonly #fileBytes = new Map<string, number>();
  readonly #inMemory = new Map<string, MemoryStream>();
  /** Versions whose spool is in use. */
  readonly #open = new Set<string>();
  /** Devices that sent versions, as far as this process knows them. */
  readonly #devices = new Map<string, string>();
  /** Time of the last use of a version's file. */
  readonly #usedMs = new Map<string, number>();

  constructor(
    private readonly ports: Ports,
    private readonly folder: string,
    private readonly limits: SpoolLimits,
  ) {}

  get bytes(): number {
    return this.#memoryBytes + [...this.#fileBytes.values()].reduce((sum, bytes) => sum + bytes, 0);
  }
  get #memoryBytes(): number {
    return [...this.#inMemory.values()].reduce((sum, { bytes }) => sum + bytes.length, 0);
  }

  async countFiles(): Promise<void> {
    const { files } = this.ports;
    for (const name of await files.list(this.folder)) {
      if (!name.endsWith(".data")) continue;
      const stat = await files.stat(join(this.folder, name));
      const versionId = name.slice(0, -".data".length);
      this.#fileBytes.set(versionId, stat?.size ?? 0);
      this.#usedMs.set(versionId, stat?.modifiedMs ?? 0);
    }
  }

  async create(versionId: Hash, byteLength: number, device: string): Promise<Spool | undefined> {
    const { limits, ports } = this;
    await this.#remove(versionId);
    if (!maySpool(byteLength, this.#openUse(device), limits)) return undefined;
    await this.#makeSpace(byteLength, device);
    // Another device's spool may have begun meanwhile. From here on this one counts.
    const isStillFree = this.bytes + byteLength <= limits.spoolBytes;
    if (!isStillFree || !maySpool(byteLength, this.#openUse(device), limits)) return undefined;
    this.#open.add(versionId);
    this.#devices.set(versionId, device);
    if (byteLength <= limits.memorySpoolBytes && this.#memoryBytes + byteLength <= maxMemoryBytes) {
      const stream = { bytes: new Uint8Array(byteLength), state: undefined, touchedMs: ports.clock.now() };
      this.#inMemory.set(versionId, stream);
      return this.#memorySpool(versionId, stream);
    }
    this.#fileBytes.set(versionId, byteLength);
    let file: OpenFile | undefined;
    try {
      file = await ports.files.open(this.#dataPath(versionId), "create");
      // A sparse file of full length from the start: after a restart the quota counts its size.
      await file.truncate(byteLength);
      return this.#fileSpool(versionId, file, byteLength);
    } catch (error) {
      await file?.close();
      await this.#remove(versionId);
      throw error;
    }
  }

  #bytesOf(versionId: string): number {
    return this.#fileBytes.get(versionId) ?? this.#inMemory.get(versionId)?.bytes.length ?? 0;
  }

  /** Bytes of the spools that are in use. */
  #openUse(device: string): SpoolUse {
    let total = 0;
    let own = 0;
    for (const versionId of this.#open) {
      const bytes = this.#bytesOf(versionId);
      total += bytes;
      if (this.#devices.get(versionId) === device) own += bytes;
    }
    return { total, own };
  }

  /** Removes files that nobody uses: of this device as far as its share needs it, then as far as space needs it. */
  async #makeSpace(byteLength: number, device: string): Promise<void> {
    const { spoolBytes, spoolBytesPerDevice } = this.limits;
    const unused = this.#unused();
    const own = unused.filter((spool) => spool.device === device);
    const ownBytes = own.reduce((bytes, spool) => bytes + spool.byteLength, this.#openUse(device).own);
    await this.#evict(spoolsToEvict(own, ownBytes + byteLength - spoolBytesPerDevice));
    await this.#evict(spoolsToEvict(this.#unused(), this.bytes + byteLength - spoolBytes));
  }

  #unused(): readonly UnusedSpool[] {
    return [...this.#fileBytes.keys(), ...this.#inMemory.keys()]
      .filter((versionId) => !this.#open.has(versionId))
      .map((versionId) => ({
        versionId,
        device: this.#devices.get(versionId),
        byteLength: this.#bytesOf(versionId),
        usedMs: this.#usedMs.get(versionId) ?? this.#inMemory.get(versionId)?.touchedMs ?? 0,
      }));
  }

  async forget(device: string): Promise<void> {
    const gone = this.#unused().filter((spool) => spool.device === undefined || spool.device === device);
    await this.#evict(gone.map(({ versionId }) => versionId));
  }

  async #evict(versionIds: readonly string[]): Promise<void> {
    for (const versionId of versionIds) {
      this.ports.log.info("spool-evicted", { versionId });
      await this.#remove(versionId);
    }
  }

  async resume(versionId: Hash, maxBytes: number, device: string): Promise<Resumed | undefined> {
    if (this.#open.has(versionId)) return undefined;
    const stream = this.#inMemory.get(versionId);
    if (stream !== undefined)
      return stream.state === undefined
        ? undefined
        : { spool: this.#memorySpool(versionId, stream), state: stream.state };
    const { files } = this.ports;
    const stat = await files.stat(this.#statePath(versionId));
    if (stat === undefined || stat.size > maxStateBytes) return undefined;
    let file: OpenFile | undefined;
    try {
      const state = await files.read(this.#statePath(versionId));
      file = await files.open(this.#dataPath(versionId), "update");
      const byteLength = await file.size();
      if (byteLength > maxBytes) throw new RangeError("longer than a transfer may be");
      this.#fileBytes.set(versionId, byteLength);
      this.#devices.set(versionId, device);
      return { spool: this.#fileSpool(versionId, file, byteLength), state };
    } catch (error) {
      await file?.close();
      if (isStemmaError(error, "FILE_FAILED")) throw error;
      this.#fileBytes.set(versionId, 0);
      await this.#remove(versionId);
      return undefined;
    }
  }

  async expire(): Promise<void> {
    const { files, clock, log } = this.ports;
    for (const [versionId, { touchedMs }] of this.#inMemory)
      if (!this.#open.has(versionId) && clock.now() - touchedMs >= this.limits.spoolMs)
        await this.#remove(versionId);
    for (const name of await files.list(this.folder)) {
      const versionId = name.split(".")[0] ?? "";
      if (this.#open.has(versionId)) continue;
      const stat = await files.stat(join(this.folder, name));
      const isFresh = stat !== undefined && clock.now() - stat.modifiedMs < this.limits.spoolMs;
      if (isHash(versionId) && isFresh) continue;
      log.info("spool-expired", { name });
      await files.remove(join(this.folder, name));
      this.#fileBytes.delete(versionId);
      this.#devices.delete(versionId);
      this.#usedMs.delete(versionId);
    }
  }

  #dataPath(versionId: string): string {
    return join(this.folder, `${versionId}.data`);
  }
  #statePath(versionId: string): string {
    return join(this.folder, `${versionId}.state`);
  }

  async #remove(versionId: string): Promise<void> {
    const isOnDisk = this.#fileBytes.delete(versionId);
    this.#open.delete(versionId);
    this.#inMemory.delete(versionId);
    this.#devices.delete(versionId);
    this.#usedMs.delete(versionId);
    if (!isOnDisk) return;
    const statePath = this.#statePath(versionId);
    for (const path of [statePath, `${statePath}.tmp`, this.#dataPath(versionId)])
      await this.ports.files.remove(path);
  }

  #fileSpool(versionId: Hash, file: OpenFile, byteLength: number): Spool {
    this.#open.add(versionId);
    return {
      byteLength,
      write: (position, bytes) => file.write(bytes, position),
      read: (position, target) => readFully(file, position, target),
      chunks: (position, length) => chunksOf((at, target) => readFully(file, at, target), position, length),
      saveState: (state) => this.#saveStateFile(versionId, state),
      remove: async () => {
        await file.close();
        await this.#remove(versionId);
      },
      close: async () => {
        this.#open.delete(versionId);
        this.#usedMs.set(versionId, this.ports.clock.now());
        await file.close();
      },
    };
  }

  /** Replaces the state file atomically, but does not sync it: a power loss costs a transfer, not a model. */
  async #saveStateFile(versionId: Hash, state: Uint8Array): Promise<void> {
    const { files } = this.ports;
    const temporary = `${this.#statePath(versionId)}.tmp`;
    await files.remove(temporary);
    const out = await files.open(temporary, "create");
    try {
      await out.write(state, 0);
    } finally {
      await out.close();
    }
    await files.rename(temporary, this.#statePath(versionId));
  }

  #memorySpool(versionId: Hash, stream: MemoryStream): Spool {
    const { bytes } = stream;
    this.#open.add(versionId);
    const read = (position: number, target: Uint8Array): Promise<number> => {
      const piece = bytes.subarray(position, position + target.length);
      target.set(piece);
      return Promise.resolve(piece.length);
    };
    return {
      byteLength: bytes.length,
      read,
      write: (position, block) => {
        bytes.set(block, position);
        return Promise.resolve();
      },
      chunks: (position, length) => chunksOf(read, position, length),
      saveState: (state) => {
        stream.state = state;
        stream.touchedMs = this.ports.clock.now();
        return Promise.resolve();
      },
      remove: () => this.#remove(versionId),
      close: () => {
        this.#open.delete(versionId);
        return Promise.resolve();
      },
    };
  }
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

/** Small enough to be cheap to hold in memory, large enough to be cheap to read. */
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
