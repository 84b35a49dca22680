/** Carries out a storage plan: writes tensors anew in packs, and collects what they supersede. */
import { listReferences, mapLinks, neededLinks } from "../../../shared/delta/links.js";
import { encodingCodes } from "../../../shared/delta/encoded.js";
import { StemmaError, isStemmaError, type ErrorCode } from "../../../shared/errors.js";
import {
  maxChainDepth,
  type CodedTensor,
  type PackWriter,
  type TensorEncoding,
} from "../../../shared/objects/object-store.js";
import { tensorOfSource, type Hash, type Tensor } from "../../../shared/tensor/tensor.js";
import { applyDefaults, type ApplyOptions, type ApplyParts, type ApplyReport } from "./plan-application.js";
import { ChainGuard } from "./chain-guard.js";
import type { HeldGroup } from "./held-groups.js";
import { edgeKinds, entryBytes } from "./edge-costs.js";
import { encodingOfKind, type ApplyItem, type StaleTensor } from "./pending-work.js";

/** Bytes that must stay free on the disk for other saves. */
const reserveBytes = 64 * 1024 * 1024;
const leaseMs = 60 * 60 * 1000;
/** A collection's plan is stale where versions were recorded meanwhile; a new one is made then. */
const maxCollectAttempts = 3;

/** Tensors that are written into one pack. */
interface Batch {
  readonly writer: PackWriter;
  readonly ids: Set<Hash>;
  readonly before: Map<Hash, TensorEncoding>;
  readonly leases: string[];
  bytes: number;
}
type Outcome = "written" | "not-smaller" | "deferred";

/**
 * Carries out the pending work of one application. Tensors are written one by one into a batch, and each
 * batch is committed as one pack. Superseded copies are collected in between.
 */
export class PlanApplier {
  /** The work done so far; `rewrittenTensors` and `packs` count committed ones. */
  readonly totals = { rewrittenTensors: 0, writtenBytes: 0, packs: 0, freedBytes: 0 };
  readonly stale: StaleTensor[] = [];
  readonly failed: { readonly tensor: Hash; readonly code: ErrorCode; readonly message: string }[] = [];
  stopped: ApplyReport["stopped"] = null;
  readonly #guard = new ChainGuard(maxChainDepth);
  readonly #endMs: number;
  #batch: Batch | undefined;
  /** Bytes of new copies whose superseded copies were not collected yet. */
  #uncollectedBytes = 0;
  #itemCount = 0;
  /** Items that would not become smaller or faster to read if they were rewritten alone. */
  readonly #gainless = new Set<ApplyItem>();
  /** True if items are written although they gain nothing. */
  #isForced = false;
  /** Items that are written whatever they gain: all of them together free tensors of more bytes than they add. */
  #releasing: ReadonlySet<ApplyItem> = new Set();
  /** Bytes that the other rewritten tensors take more than before; negative where they take less. */
  #grownBytes = 0;

  constructor(
    private readonly parts: ApplyParts,
    private readonly options: ApplyOptions,
    /** Tensors that are freed once nothing is encoded against them, for a store that must not grow. */
    private readonly heldGroups?: readonly HeldGroup[],
  ) {
    this.#endMs = parts.clock.monotonic() + (options.timeMs ?? Number.POSITIVE_INFINITY);
    for (const { id, kind } of parts.target.objects.list()) {
      const encoding = kind === "tensor" ? parts.target.objects.encodingOf(id) : undefined;
      if (encoding !== undefined) this.#guard.set(id, encoding);
    }
  }

  get notSmallerCount(): number {
    return this.#gainless.size;
  }
  get #isGrowthBounded(): boolean {
    return this.heldGroups !== undefined;
  }

  async run(items: readonly ApplyItem[]): Promise<void> {
    this.#itemCount = items.length;
    try {
      this.#releasing = await this.#findReleasing(items);
      let deferred = await this.#writeAll(items);
      // While an item that gains nothing is not rewritten, the chain guard may refuse another item that
      // gains.
      if (deferred.length > 0 && this.#gainless.size > 0 && this.stopped === null) {
        this.#isForced = true;
        deferred = await this.#writeAll([...this.#gainless, ...deferred]);
      }
      // What is left needs bytes that nothing saved: it stays as it is.
      if (this.#isGrowthBounded && this.stopped === null)
        for (const item of deferred) this.#gainless.add(item);
      await this.#commit();
    } catch (error) {
      await this.#abort();
      if (!isStemmaError(error, "DISK_FULL")) throw error;
      this.stopped = "disk";
    }
    if (this.#uncollectedBytes > 0) await this.#collect();
  }

  /**
   * The dependants of each group of held tensors, where the plan rewrites all of them and they add no more bytes
   * than the group has. They are encoded here once more, since sizes in a plan are estimates.
   */
  async #findReleasing(items: readonly ApplyItem[]): Promise<ReadonlySet<ApplyItem>> {
    const releasing = new Set<ApplyItem>();
    const byId = new Map(items.map((item) => [item.id, item]));
    for (const { tensors: held, bytes, dependants } of this.heldGroups ?? []) {
      const group = dependants.map((id) => byId.get(id));
      const rewritten = group.filter(
        (item) => item !== undefined && !listReferences(item).some((reference) => held.has(reference)),
      ) as readonly ApplyItem[];
      if (rewritten.length < group.length) continue;
      let growth = 0;
      for (const item of rewritten) {
        if (!(await this.#canContinue())) return releasing;
        growth += await this.#growthOf(item);
        if (growth > bytes) break;
        await new Promise(setImmediate);
      }
      if (growth <= bytes) for (const item of rewritten) releasing.add(item);
    }
    return releasing;
  }

  /** Infinity where the tensor cannot be encoded; writing it reports why. */
  async #growthOf(item: ApplyItem): Promise<number> {
    try {
      return growthOf(this.parts.target.objects.encodingOf(item.id), await this.#encode(item));
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      return Number.POSITIVE_INFINITY;
    }
  }

  /**
   * Writes the items in passes: an item that would make a chain too long is tried again after others have
   * been written. Returns the items that no pass could write.
   */
  async #writeAll(items: readonly ApplyItem[]): Promise<readonly ApplyItem[]> {
    let deferred = items;
    let previousCount = -1;
    while (deferred.length > 0 && deferred.length !== previousCount && this.stopped === null) {
      previousCount = deferred.length;
      deferred = await this.#writePass(deferred);
    }
    return deferred;
  }

  /** Returns the items to try again. */
  async #writePass(items: readonly ApplyItem[]): Promise<readonly ApplyItem[]> {
    const deferred: ApplyItem[] = [];
    for (const item of items) {
      if (!(await this.#canContinue())) return [];
      const outcome = await this.#write(item).catch((error: unknown) => this.#noteFailure(item, error));
      if (outcome === "deferred") deferred.push(item);
      if (outcome === "not-smaller") this.#gainless.add(item);
      else if (outcome === "written") this.#gainless.delete(item);
      this.options.onProgress?.({
        done: this.totals.rewrittenTensors + this.#gainless.size + (this.#batch?.ids.size ?? 0),
        total: this.#itemCount,
        writtenBytes: this.totals.writtenBytes,
        step: "writing",
      });
      await new Promise(setImmediate);
    }
    return deferred;
  }

  async #canContinue(): Promise<boolean> {
    const {
      batchBytes = applyDefaults.batchBytes,
      collectBytes = applyDefaults.collectBytes,
      diskBytes = Number.POSITIVE_INFINITY,
      signal,
    } = this.options;
    if (this.#batch !== undefined && this.#batch.bytes >= Math.min(batchBytes, diskBytes))
      await this.#commit();
    if (
      this.#uncollectedBytes > 0 &&
      this.#uncollectedBytes + (this.#batch?.bytes ?? 0) >= Math.min(collectBytes, diskBytes)
    ) {
      await this.#commit();
      await this.#collect();
    }
    if (signal?.aborted === true) this.stopped = "interrupted";
    else if (this.parts.clock.monotonic() >= this.#endMs) this.stopped = "time";
    else if (
      this.#uncollectedBytes >= diskBytes ||
      (this.#batch === undefined && (await this.parts.freeBytes()) < batchBytes + reserveBytes)
    )
      this.stopped = "disk";
    return this.stopped === null;
  }

  /**
   * Notes damage or a concurrent change, which concern one tensor only.
   * @throws the error where it concerns all tensors, such as a failing disk
   */
  #noteFailure(item: ApplyItem, error: unknown): undefined {
    if (
      !isStemmaError(error) ||
      ["FILE_FAILED", "DISK_FULL", "STORE_FAILED", "INTERNAL"].includes(error.code)
    )
      throw error;
    if (error.code === "REFERENCE_MISSING" || error.code === "OBJECT_MISSING")
      this.stale.push({
        tensor: item.id,
        code: "PLAN_STALE",
        message:
          "the tensor, or one that it was to be encoded against, was collected while the plan was applied",
      });
    else this.failed.push({ tensor: item.id, code: error.code, message: error.message });
    return undefined;
  }

  async #write(item: ApplyItem): Promise<Outcome> {
    const { objects } = this.parts.target;
    const { id } = item;
    if (!this.#guard.admits(id, item)) return "deferred";
    const needed = [id, ...listReferences(item)];
    const lease = objects.lease(needed, leaseMs);
    let batch: Batch | undefined;
    try {
      if (needed.some((object) => !objects.has(object)))
        throw new StemmaError(
          "OBJECT_MISSING",
          `The tensor ${id}, or one that it is to be encoded against, was collected. Make a new plan.`,
        );
      const current = objects.encodingOf(id);
      const coded = await this.#encode(item);
      const isReleasing = this.#releasing.has(item);
      const isForced = this.#isForced || isReleasing;
      if (current !== undefined && !isForced && !isWorthRewriting(current, coded, item, this.#guard))
        return "not-smaller";
      const growth = isReleasing ? 0 : growthOf(current, coded);
      if (growth > 0 && this.#isGrowthBounded && this.#grownBytes + growth > 0) return "deferred";
      batch = await this.#put(coded, current);
      this.#grownBytes += growth;
      return "written";
    } finally {
      if (batch === undefined) objects.release(lease.id);
      else batch.leases.push(lease.id);
    }
  }

  /** Encodes the tensor as planned. The encoder may use fewer references than it is offered. */
  async #encode({ id, kind, ...links }: ApplyItem): Promise<CodedTensor> {
    const load = async (source: Hash): Promise<Tensor> =>
      tensorOfSource(this.parts.target.objects.openTensor(source));
    const tensor = await load(id);
    const header = { dtype: tensor.dtype, shape: tensor.shape };
    if (kind === edgeKinds.raw) return { id, header, code: encodingCodes.raw, bytes: tensor.bytes };
    const references = await mapLinks(links, load);
    const { code, bytes, against } = await this.parts.coder.encode(tensor, references, {
      layout: encodingOfKind(kind),
      lowRank: kind === edgeKinds.lowRank,
    });
    return { id, header, code, bytes, ...neededLinks(links, against) };
  }

  async #put(coded: CodedTensor, current: TensorEncoding | undefined): Promise<Batch> {
    const batch = (this.#batch ??= {
      writer: await this.parts.target.objects.begin({ recode: true }),
      ids: new Set(),
      before: new Map(),
      leases: [],
      bytes: 0,
    });
    await batch.writer.putCoded(coded);
    if (current !== undefined) batch.before.set(coded.id, current);
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
    this.totals.rewrittenTensors += batch.ids.size;
    this.totals.writtenBytes += bytes;
    this.totals.packs++;
    this.#uncollectedBytes += bytes;
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
    for (const [id, encoding] of batch.before) this.#guard.set(id, encoding);
  }

  /**
   * Drops superseded copies. Where the collection is refused, their bytes stay on the disk, and count against
   * `diskBytes`, until a later collection.
   */
  async #collect(): Promise<void> {
    const { target } = this.parts;
    this.options.onProgress?.({
      done: this.totals.rewrittenTensors + this.#gainless.size,
      total: this.#itemCount,
      writtenBytes: this.totals.writtenBytes,
      step: "collecting",
    });
    for (let attempt = 0; attempt < maxCollectAttempts; attempt++) {
      try {
        const { freedBytes } = await target.collect(await target.planCollection());
        this.totals.freedBytes += freedBytes;
        this.#uncollectedBytes = 0;
        return;
      } catch (error) {
        if (isStemmaError(error, "COLLECTION_REFUSED") || isStemmaError(error, "DISK_FULL")) return;
        if (!isStemmaError(error, "PLAN_STALE")) throw error;
      }
    }
  }
}

/** Bytes that a tensor takes more once it is rewritten; negative where it takes less. */
function growthOf(current: TensorEncoding | undefined, coded: CodedTensor): number {
  const newBytes = coded.bytes.length + entryBytes(coded.header, coded);
  return current === undefined
    ? newBytes
    : newBytes - current.storedBytes - entryBytes(coded.header, current);
}

/** True if rewriting makes the tensor smaller, shortens its chain, or gives it another encoding. */
function isWorthRewriting(
  current: TensorEncoding,
  coded: CodedTensor,
  { kind, id }: ApplyItem,
  guard: ChainGuard,
): boolean {
  if (kind === edgeKinds.raw) return true;
  const isOtherEncoding =
    encodingOfKind(kind) === "packed"
      ? current.code === encodingCodes.fixedPlanes ||
        (current.code === encodingCodes.lowRank && kind !== edgeKinds.lowRank)
      : current.code !== coded.code;
  if (isOtherEncoding) return true;
  const sources = listReferences(coded);
  const depth = Math.max(0, ...sources.map((source) => 1 + guard.depth(source)));
  return depth < guard.depth(id) || growthOf(current, coded) < 0;
}
