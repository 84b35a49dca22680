/**
 * Reads tensors in any encoding: a coded tensor is decoded with everything it is coded against, each once.
 * Bytes come through the port StoredTensors.
 */
import { hasSameLinks, linksOf } from "../delta/links.js";
import type { StemmaError } from "../errors.js";
import { tensorId } from "../tensor/hash.js";
import type { Hash, Tensor } from "../tensor/tensor.js";
import { isFault, linked, planRetrieval, type RetrievalStep } from "./chains.js";
import type { DecodedCache } from "./decoded-cache.js";
import { decodeSteps, type DecodingStep } from "./decoding/decode-steps.js";
import { DecodingLost, decodingThreads } from "./decoding/decoding-threads.js";
import { tensorDecoder } from "./decoding/tensor-decoder.js";
import { readWrongly, replacedWhileRead } from "./object-errors.js";
import type { FixedPlanesRead, HighPlanes, ReadOptions } from "./object-store.js";
import { rawEncodingCode } from "./pack-entry.js";
import { PlaneReading } from "./plane-reading.js";
import { refuseLarge, type StoredTensors, type TensorEntry } from "./stored-tensors.js";

/** The largest number of restarts of a read because the store changed meanwhile. */
const maxRestarts = 16;

/** Another copy has replaced the one that was to be read. */
class CopyReplaced extends Error {}

function isTransient(error: unknown): boolean {
  return error instanceof CopyReplaced || error instanceof DecodingLost;
}

interface Decoded {
  readonly entry: TensorEntry;
  readonly bytes: Uint8Array;
  /**
   * The stored bytes; undefined when the tensor came from the cache. Moved to a thread (empty now) unless
   * `keepsStored`.
   */
  readonly stored?: Uint8Array;
}

interface Retrieval {
  /** True to use no cache. */
  readonly fromDisk?: boolean;
  /** The stored bytes are needed after decoding. */
  readonly keepsStored?: boolean;
}

export class TensorReading {
  readonly #store: StoredTensors;
  readonly #cache: DecodedCache;
  readonly #planes: PlaneReading;

  constructor(store: StoredTensors, cache: DecodedCache) {
    this.#store = store;
    this.#cache = cache;
    this.#planes = new PlaneReading({
      store,
      retried: (read) => this.#retried(read),
      requireReadable: (id) => {
        this.#requireReadable(id);
      },
      verified: async (id) => (await this.#decoded(id, true, {})).bytes,
      stored: (id, entry, length) => this.#storedBytes(id, entry, length),
      diagnose: (id) => this.#diagnose(id),
    });
  }

  /**
   * A tensor's bytes, in a buffer that belongs to the caller.
   * @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH naming what is damaged, PACK_CORRUPT, PACK_FORMAT_UNKNOWN,
   * TENSOR_TOO_LARGE
   */
  async bytes(id: Hash, { verify = true, fromDisk = false }: ReadOptions = {}): Promise<Uint8Array> {
    const { entry, bytes, stored } = await this.#decoded(id, verify, { fromDisk });
    // Bytes of the cache, and raw bytes (perhaps a view of a read-ahead buffer), are shared.
    return entry.encodingCode === rawEncodingCode || stored === undefined ? bytes.slice() : bytes;
  }

  /** Returns the bytes as `bytes`, but the caller must not write to them; cached for the tensors coded against it. */
  async reference(id: Hash, verify: boolean): Promise<Uint8Array> {
    const { entry, bytes, stored } = await this.#decoded(id, verify, {});
    if (entry.encodingCode !== rawEncodingCode && stored !== undefined) this.#cache.put(id, bytes);
    return bytes;
  }

  /** Caches bytes that were compared with their id, and that nothing writes to any more. */
  remember(id: Hash, bytes: Uint8Array): void {
    this.#cache.put(id, bytes);
  }

  /** The stored bytes of a copy, read from the disk, decoded and compared with the id. @throws as `bytes` */
  async verifiedCopy(id: Hash): Promise<{ readonly entry: TensorEntry; readonly stored: Uint8Array }> {
    const { entry, stored } = await this.#decoded(id, true, { fromDisk: true, keepsStored: true });
    return { entry, stored: stored as Uint8Array };
  }

  /** See ObjectReader.readHighPlanes. */
  highPlanes(id: Hash, planes: number): Promise<HighPlanes> {
    return this.#planes.highPlanes(id, planes);
  }

  /** See ObjectReader.readFixedPlanes. */
  fixedPlanes(id: Hash, planes: number): Promise<FixedPlanesRead | undefined> {
    return this.#planes.fixedPlanes(id, planes);
  }

  async #decoded(id: Hash, verify: boolean, retrieval: Retrieval): Promise<Decoded> {
    const found = await this.#retried(() => this.#retrieve(id, retrieval));
    if (verify && tensorId(found.entry.header, found.bytes) !== id)
      throw await this.#retried(() => this.#diagnose(id));
    return found;
  }

  /** Reads again where a recoding or a collection replaced the copy during the read, or a thread ended. */
  async #retried<T>(read: () => Promise<T>): Promise<T> {
    for (let restarts = 0; ; restarts++) {
      try {
        return await read();
      } catch (error) {
        if (!isTransient(error)) throw error;
        if (restarts === maxRestarts) throw replacedWhileRead(maxRestarts, error);
      }
    }
  }

  #requireReadable(id: Hash): void {
    const state = this.#store.state(id);
    if (isFault(state)) throw this.#store.unreadable(id, state);
  }

  /** Retrieves a tensor; everything is looked up before the first await, so that the entries belong together. */
  async #retrieve(id: Hash, { fromDisk = false, keepsStored = false }: Retrieval): Promise<Decoded> {
    this.#requireReadable(id);
    const entry = this.#store.entry(id);
    const atHand = fromDisk ? undefined : this.#cache.get(id);
    if (atHand !== undefined) return { entry, bytes: atHand };
    const held = new Map<Hash, Tensor>();
    const steps = planRetrieval(
      id,
      (at) => this.#store.entry(at),
      (at) => at !== id && this.#hold(at, held),
    );
    const runs = runsOf(steps);
    let last: Decoded | undefined;
    let reading = this.#readRun(runs[0]);
    for (const [i, run] of runs.entries()) {
      const stored = reading;
      reading = this.#readRun(runs[i + 1]);
      reading.catch(() => undefined); // Awaited in the next round, or never when this run fails.
      last = await this.#decodeRun(run, await stored, held, { id, keepsStored });
    }
    return last as Decoded;
  }

  async #readRun(run: Run = []): Promise<readonly Uint8Array[]> {
    return Promise.all(run.map((step) => this.#storedBytes(step.id, step.entry)));
  }

  /** Decodes one run; `held` then has what later runs need. Returns the last tensor of the run. */
  async #decodeRun(
    run: Run,
    stored: readonly Uint8Array[],
    held: Map<Hash, Tensor>,
    { id, keepsStored }: { readonly id: Hash; readonly keepsStored: boolean },
  ): Promise<Decoded> {
    // Raw tensors are not cached: reading them again is as fast.
    const isCached = ({ id: at, entry }: Run[number]): boolean =>
      entry.encodingCode !== rawEncodingCode &&
      this.#store.isReferenced(at) &&
      this.#cache.accepts(entry.byteLength);
    const done = new Set(run.flatMap(({ lastUseOf }) => lastUseOf));
    const wanted = new Set(run.filter((step) => !done.has(step.id) || isCached(step)).map((step) => step.id));
    const steps = run.map((step, i) => decodingStepOf(step, stored[i] as Uint8Array));
    const needed = new Set(steps.flatMap(linked));
    const references = new Map([...held].filter(([at]) => needed.has(at)));
    const { bytes: decoded, malformed } = await decodingThreads().decode({
      steps,
      references,
      wanted,
      canMoveStored: !keepsStored,
    });
    if (malformed !== undefined) throw await this.#diagnose(id);
    for (const step of run) {
      const bytes = decoded.get(step.id);
      if (bytes === undefined) continue;
      // The bytes that are returned belong to the caller: the cache gets a copy.
      if (isCached(step)) this.#cache.put(step.id, step.id === id ? bytes.slice() : bytes);
      held.set(step.id, { ...step.entry.header, bytes });
    }
    for (const unneeded of done) held.delete(unneeded);
    const { id: lastId, entry } = run.at(-1) as Run[number];
    return { entry, stored: stored.at(-1) as Uint8Array, bytes: decoded.get(lastId) as Uint8Array };
  }

  /** Adds a tensor to `held` if the cache has it. */
  #hold(id: Hash, held: Map<Hash, Tensor>): boolean {
    const bytes = this.#cache.get(id);
    if (bytes !== undefined) held.set(id, { ...this.#store.entry(id).header, bytes });
    return bytes !== undefined;
  }

  /**
   * The stored bytes of exactly this copy, wherever a collection has moved it. Looked up before the first
   * await. @throws CopyReplaced where another copy is read now
   */
  async #storedBytes(id: Hash, entry: TensorEntry, length?: number): Promise<Uint8Array> {
    refuseLarge(id, entry.byteLength);
    let now: TensorEntry;
    try {
      now = this.#store.entry(id);
    } catch (cause) {
      throw new CopyReplaced("gone", { cause });
    }
    if (now.epoch !== entry.epoch || now.encodingCode !== entry.encodingCode || !hasSameLinks(now, entry))
      throw new CopyReplaced("recoded");
    return this.#store.stored(id, length);
  }

  /**
   * Decodes a chain from its start without any cache, to find the damaged tensor. Returns the error to throw.
   */
  async #diagnose(id: Hash): Promise<StemmaError> {
    const decoder = await tensorDecoder();
    const held = new Map<Hash, Tensor>();
    this.#requireReadable(id);
    for (const step of planRetrieval(
      id,
      (at) => this.#store.entry(at),
      () => false,
    )) {
      this.#cache.drop(step.id);
      const stored = await this.#storedBytes(step.id, step.entry);
      const bytes = decodeSteps(decoder, {
        steps: [decodingStepOf(step, stored)],
        references: held,
        wanted: new Set([step.id]),
      }).bytes.get(step.id);
      const actual = bytes === undefined ? undefined : tensorId(step.entry.header, bytes);
      if (bytes === undefined || actual !== step.id) {
        const error = this.#store.damaged(step.id, step.entry, { actual });
        return step.id === id ? error : this.#store.unreadable(id, { why: "missing", id: step.id });
      }
      for (const done of step.lastUseOf) held.delete(done);
      held.set(step.id, { ...step.entry.header, bytes });
    }
    return readWrongly(id);
  }
}

/** The steps of one decoding job, few enough to be held in memory. */
type Run = readonly RetrievalStep<TensorEntry>[];

/** Stored and decoded bytes that one job may hold at a time. A larger tensor gets a job of its own. */
const maxRunBytes = 64 * 1024 * 1024;
/** The first job is short: the bytes for the next one are read while it runs. */
const firstRunBytes = 4 * 1024 * 1024;

/** Splits a retrieval into the runs that are decoded one after the other. */
function runsOf(steps: Run): readonly Run[] {
  const runs: Run[] = [];
  for (let from = 0, to = 0; from < steps.length; from = to) {
    const limit = runs.length === 0 ? firstRunBytes : maxRunBytes;
    for (let bytes = 0; to < steps.length && bytes < limit; to++) {
      const { encodingCode, storedBytes, byteLength } = (steps[to] as Run[number]).entry;
      // A raw tensor is needed by the next step anyway.
      if (encodingCode !== rawEncodingCode) bytes += storedBytes + byteLength;
    }
    runs.push(steps.slice(from, to));
  }
  return runs;
}

function decodingStepOf({ id, entry, lastUseOf }: Run[number], stored: Uint8Array): DecodingStep {
  const { header, encodingCode: code, byteLength } = entry;
  return { id, header, code, byteLength, stored, lastUseOf, ...linksOf(entry) };
}
