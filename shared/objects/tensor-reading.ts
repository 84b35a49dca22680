/**
 * Reads tensors however they lie: decodes what is coded, with everything it was coded against, each once.
 * Bytes come through a port that packs, the store in memory and a pack that is just being written fulfil.
 */
import type { PlanesCode } from "../delta/codec.js";
import { encodingCodes } from "../delta/encoded.js";
import { fixedPlaneCount } from "../delta/fixed-planes.js";
import { planeBytes } from "../delta/numbers.js";
import { StemmaError } from "../errors.js";
import { tensorId } from "../tensor/hash.js";
import type { Hash, Tensor, TensorHeader } from "../tensor/tensor.js";
import {
  isFault,
  linked,
  planRetrieval,
  type ChainFault,
  type ChainState,
  type RetrievalStep,
} from "./chains.js";
import type { DecodedCache } from "./decoded-cache.js";
import type { ObjectIndex } from "./object-index.js";
import {
  maxCodedTensorBytes,
  type CodedTensor,
  type FixedPlanesRead,
  type HighPlanes,
  type ReadOptions,
  type TensorEncoding,
} from "./object-store.js";
import { rawEncodingCode, type PackEntry } from "./pack-format.js";
import { keepHighPlanes, planesCheck } from "./high-planes.js";
import { decodeSteps, type DecodingStep } from "./decoding/decode-steps.js";
import { DecodingLost, decodingThreads } from "./decoding/decoding-threads.js";
import { tensorDecoder, type TensorDecoder } from "./decoding/tensor-decoder.js";

export type TensorEntry = PackEntry & { readonly header: TensorHeader };

/** Where tensors lie. */
export interface StoredTensors {
  /** The copy of a tensor that is read. @throws OBJECT_MISSING, OBJECT_KIND_MISMATCH */
  entry(id: Hash): TensorEntry;
  state(id: Hash): ChainState;
  /**
   * As many of the first stored bytes of the copy that is read, which is looked up in the turn of the call;
   * all of them when `length` is absent. A whole buffer is the caller's; a piece of a larger one is not to be
   * written to.
   */
  stored(id: Hash, length?: number): Promise<Uint8Array>;
  /** Whether anything is coded against it, so that it may be asked for again. */
  isReferred(id: Hash): boolean;
  /**
   * Notes that a copy's bytes are wrong. `actual`: the id they have, where they could be decoded. Returns
   * what is to be thrown.
   */
  damaged(
    id: Hash,
    entry: PackEntry,
    found: { readonly actual?: Hash; readonly cause?: unknown },
  ): StemmaError;
  /** What is to be thrown for a tensor that is known to be out of reach. */
  outOfReach(id: Hash, fault: ChainFault): StemmaError;
}

/** How often a reading starts anew because the store changed under it. */
const mostRestarts = 16;
class Moved extends Error {}
function isPassing(error: unknown): boolean {
  return error instanceof Moved || error instanceof DecodingLost;
}

function refuseLarge(id: Hash, byteLength: number): void {
  if (byteLength > maxCodedTensorBytes)
    throw new StemmaError(
      "TENSOR_TOO_LARGE",
      `The tensor ${id} of ${byteLength} bytes is to be read in one piece, which only tensors of up to ${maxCodedTensorBytes} bytes are. Read it as a stream.`,
      { id, byteLength },
    );
}

interface Decoded {
  readonly entry: TensorEntry;
  readonly bytes: Uint8Array;
  /**
   * Undefined when it came from the cache; gone to a thread unless it was to be kept.
   */
  readonly stored?: Uint8Array;
}
/** `fromDisk`: nothing of it is taken from memory. `keepsStored`: its stored bytes are wanted too. */
interface Retrieval {
  readonly fromDisk?: boolean;
  readonly keepsStored?: boolean;
}
/** `isMasked`: the bytes below the planes asked for are nought already. */
interface Planes {
  readonly header: TensorHeader;
  readonly bytes: Uint8Array;
  readonly readBytes: number;
  readonly isMasked: boolean;
}
/** A page: a disk reads no less, and of small tensors it holds the head and all planes that are asked for. */
const firstReadBytes = 4096;

type Run = readonly RetrievalStep<TensorEntry>[];

/**
 * Stored and decoded bytes that one job may hold at a time; a tensor that alone is larger is a job of its
 * own.
 */
const mostRunBytes = 64 * 1024 * 1024;
/** The first job is short: while it is done, what the next one needs is read. */
const firstRunBytes = 4 * 1024 * 1024;

function runsOf(steps: Run): readonly Run[] {
  const runs: Run[] = [];
  for (let from = 0, to = 0; from < steps.length; from = to) {
    const most = runs.length === 0 ? firstRunBytes : mostRunBytes;
    for (let bytes = 0; to < steps.length && bytes < most; to++) {
      const { encodingCode, storedBytes, byteLength } = (steps[to] as Run[number]).entry;
      // What lies raw is needed by the next one anyway.
      if (encodingCode !== rawEncodingCode) bytes += storedBytes + byteLength;
    }
    runs.push(steps.slice(from, to));
  }
  return runs;
}

function stepOf(
  { id, entry: { header, encodingCode: code, byteLength, base, previous }, lastUseOf }: Run[number],
  stored: Uint8Array,
): DecodingStep {
  return {
    id,
    header,
    code,
    byteLength,
    stored,
    lastUseOf,
    ...(base && { base }),
    ...(previous && { previous }),
  };
}

export class TensorReading {
  readonly #store: StoredTensors;
  readonly #cache: DecodedCache;
  constructor(store: StoredTensors, cache: DecodedCache) {
    this.#store = store;
    this.#cache = cache;
  }

  /**
   * A tensor's bytes, in memory that is the caller's alone.
   * @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH naming what is damaged, PACK_CORRUPT, PACK_FORMAT_UNKNOWN,
   * TENSOR_TOO_LARGE
   */
  async bytes(id: Hash, { verify = true, fromDisk = false }: ReadOptions = {}): Promise<Uint8Array> {
    const { entry, bytes, stored } = await this.#decoded(id, verify, { fromDisk });
    // What is remembered, or lies in a buffer of its pack's, is others' too.
    return entry.encodingCode === rawEncodingCode || stored === undefined ? bytes.slice() : bytes;
  }

  /** As `bytes`, but not to be written to, and remembered for what is coded against it. */
  async reference(id: Hash, verify: boolean): Promise<Uint8Array> {
    const { entry, bytes, stored } = await this.#decoded(id, verify, {});
    if (entry.encodingCode !== rawEncodingCode && stored !== undefined) this.#cache.put(id, bytes);
    return bytes;
  }

  /**
   * Bytes that were compared with their id, which nothing writes to any more, for what is coded against them.
   */
  remember(id: Hash, bytes: Uint8Array): void {
    this.#cache.put(id, bytes);
  }

  /** As it lies on the disk, decoded and compared with its id: the copy's stored bytes. @throws as `bytes` */
  async verifiedCopy(id: Hash): Promise<{ readonly entry: TensorEntry; readonly stored: Uint8Array }> {
    const { entry, stored } = await this.#decoded(id, true, { fromDisk: true, keepsStored: true });
    return { entry, stored: stored as Uint8Array };
  }

  /** See ObjectReader.readHighPlanes. */
  async highPlanes(id: Hash, planes: number): Promise<HighPlanes> {
    if (!Number.isInteger(planes) || planes < 1 || planes > 4)
      throw new StemmaError(
        "INTERNAL",
        `Of a tensor the highest 1 to 4 byte planes can be read, not ${planes}. Report this with what led to it.`,
      );
    const decoder = await tensorDecoder();
    return this.#unmoved(async () => {
      this.#refuseFault(id);
      const { header, bytes, readBytes, isMasked } = await this.#planesOf(decoder, id, planes);
      return { bytes: isMasked ? bytes : keepHighPlanes(bytes, planeBytes(header.dtype), planes), readBytes };
    });
  }

  /** See ObjectReader.readFixedPlanes. */
  async fixedPlanes(id: Hash, planes: number): Promise<FixedPlanesRead | undefined> {
    if (!Number.isInteger(planes) || planes < 1 || planes > fixedPlaneCount)
      throw new StemmaError(
        "INTERNAL",
        `Of a tensor the first 1 to ${fixedPlaneCount} fixed planes can be read, not ${planes}. Report this with what led to it.`,
      );
    const decoder = await tensorDecoder();
    return this.#unmoved(async () => {
      const entry = this.#store.entry(id),
        code = entry.encodingCode;
      if (code !== encodingCodes.fixedPlanes || entry.planeChecks?.[planes - 1] === undefined)
        return undefined;
      const { prefix, readBytes } = await this.#prefixOf(decoder, id, entry, code, planes);
      return { levels: decoder.delta.decodeFixedLevels(entry.header, prefix, planes), readBytes };
    });
  }

  async #decoded(id: Hash, verify: boolean, retrieval: Retrieval): Promise<Decoded> {
    const found = await this.#unmoved(() => this.#retrieve(id, retrieval));
    if (verify && tensorId(found.entry.header, found.bytes) !== id)
      throw await this.#unmoved(() => this.#diagnose(id));
    return found;
  }

  /**
   * A recoding or collection may replace what was planned to be read, and a thread may end; then it is
   * planned again.
   */
  async #unmoved<T>(read: () => Promise<T>): Promise<T> {
    for (let restarts = 0; ; restarts++) {
      try {
        return await read();
      } catch (error) {
        if (!isPassing(error)) throw error;
        if (restarts === mostRestarts)
          throw new StemmaError(
            "STORE_FAILED",
            "A tensor was rewritten again and again while it was read. Try again when less is being recoded.",
            { cause: error },
          );
      }
    }
  }

  #refuseFault(id: Hash): void {
    const state = this.#store.state(id);
    if (isFault(state)) throw this.#store.outOfReach(id, state);
  }

  /** One turn for everything that is looked up: what is found belongs together. */
  async #retrieve(id: Hash, { fromDisk = false, keepsStored = false }: Retrieval): Promise<Decoded> {
    this.#refuseFault(id);
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
    let last: Decoded | undefined,
      reading = this.#readRun(runs[0]);
    for (const [i, run] of runs.entries()) {
      const [stored, next] = [reading, (reading = this.#readRun(runs[i + 1]))];
      next.catch(() => undefined); // Awaited in its turn, or never when this run fails.
      last = await this.#decodeRun(run, await stored, held, { id, keepsStored });
    }
    return last as Decoded;
  }

  async #readRun(run: Run = []): Promise<readonly Uint8Array[]> {
    return Promise.all(run.map((step) => this.#storedAs(step.id, step.entry)));
  }

  /** Decodes some steps of a retrieval; what later ones need is held then. Returns the last of them. */
  async #decodeRun(
    run: Run,
    stored: readonly Uint8Array[],
    held: Map<Hash, Tensor>,
    { id, keepsStored }: { readonly id: Hash; readonly keepsStored: boolean },
  ): Promise<Decoded> {
    // Of raw tensors nothing is remembered: they are read again as fast.
    const isKept = ({ id: at, entry }: Run[number]): boolean =>
      entry.encodingCode !== rawEncodingCode &&
      this.#store.isReferred(at) &&
      this.#cache.takes(entry.byteLength);
    const done = new Set(run.flatMap(({ lastUseOf }) => lastUseOf));
    const wanted = new Set(run.filter((step) => !done.has(step.id) || isKept(step)).map((step) => step.id));
    const steps = run.map((step, i) => stepOf(step, stored[i] as Uint8Array));
    const needed = new Set(steps.flatMap(linked)),
      references = new Map([...held].filter(([at]) => needed.has(at)));
    const { bytes: decoded, malformed } = await decodingThreads().decode({
      steps,
      references,
      wanted,
      isStoredGiven: !keepsStored,
    });
    if (malformed !== undefined) throw await this.#diagnose(id);
    for (const step of run) {
      const bytes = decoded.get(step.id);
      if (bytes === undefined) continue;
      // What is handed out stays the caller's alone.
      if (isKept(step)) this.#cache.put(step.id, step.id === id ? bytes.slice() : bytes);
      held.set(step.id, { ...step.entry.header, bytes });
    }
    for (const over of done) held.delete(over);
    const { id: lastId, entry } = run.at(-1) as Run[number];
    return { entry, stored: stored.at(-1) as Uint8Array, bytes: decoded.get(lastId) as Uint8Array };
  }

  /** Takes a tensor from the cache, if it is there, for as long as this reading needs it. */
  #hold(id: Hash, held: Map<Hash, Tensor>): boolean {
    const bytes = this.#cache.get(id);
    if (bytes !== undefined) held.set(id, { ...this.#store.entry(id).header, bytes });
    return bytes !== undefined;
  }

  /**
   * The stored bytes of this very copy, wherever a collection has moved it; looked up in the turn of the
   * call.
   */
  async #storedAs(id: Hash, entry: TensorEntry, length?: number): Promise<Uint8Array> {
    refuseLarge(id, entry.byteLength);
    let now: TensorEntry;
    try {
      now = this.#store.entry(id);
    } catch (cause) {
      throw new Moved("gone", { cause });
    }
    if (
      now.epoch !== entry.epoch ||
      now.encodingCode !== entry.encodingCode ||
      now.base !== entry.base ||
      now.previous !== entry.previous
    )
      throw new Moved("recoded");
    return this.#store.stored(id, length);
  }

  /** Finds what of a tensor's chain is damaged, from the start, with nothing taken from memory. */
  async #diagnose(id: Hash): Promise<StemmaError> {
    const decoder = await tensorDecoder(),
      held = new Map<Hash, Tensor>();
    this.#refuseFault(id);
    for (const step of planRetrieval(
      id,
      (at) => this.#store.entry(at),
      () => false,
    )) {
      this.#cache.drop(step.id);
      const stored = await this.#storedAs(step.id, step.entry);
      const bytes = decodeSteps(decoder, {
        steps: [stepOf(step, stored)],
        references: held,
        wanted: new Set([step.id]),
      }).bytes.get(step.id);
      const actual = bytes === undefined ? undefined : tensorId(step.entry.header, bytes);
      if (bytes === undefined || actual !== step.id) {
        const error = this.#store.damaged(step.id, step.entry, actual === undefined ? {} : { actual });
        return step.id === id ? error : this.#store.outOfReach(id, { why: "missing", id: step.id });
      }
      for (const done of step.lastUseOf) held.delete(done);
      held.set(step.id, { ...step.entry.header, bytes });
    }
    return new StemmaError(
      "OBJECT_HASH_MISMATCH",
      `The tensor ${id} was read wrong once and is right on the disk: this machine's memory may be failing. Try again, and check the machine.`,
      { id },
    );
  }

  /** The highest planes, what is below them not yet masked. */
  async #planesOf(decoder: TensorDecoder, id: Hash, planes: number): Promise<Planes> {
    const entry = this.#store.entry(id),
      { header, encodingCode: code } = entry;
    if (
      code !== encodingCodes.planes ||
      planes >= planeBytes(header.dtype) ||
      entry.planeChecks?.[planes - 1] === undefined
    )
      return this.#wholeOf(id, header);
    // The base first: while it is read this copy may go, and what is read of it must fit.
    const base = entry.base === undefined ? undefined : await this.#planesOf(decoder, entry.base, planes);
    const { prefix, readBytes } = await this.#prefixOf(decoder, id, entry, code, planes);
    const bytes = decoder.delta.decodeHighPlanes(
      header,
      prefix,
      base === undefined ? {} : { base: { ...base.header, bytes: base.bytes } },
      planes,
    );
    return { header, bytes, readBytes: readBytes + (base?.readBytes ?? 0), isMasked: true };
  }

  /** The stored bytes that hold the first planes, compared with their check. */
  async #prefixOf(
    decoder: TensorDecoder,
    id: Hash,
    entry: TensorEntry,
    code: PlanesCode,
    planes: number,
  ): Promise<{ readonly prefix: Uint8Array; readonly readBytes: number }> {
    const start = await this.#storedAs(
      id,
      entry,
      Math.min(entry.storedBytes, Math.max(firstReadBytes, 1 + 6 * planeBytes(entry.header.dtype))),
    );
    const length = this.#prefixLength(decoder, entry, start, code, planes);
    const prefix =
      length === undefined
        ? undefined
        : length <= start.length
          ? start.subarray(0, length)
          : await this.#storedAs(id, entry, length);
    if (prefix === undefined || planesCheck(prefix) !== entry.planeChecks?.[planes - 1])
      throw await this.#diagnose(id);
    return { prefix, readBytes: Math.max(start.length, prefix.length) };
  }

  async #wholeOf(id: Hash, header: TensorHeader): Promise<Planes> {
    const steps = planRetrieval(
      id,
      (at) => this.#store.entry(at),
      () => false,
    );
    const { bytes } = await this.#decoded(id, true, {});
    return {
      header,
      bytes,
      readBytes: steps.reduce((sum, { entry }) => sum + entry.storedBytes, 0),
      isMasked: false,
    };
  }

  /** undefined where the lengths are none. */
  #prefixLength(
    decoder: TensorDecoder,
    { header, storedBytes }: TensorEntry,
    start: Uint8Array,
    code: PlanesCode,
    planes: number,
  ): number | undefined {
    try {
      const length = decoder.delta.planesPrefixBytes(header, start, planes, code);
      return length <= storedBytes ? length : undefined;
    } catch {
      return undefined;
    }
  }
}

/** See ObjectReader.encodingOf. */
export function encodingIn(index: ObjectIndex, id: Hash): TensorEncoding | undefined {
  const entry = index.locate(id)?.entry,
    depth = index.state(id);
  if (entry?.header === undefined || isFault(depth)) return undefined;
  const { encodingCode: code, base, previous, storedBytes } = entry;
  return {
    code,
    depth,
    storedBytes,
    ...(base === undefined ? {} : { base }),
    ...(previous === undefined ? {} : { previous }),
  };
}

/** See ObjectReader.readCoded. */
export async function readCodedFrom(
  tensors: Pick<StoredTensors, "entry" | "stored">,
  id: Hash,
): Promise<CodedTensor> {
  const { header, encodingCode: code, base, previous, byteLength } = tensors.entry(id);
  refuseLarge(id, byteLength);
  const bytes = await tensors.stored(id);
  return {
    id,
    header,
    code,
    bytes: bytes.slice(),
    ...(base === undefined ? {} : { base }),
    ...(previous === undefined ? {} : { previous }),
  };
}
