/**
 * Receives the upload of one announced version: requests what is missing, receives it, writes one pack,
 * records the version. Resumes from the spool that an earlier session or server process left. needs.ts
 * decides what to request next; the transfer's receiver decides which blocks to request.
 */
import { messageOf } from "../../../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import type { LeafTable } from "../../../../shared/model/model.js";
import type { Lease } from "../../../../shared/objects/object-store.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { HeldVersion } from "../../../../shared/wire/coding/references.js";
import type { Block, Encoding, ManifestPart, ObjectRef } from "../../../../shared/wire/messages.js";
import { requireLayoutOfBase } from "./announced-layout.js";
import { AnnouncedObjects } from "./announced-objects.js";
import type { Accepted } from "./announcement.js";
import { isMalformedCoding, isReferenceLost } from "./coded-tensors.js";
import { writeUpload } from "./commit-upload.js";
import { claimedBy } from "./claims.js";
import type { IncomingUploadOptions, IncomingUploadParts } from "./incoming-upload-parts.js";
import { provenBy, tensorsOf, type Proven } from "../downloads/held-versions.js";
import { refusalOf, type IncomingUploadEnd } from "./incoming-upload-end.js";
import { announcementBytes, manifestBytes } from "./message-bytes.js";
import { needsOf, reliedOn, type BaseState, type Needs } from "./needs.js";
import { resumeTransfer } from "./saved-transfer.js";
import { UploadTransfer, type TransferProgress } from "./upload-transfer.js";
import { wantMessages, type TransferRequest } from "./want-messages.js";

type Received = "complete" | "interrupted" | "restart";

/**
 * Max restarts of a transfer in one upload. It restarts where the device sends another stream than before.
 */
const maxRestarts = 3;

export class IncomingUpload {
  readonly startedAtMs: number;
  readonly device: string;
  readonly accepted: Accepted;
  /** Bytes received over the wire for this version, including interrupted attempts that were resumed. */
  wireBytes: number;
  readonly #withoutBase: boolean;
  #rawOnly: boolean;
  /** Small objects that were received and are not in the store yet. */
  readonly #objects: AnnouncedObjects;
  readonly #predecessor: Hash | undefined;
  /** The versions and objects that the device provably had when the upload began. */
  #proven: Proven = { objects: new Set(), versions: [], optimizer: undefined };
  #lease: Lease | undefined;
  #transfer: UploadTransfer | undefined;
  #interrupt: (() => void) | undefined;
  #interrupted = false;
  #restarts = 0;
  /** True if the last complete transfer was coded. */
  #isCoded = false;
  /** True if a replay is to give the tensors; undefined until that is decided. */
  #isClaim: boolean | undefined;

  constructor(
    options: IncomingUploadOptions,
    private readonly parts: IncomingUploadParts,
  ) {
    this.device = options.device;
    this.accepted = options.accepted;
    this.#predecessor = options.predecessor;
    this.#withoutBase = options.withoutBase;
    this.#rawOnly = options.rawOnly;
    this.startedAtMs = parts.clock.monotonic();
    this.wireBytes = announcementBytes(options.accepted);
    this.#objects = new AnnouncedObjects(options.accepted, parts.limits);
  }

  get versionId(): Hash {
    return this.accepted.versionId;
  }
  get isInterrupted(): boolean {
    return this.#interrupted;
  }
  /** Id of the transfer under way. */
  get transfer(): string | undefined {
    return this.#transfer?.id;
  }

  onManifest(part: ManifestPart): void {
    this.wireBytes += manifestBytes(part);
    this.#transfer?.receiver.onManifest(part);
  }
  onBlock(block: Block): void {
    this.wireBytes += block.data.length;
    this.#transfer?.receiver.onBlock(block);
  }

  /** The device announced again in the same session: it may have missed what was requested. */
  async repeat(): Promise<void> {
    const transfer = this.#transfer;
    if (transfer === undefined) return;
    await this.#sendWant(transfer.request, transfer.receiver.machine.progress.byteLength);
    transfer.receiver.reconnected();
  }

  /**
   * The device is gone: the transfer ends and its blocks are kept. Steps after the transfer run to their end.
   */
  interrupt(): void {
    this.#interrupted = true;
    this.#interrupt?.();
  }

  /** Runs the upload to its end. Never rejects for a reason that a device can cause. */
  async run(): Promise<IncomingUploadEnd> {
    try {
      const { repository } = this.parts;
      const proven = await provenBy(repository, this.accepted.record, this.#predecessor);
      const objects = new Set([...proven.objects, ...claimedBy(repository, this.accepted)]);
      this.#proven = { ...proven, objects };
      for (;;) {
        const end = this.#interrupted ? ({ end: "interrupted" } as const) : await this.#step();
        if (end !== undefined) return end;
      }
    } catch (error) {
      // Raw tensors need no storage tier.
      const needsTier = isStemmaError(error, "TIER_UNREACHABLE");
      const isUselessCoding = this.#isCoded && (isMalformedCoding(error) || needsTier);
      // If it were kept, the spool would be resumed and be useless again.
      if (isUselessCoding || isStemmaError(error, "TRANSFER_MANIFEST_INVALID")) await this.#dropTransfer();
      return refusalOf(error, isUselessCoding);
    } finally {
      await this.#release();
    }
  }

  /** Performs the next step; undefined while more is needed. */
  async #step(): Promise<IncomingUploadEnd | undefined> {
    const trees = await this.#trees();
    this.#renewLease(trees);
    await this.#decideClaim(trees);
    const needs = this.#needs(trees);
    switch (needs.step) {
      case "bases":
        return { end: "bases", bases: needs.bases };
      case "refuse":
        return { end: "refused", error: new StemmaError(needs.code, needs.message) };
      case "commit":
        return await this.#commit(trees ?? [], undefined);
      case "objects": {
        const received = await this.#receive("objects", needs.objects, []);
        return received === "interrupted" ? { end: "interrupted" } : undefined;
      }
      case "tensors": {
        const reason = this.#rawOnly ? "raw" : needs.reason;
        const received = await this.#receive(reason, needs.objects, needs.indices);
        if (received === "interrupted") return { end: "interrupted" };
        if (received === "restart") return undefined;
        return await this.#commitOrWantRaw(trees ?? [], this.#transfer);
      }
    }
  }

  /** A claim is judged once all small objects are here. */
  async #decideClaim(trees: readonly LeafTable[] | undefined): Promise<void> {
    if (this.#isClaim !== undefined || trees === undefined) return;
    const { device } = this;
    const { record, isClaim } = this.accepted;
    if (!["tensors", "commit"].includes(this.#needs(trees).step)) return;
    const { provenance, openings, architecture } = record.objects;
    const offer = {
      device,
      record,
      provenance: this.#objects.bytes(provenance),
      openings: this.#objects.bytes(openings),
      architecture: this.#objects.bytes(architecture),
    };
    this.#isClaim = isClaim && (await this.parts.claims.isTaken(offer));
  }

  #needs(trees: readonly LeafTable[] | undefined): Needs {
    const { repository, limits } = this.parts;
    const base = (versionId: Hash): BaseState => {
      const known = repository.get(versionId);
      if (known === undefined) return repository.claim(versionId) === undefined ? "unknown" : "known";
      return known.state === "retired" ? "retired" : "known";
    };
    const view = {
      record: this.accepted.record,
      trees,
      withoutBase: this.#withoutBase,
      isClaim: this.#isClaim === true,
      base,
      isProven: (id: Hash) => this.#isProven(id),
      isHeld: (id: Hash) => this.#objects.has(id),
    };
    return needsOf(view, this.accepted.declared, limits);
  }

  #isProven(id: Hash): boolean {
    return this.#proven.objects.has(id) && this.parts.repository.objects.has(id);
  }
  #trees(): Promise<readonly LeafTable[] | undefined> {
    return this.#objects.trees(this.parts.repository.objects, (id) => this.#isProven(id));
  }

  /** Leases everything that the server's answer relies on, before the answer is sent (EV2). */
  #renewLease(trees: readonly LeafTable[] | undefined, held: readonly HeldVersion[] = []): void {
    const { objects } = this.parts.repository;
    const before = this.#lease;
    const ids = [...reliedOn(this.accepted.record, trees), ...tensorsOf(held)];
    this.#lease = objects.lease(ids, this.parts.limits.leaseMs);
    if (before !== undefined) objects.release(before.id);
  }

  /**
   * Requests objects and waits until all have arrived: small ones in memory, others in the spool. Returns
   * `restart` where the device now sends another stream than the one it had begun.
   */
  async #receive(
    reason: TransferRequest["reason"],
    objects: readonly ObjectRef[],
    indices: readonly number[],
  ): Promise<Received> {
    const transfer = await this.#startTransfer(reason, objects, indices);
    const { receiver } = transfer;
    const interrupted = new Promise<"interrupted">((resolve) => {
      this.#interrupt = () => resolve("interrupted");
    });
    if (this.#interrupted) this.#interrupt?.();
    let encodings: readonly Encoding[] | "interrupted";
    try {
      encodings = await Promise.race([receiver.finished, interrupted]);
    } catch (error) {
      const isOtherStream =
        isStemmaError(error, "TRANSFER_MANIFEST_INVALID") &&
        receiver.machine.progress.blocks !== undefined &&
        reason !== "objects";
      if (!isOtherStream || ++this.#restarts > maxRestarts) throw error;
      this.parts.log.info("transfer-begun-anew", {
        device: this.device,
        versionId: this.versionId,
        message: error.message,
      });
      await this.#dropTransfer();
      return "restart";
    }
    if (encodings === "interrupted") return encodings;
    if (reason === "objects") {
      await this.#objects.take(transfer, encodings);
      await this.#dropTransfer();
    }
    this.#isCoded = encodings.some(({ code }) => code !== 0);
    transfer.encodings = encodings;
    await this.parts.sender.send(this.device, { type: "transferDone", transfer: transfer.id });
    return "complete";
  }

  /** Starts a transfer, or resumes the one that was interrupted. */
  async #startTransfer(
    reason: TransferRequest["reason"],
    missing: readonly ObjectRef[],
    missingIndices: readonly number[],
  ): Promise<UploadTransfer> {
    const { repository, spools, limits, random } = this.parts;
    const { versionId } = this;
    const trees = (await this.#trees()) ?? [];
    const resumed =
      reason === "objects"
        ? undefined
        : await resumeTransfer({
            repository,
            spools,
            limits,
            versionId,
            device: this.device,
            leaves: trees.flat(),
            missing,
            generation: this.accepted.generation,
            rawOnly: this.#rawOnly,
          });
    if (resumed !== undefined && Number.isSafeInteger(resumed.saved.wireBytes))
      this.wireBytes += resumed.saved.wireBytes;
    const { references, optimizer } = resumed ?? this.#referencesFor(reason);
    if (references !== undefined)
      this.#renewLease(trees, optimizer === undefined ? references : [...references, optimizer]);
    const request: TransferRequest = {
      id: resumed?.saved.transfer ?? Buffer.from(random.bytes(16)).toString("hex"),
      reason,
      objects: resumed?.saved.objects ?? missing,
      indices: resumed?.indices ?? missingIndices,
      references,
      optimizer,
      ownReferences: references !== undefined && this.accepted.record.uses?.checkpoints !== undefined,
    };
    this.parts.onWanted({
      reason,
      objects: request.objects.length,
      bytes: request.objects.reduce((sum, { byteLength }) => sum + byteLength, 0),
    });
    // The want is sent before the first request for blocks: a device ignores transfers that it does not know.
    await this.#sendWant(request, resumed?.saved.receiver.shape.byteLength);
    const transfer = new UploadTransfer(request, resumed, {
      ...this.parts,
      device: this.device,
      versionId,
      generation: this.accepted.generation,
      wireBytes: () => this.wireBytes,
      onWritten: (progress) => {
        this.#onWritten(progress);
      },
    });
    this.#transfer = transfer;
    const { id, resumedBytes, totalBytes } = transfer;
    if (resumedBytes > 0)
      this.parts.onProgress({ transfer: id, bytes: resumedBytes, totalBytes, resumedBytes });
    return transfer;
  }

  /** Returns what a new transfer may be coded against; without `references`: raw only. */
  #referencesFor(reason: TransferRequest["reason"]): Pick<TransferRequest, "references" | "optimizer"> {
    if (reason !== "tensors" || !this.parts.limits.coding)
      return { references: undefined, optimizer: undefined };
    const { versions: references, optimizer } = this.#proven;
    const hasOptimizer = this.accepted.record.uses?.optimizer !== undefined;
    return { references, optimizer: hasOptimizer ? optimizer : undefined };
  }

  #onWritten(progress: TransferProgress): void {
    this.parts.onProgress(progress);
    if (this.#lease !== undefined)
      this.parts.repository.objects.renew(this.#lease.id, this.parts.limits.leaseMs);
  }

  async #sendWant(request: TransferRequest, streamBytes: number | undefined): Promise<void> {
    const { blockBytes } = this.parts.limits;
    for (const want of wantMessages(this.versionId, request, { blockBytes, streamBytes }))
      await this.parts.sender.send(this.device, want);
  }

  /** Writes one pack, then appends the fact, so that whatever is acknowledged afterwards is on disk. */
  async #commit(
    trees: readonly LeafTable[],
    transfer: UploadTransfer | undefined,
  ): Promise<IncomingUploadEnd> {
    const { repository } = this.parts;
    const { record, recordBytes, generation } = this.accepted;
    await requireLayoutOfBase(repository, record, trees[0] ?? [], (id) => this.#objects.bytes(id));
    let writtenBytes: number | undefined;
    try {
      const objects = this.#objects.values();
      writtenBytes = await writeUpload(repository.objects, {
        recordBytes,
        objects,
        leaves: trees.flat(),
        transfer,
      });
    } catch (error) {
      // Bytes with another hash or size than announced are of no use for a next attempt.
      if (isStemmaError(error, "OBJECT_HASH_MISMATCH") || isStemmaError(error, "TENSOR_SIZE_MISMATCH"))
        await this.#dropTransfer();
      throw error;
    }
    const recorded =
      this.#isClaim === true
        ? await repository.recordClaim(recordBytes, { generation, writtenBytes })
        : await repository.record(recordBytes, { generation, writtenBytes });
    await this.#dropTransfer();
    return "state" in recorded ? { end: "recorded", summary: recorded } : { end: "claimed", claim: recorded };
  }

  /**
   * Commits the upload. Returns undefined where a tensor that the stream was coded against is gone or cannot
   * be read; the same tensors are then requested raw.
   */
  async #commitOrWantRaw(
    trees: readonly LeafTable[],
    transfer: UploadTransfer | undefined,
  ): Promise<IncomingUploadEnd | undefined> {
    try {
      return await this.#commit(trees, transfer);
    } catch (error) {
      if (!this.#isCoded || this.#rawOnly || !isReferenceLost(error)) throw error;
      this.parts.log.warn("coded-transfer-not-decodable", {
        device: this.device,
        versionId: this.versionId,
        code: isStemmaError(error) ? error.code : undefined,
        message: messageOf(error),
      });
      this.#rawOnly = true;
      await this.#dropTransfer();
      return undefined;
    }
  }

  async #dropTransfer(): Promise<void> {
    const transfer = this.#transfer;
    this.#transfer = undefined;
    await transfer?.remove();
  }

  async #release(): Promise<void> {
    const transfer = this.#transfer;
    this.#transfer = undefined;
    await transfer?.close();
    if (this.#lease !== undefined) this.parts.repository.objects.release(this.#lease.id);
    this.#lease = undefined;
  }
}
