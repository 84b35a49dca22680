/**
 * Writes a fleet's tensors anew as a plan says, while everything else goes on: tensor by tensor, in packs of
 * bounded size that are durable one after the other, what is coded against another after it. A crash between
 * any two steps leaves every tensor readable; the next run goes on from what it finds. Superseded copies are
 * dropped by the fleet's own collection.
 */
import { StemmaError, isStemmaError, type ErrorCode } from "../../shared/errors.js";
import { encodingCodes } from "../../shared/delta/encoded.js";
import {
  maxChainDepth,
  type CodedTensor,
  type ObjectPruner,
  type PackWriter,
  type TensorEncoding,
} from "../../shared/objects/object-store.js";
import type { Clock } from "../../shared/ports.js";
import { tensorOfSource, type Hash } from "../../shared/tensor/tensor.js";
import type { FleetRepository } from "../repository/fleet-repository.js";
import { findPendingWork, encodingOfKind, type ApplyItem, type StaleTensor } from "./pending-work.js";
import type { ArchivePlan } from "./archive-plan.js";
import { ChainGuard } from "./chain-guard.js";
import { edgeKinds, entryBytes } from "./storage-edges.js";
import type { ArchiveCoder } from "./archive-coder.js";

export type ApplyTarget = Pick<FleetRepository, "liveObjects" | "planCollection" | "collect"> & {
  readonly objects: Pick<
    ObjectPruner,
    "has" | "stat" | "list" | "encodingOf" | "openTensor" | "begin" | "lease" | "release"
  >;
};
export interface ApplyParts {
  readonly target: ApplyTarget;
  readonly coder: ArchiveCoder;
  readonly clock: Clock;
  /** Bytes free on the store's disk. */
  readonly freeBytes: () => Promise<number>;
}
export interface ApplyOptions {
  /**
   * Stops after this time, and where superseded copies hold more than this many bytes that no collection
   * frees.
   */
  readonly timeMs?: number;
  readonly diskBytes?: number;
  /** Bytes of a pack, and of new copies between two collections. */
  readonly batchBytes?: number;
  readonly collectBytes?: number;
  /** Rest between two packs. */
  readonly pauseMs?: number;
  readonly dryRun?: boolean;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: ApplyProgress) => void;
}
export interface ApplyProgress {
  readonly done: number;
  readonly total: number;
  readonly writtenBytes: number;
  readonly step: "writing" | "collecting";
}

export interface ApplyReport {
  readonly fleet: string;
  readonly dryRun: boolean;
  /** Why it ended before the plan was carried out; null: it was carried out. */
  readonly stopped: "time" | "disk" | "interrupted" | null;
  /**
   * Tensors: written anew, left for the next time, lying as planned already, kept because writing them anew
   * would have gained nothing, and as the plan keeps them.
   */
  readonly rewritten: number;
  readonly left: number;
  readonly already: number;
  readonly notSmaller: number;
  readonly kept: number;
  readonly unplanned: number;
  readonly stale: readonly StaleTensor[];
  readonly failed: readonly { readonly tensor: Hash; readonly code: ErrorCode; readonly message: string }[];
  /** Stored bytes of the planned tensors with their index entries: before, as the plan predicts, and now. */
  readonly bytesBefore: number;
  readonly bytesPredicted: number;
  readonly bytesReached: number;
  readonly writtenBytes: number;
  readonly packs: number;
  readonly freedBytes: number;
  readonly durationMs: number;
}

export const applyDefaults = {
  batchBytes: 32 * 1024 * 1024,
  collectBytes: 128 * 1024 * 1024,
  pauseMs: 20,
} as const;
/** What must stay free on the disk for everybody else's saves. */
const reserveBytes = 64 * 1024 * 1024;
const leaseMs = 60 * 60 * 1000;

/**
 * @param plan made here, or checked by readArchivePlan
 * @throws PLAN_INVALID where it has a kind of edge that cannot be written here; FILE_FAILED, STORE_FAILED
 * where the disk fails: what was committed before stays
 */
export async function applyPlan(
  parts: ApplyParts,
  plan: ArchivePlan,
  options: ApplyOptions = {},
): Promise<ApplyReport> {
  const { target, clock } = parts;
  const startMs = clock.monotonic();
  const live = await target.liveObjects();
  const work = findPendingWork(plan, target.objects, live);
  const ids = [...new Set(plan.plan.vertices.map(({ vertex }) => vertex as Hash))];
  const bytesBefore = storedBytes(target, ids);
  const applier = new Applier(parts, options);
  if (options.dryRun !== true) await applier.run(work.items);
  const { counts } = applier;
  return {
    fleet: plan.fleet,
    dryRun: options.dryRun === true,
    stopped: applier.stopped,
    rewritten: counts.rewritten,
    left:
      work.items.length -
      counts.rewritten -
      applier.notSmaller -
      applier.failed.length -
      applier.stale.length,
    already: work.done,
    notSmaller: applier.notSmaller,
    kept: work.kept,
    unplanned: work.unplanned,
    stale: [...work.stale, ...applier.stale],
    failed: applier.failed,
    bytesBefore,
    bytesPredicted: plan.summary.bytesPlanned,
    bytesReached: storedBytes(target, ids),
    writtenBytes: counts.writtenBytes,
    packs: counts.packs,
    freedBytes: counts.freedBytes,
    durationMs: clock.monotonic() - startMs,
  };
}

/** Bytes of tensors in the copies that are read, with their entries. */
function storedBytes({ objects }: ApplyTarget, ids: readonly Hash[]): number {
  let bytes = 0;
  for (const id of ids) {
    const lies = objects.encodingOf(id);
    const header = objects.stat(id)?.header;
    if (lies !== undefined && header !== undefined) bytes += lies.storedBytes + entryBytes(header, lies);
  }
  return bytes;
}

interface Batch {
  readonly writer: PackWriter;
  readonly ids: Set<Hash>;
  readonly before: Map<Hash, TensorEncoding>;
  readonly leases: string[];
  bytes: number;
}
type Outcome = "written" | "not-smaller" | "deferred";

class Applier {
  readonly counts = { rewritten: 0, writtenBytes: 0, packs: 0, freedBytes: 0 };
  readonly stale: StaleTensor[] = [];
  readonly failed: { readonly tensor: Hash; readonly code: ErrorCode; readonly message: string }[] = [];
  stopped: ApplyReport["stopped"] = null;
  readonly #guard = new ChainGuard(maxChainDepth);
  readonly #endMs: number;
  #batch: Batch | undefined;
  /** Bytes of new copies whose old ones were not collected yet. */
  #uncollected = 0;
  #total = 0;
  readonly #gainless = new Set<ApplyItem>();
  #isForced = false;

  constructor(
    private readonly parts: ApplyParts,
    private readonly options: ApplyOptions,
  ) {
    this.#endMs = parts.clock.monotonic() + (options.timeMs ?? Number.POSITIVE_INFINITY);
    for (const { id, kind } of parts.target.objects.list()) {
      const lies = kind === "tensor" ? parts.target.objects.encodingOf(id) : undefined;
      if (lies !== undefined) this.#guard.set(id, lies);
    }
  }

  get notSmaller(): number {
    return this.#gainless.size;
  }

  async run(items: readonly ApplyItem[]): Promise<void> {
    this.#total = items.length;
    try {
      const waiting = await this.#passes(items);
      // Who gains nothing by itself may be in the way of who does.
      if (waiting.length > 0 && this.#gainless.size > 0 && this.stopped === null) {
        this.#isForced = true;
        await this.#passes([...this.#gainless, ...waiting]);
      }
      await this.#commit();
    } catch (error) {
      await this.#abort();
      if (!isStemmaError(error, "DISK_FULL")) throw error;
      this.stopped = "disk";
    }
    if (this.#uncollected > 0) await this.#collect();
  }

  /**
   * What would make a chain too long for a moment comes again once others have moved. Returns what cannot be
   * done at all.
   */
  async #passes(items: readonly ApplyItem[]): Promise<readonly ApplyItem[]> {
    let waiting = items;
    for (let before = -1; waiting.length > 0 && waiting.length !== before && this.stopped === null;) {
      before = waiting.length;
      waiting = await this.#pass(waiting);
    }
    return waiting;
  }

  /** Returns what is to be tried again. */
  async #pass(items: readonly ApplyItem[]): Promise<readonly ApplyItem[]> {
    const deferred: ApplyItem[] = [];
    for (const item of items) {
      if (!(await this.#mayGoOn())) return [];
      const outcome = await this.#write(item).catch((error: unknown) => this.#note(item, error));
      if (outcome === "deferred") deferred.push(item);
      if (outcome === "not-smaller") this.#gainless.add(item);
      else if (outcome === "written") this.#gainless.delete(item);
      this.options.onProgress?.({
        done: this.counts.rewritten + this.#gainless.size + (this.#batch?.ids.size ?? 0),
        total: this.#total,
        writtenBytes: this.counts.writtenBytes,
        step: "writing",
      });
      await new Promise(setImmediate);
    }
    return deferred;
  }

  async #mayGoOn(): Promise<boolean> {
    const {
      batchBytes = applyDefaults.batchBytes,
      collectBytes = applyDefaults.collectBytes,
      diskBytes = Number.POSITIVE_INFINITY,
      signal,
    } = this.options;
    if (this.#batch !== undefined && this.#batch.bytes >= Math.min(batchBytes, diskBytes))
      await this.#commit();
    if (
      this.#uncollected > 0 &&
      this.#uncollected + (this.#batch?.bytes ?? 0) >= Math.min(collectBytes, diskBytes)
    ) {
      await this.#commit();
      await this.#collect();
    }
    if (signal?.aborted === true) this.stopped = "interrupted";
    else if (this.parts.clock.monotonic() >= this.#endMs) this.stopped = "time";
    else if (
      this.#uncollected >= diskBytes ||
      (this.#batch === undefined && (await this.parts.freeBytes()) < batchBytes + reserveBytes)
    )
      this.stopped = "disk";
    return this.stopped === null;
  }

  /** Damage and what came between concern one tensor; a failing disk concerns all. */
  #note(item: ApplyItem, error: unknown): undefined {
    if (
      !(error instanceof StemmaError) ||
      ["FILE_FAILED", "DISK_FULL", "STORE_FAILED", "INTERNAL"].includes(error.code)
    )
      throw error;
    if (error.code === "REFERENCE_MISSING" || error.code === "OBJECT_MISSING")
      this.stale.push({
        tensor: item.id,
        code: "PLAN_STALE",
        message: "it, or what it was to be coded against, went while the plan was applied",
      });
    else this.failed.push({ tensor: item.id, code: error.code, message: error.message });
    return undefined;
  }

  async #write(item: ApplyItem): Promise<Outcome> {
    const {
      target: { objects },
      coder,
    } = this.parts;
    const { id, base, previous } = item;
    if (!this.#guard.admits(id, { base, previous })) return "deferred";
    const needed = [id, base, previous].filter((one) => one !== undefined);
    const lease = objects.lease(needed, leaseMs);
    let batch: Batch | undefined;
    try {
      if (needed.some((one) => !objects.has(one)))
        throw new StemmaError(
          "OBJECT_MISSING",
          `The tensor ${id} or what it is to be coded against was collected.`,
        );
      const lies = objects.encodingOf(id);
      const tensor = await tensorOfSource(objects.openTensor(id));
      const header = { dtype: tensor.dtype, shape: tensor.shape };
      const load = async (one: Hash | undefined): Promise<typeof tensor | undefined> =>
        one === undefined ? undefined : tensorOfSource(objects.openTensor(one));
      const encoded =
        item.kind === edgeKinds.raw
          ? { code: encodingCodes.raw, bytes: tensor.bytes, against: { base: false, previous: false } }
          : await coder.encode(
              tensor,
              { base: await load(base), previous: await load(previous) },
              encodingOfKind(item.kind),
            );
      const coded: CodedTensor = {
        id,
        header,
        code: encoded.code,
        bytes: encoded.bytes,
        ...(encoded.against.base ? { base } : {}),
        ...(encoded.against.previous ? { previous } : {}),
      };
      if (lies !== undefined && !this.#isForced && isNotWorthwhile(lies, coded, item, this.#guard))
        return "not-smaller";
      batch = await this.#put(coded, lies);
      return "written";
    } finally {
      if (batch === undefined) objects.release(lease.id);
      else batch.leases.push(lease.id);
    }
  }

  async #put(coded: CodedTensor, lies: TensorEncoding | undefined): Promise<Batch> {
    const batch = (this.#batch ??= {
      writer: await this.parts.target.objects.begin({ recode: true }),
      ids: new Set(),
      before: new Map(),
      leases: [],
      bytes: 0,
    });
    await batch.writer.putCoded(coded);
    if (lies !== undefined) batch.before.set(coded.id, lies);
    batch.ids.add(coded.id);
    batch.bytes += coded.bytes.length + entryBytes(coded.header, coded);
    this.#guard.set(coded.id, coded);
    return batch;
  }

  async #commit(): Promise<void> {
    const batch = this.#batch;
    if (batch === undefined) return;
    const { bytes } = await batch.writer.commit();
    this.#batch = undefined;
    for (const lease of batch.leases) this.parts.target.objects.release(lease);
    this.counts.rewritten += batch.ids.size;
    this.counts.writtenBytes += bytes;
    this.counts.packs++;
    this.#uncollected += bytes;
    const { pauseMs = applyDefaults.pauseMs } = this.options;
    if (pauseMs > 0)
      await new Promise<void>((resolve) => {
        this.parts.clock.after(pauseMs, resolve);
      });
  }

  async #abort(): Promise<void> {
    const batch = this.#batch;
    if (batch === undefined) return;
    this.#batch = undefined;
    await batch.writer.abort();
    for (const lease of batch.leases) this.parts.target.objects.release(lease);
    for (const [id, lies] of batch.before) this.#guard.set(id, lies);
  }

  /**
   * Drops superseded copies. What cannot be collected now is collected later; then its bytes count against
   * the disk's budget.
   */
  async #collect(): Promise<void> {
    const { target } = this.parts;
    this.options.onProgress?.({
      done: this.counts.rewritten + this.#gainless.size,
      total: this.#total,
      writtenBytes: this.counts.writtenBytes,
      step: "collecting",
    });
    for (let attempt = 0; attempt < 3; attempt++) {
      try {
        const { freedBytes } = await target.collect(await target.planCollection());
        this.counts.freedBytes += freedBytes;
        this.#uncollected = 0;
        return;
      } catch (error) {
        if (isStemmaError(error, "COLLECTION_REFUSED") || isStemmaError(error, "DISK_FULL")) return;
        if (!isStemmaError(error, "PLAN_STALE")) throw error;
      }
    }
  }
}

/** A tensor is written anew to be smaller, or to be rebuilt from fewer others, or in another layout. */
function isNotWorthwhile(
  lies: TensorEncoding,
  coded: CodedTensor,
  { kind, id }: ApplyItem,
  guard: ChainGuard,
): boolean {
  if (
    kind === edgeKinds.raw ||
    (encodingOfKind(kind) === "packed" ? lies.code === encodingCodes.fixedPlanes : lies.code !== coded.code)
  )
    return false;
  const depth = [coded.base, coded.previous].reduce(
    (most, source) => (source === undefined ? most : Math.max(most, 1 + guard.depth(source))),
    0,
  );
  return (
    depth >= guard.depth(id) &&
    coded.bytes.length + entryBytes(coded.header, coded) >= lies.storedBytes + entryBytes(coded.header, lies)
  );
}
