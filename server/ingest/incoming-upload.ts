/**
 * One announced version on its way in: asks for what is lacking, receives it, writes one pack,
 * records it. Resumes from the spool where an earlier session or server left one. Decides nothing
 * itself: needs.ts says what is next, the transfer machine what to ask for.
 */
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { StemmaError, isStemmaError } from "../../shared/errors.js";
import type { Clock, Log, Random } from "../../shared/ports.js";
import type { LeafTable } from "../../shared/model/model.js";
import type { Lease, PackWriter } from "../../shared/objects/object-store.js";
import type { Hash, TensorHeader } from "../../shared/tensor/tensor.js";
import { maxBlockBytes, maxListLength } from "../../shared/wire/limits.js";
import {
  checkEncoding,
  codecFormat,
  maxEncodedBytes,
  rawOnly,
  type AllowedCoding,
} from "../../shared/wire/coding/encodings.js";
import type { HeldVersion } from "../../shared/wire/coding/references.js";
import { openTensorCoder } from "../../shared/wire/coding/tensor-coder.js";
import type { Block, Encoding, ManifestPart, ObjectRef, WantReason } from "../../shared/wire/messages.js";
import type { ReceiverState } from "../../shared/wire/transfer/receiver.js";
import { runReceiver, type RunningReceiver } from "../../shared/wire/transfer/run-receiver.js";
import { objectsOfStream, type ReadRange } from "../../shared/wire/transfer/stream.js";
import type { WindowBudget } from "../../shared/wire/transfer/window-budget.js";
import type { FleetRepository, VersionSummary } from "../repository/fleet-repository.js";
import { leavesOf, type Accepted, type HeldObject } from "./announcement.js";
import { isMalformedCoding, isReferenceLost, putReceivedTensors } from "./coded-tensors.js";
import { heldVersion, heldVersionsFor, tensorsOf } from "./held-versions.js";
import type { IngestLimits } from "./limits.js";
import { needsOf, reliedOn, type BaseState, type Needs } from "./needs.js";
import { refusalOf, type IncomingUploadEnd } from "./incoming-upload-end.js";
import type { Spool, SpoolFolder } from "./spool.js";
import type { DeviceSender } from "./device-sender.js";

export interface IncomingUploadParts {
  readonly repository: Pick<FleetRepository, "objects" | "get" | "record" | "wasAssigned">;
  readonly spools: SpoolFolder;
  readonly budget: WindowBudget;
  readonly voice: DeviceSender;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly limits: IngestLimits;
  /** Told as it goes, for whoever watches. */
  wanted(reception: IncomingUpload, reason: WantReason, objects: number, bytes: number): void;
  moved(
    reception: IncomingUpload,
    transfer: string,
    bytes: number,
    totalBytes: number,
    resumedBytes: number,
  ): void;
}

/** What lies in a spool's state file. Format 2 may be coded against these versions; 1 is raw. */
interface SavedTransfer {
  readonly format: 1 | 2;
  readonly transfer: string;
  /** What came over the wire for it so far. */ readonly wireBytes: number;
  readonly objects: readonly ObjectRef[];
  readonly receiver: ReceiverState;
  readonly references?: readonly Hash[];
}

interface Asked {
  readonly id: string;
  readonly reason: WantReason;
  readonly objects: readonly ObjectRef[];
  readonly indices: readonly number[];
  /** Versions that it may be coded against; undefined: raw only. */ readonly held:
    readonly HeldVersion[] | undefined;
}
interface Transfer extends Asked {
  readonly receiver: RunningReceiver;
  spool: Spool | undefined;
  encodings: readonly Encoding[];
}
interface ResumedTransfer {
  readonly spool: Spool;
  readonly saved: SavedTransfer;
  readonly indices: readonly number[];
  readonly held: readonly HeldVersion[] | undefined;
}
type Received = "complete" | "interrupted" | "again";

/**
 * Transfers begun anew in one reception because the device's stream was another than the one it had begun.
 */
const mostBegun = 3;
/**
 * How long after a block at the latest its place is saved; what came later is sent again after a kill of the
 * server.
 */
const stateDelayMs = 200;

export class IncomingUpload {
  readonly startedAtMs: number;
  /** Bytes that came over the wire for this version, interrupted tries that went on included. */
  wireBytes: number;
  #objects: Map<Hash, HeldObject>;
  #lease: Lease | undefined;
  #transfer: Transfer | undefined;
  #cancelSave: (() => void) | undefined;
  readonly #stateSaves = new SerialQueue();
  #interrupt: (() => void) | undefined;
  #interrupted = false;
  #begun = 0;
  /** Whether the last transfer that came whole was coded. */
  #isCoded = false;

  /** @param rawOnly a coded transfer of this version was of no use: it is asked for raw */
  constructor(
    readonly device: string,
    readonly accepted: Accepted,
    readonly withoutBase: boolean,
    private rawOnly: boolean,
    private readonly parts: IncomingUploadParts,
  ) {
    this.startedAtMs = parts.clock.monotonic();
    this.wireBytes =
      accepted.recordBytes.length +
      [...accepted.objects.values()].reduce((sum, { bytes }) => sum + bytes.length, 0);
    this.#objects = new Map(accepted.objects);
  }

  get versionId(): Hash {
    return this.accepted.versionId;
  }
  get isInterrupted(): boolean {
    return this.#interrupted;
  }
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

  /** The device announced again in the same session: it may have missed what was asked. */
  async repeat(): Promise<void> {
    const transfer = this.#transfer;
    if (transfer === undefined) return;
    await this.#sayWant(transfer, transfer.receiver.machine.progress.byteLength);
    transfer.receiver.reconnected();
  }

  /**
   * The device is gone: lets go of the transfer, keeps what came. What is past the transfer runs to its end.
   */
  interrupt(): void {
    this.#interrupted = true;
    this.#interrupt?.();
  }

  /** Runs to an end; never rejects for what a device can cause. */
  async run(): Promise<IncomingUploadEnd> {
    try {
      for (;;) {
        if (this.#interrupted) return { end: "interrupted" };
        const leaves = await this.#leaves();
        this.#renewLease(leaves);
        const needs = this.#needs(leaves);
        switch (needs.step) {
          case "bases":
            return { end: "bases", bases: needs.bases };
          case "refuse":
            return { end: "refused", error: new StemmaError(needs.code, needs.message) };
          case "commit":
            return { end: "recorded", summary: await this.#commit(leaves ?? [], undefined) };
          case "objects": {
            if ((await this.#receive("objects", needs.objects, [])) === "interrupted")
              return { end: "interrupted" };
            break;
          }
          case "tensors": {
            const received = await this.#receive(
              this.rawOnly ? "raw" : needs.reason,
              needs.objects,
              needs.indices,
            );
            if (received === "interrupted") return { end: "interrupted" };
            const summary =
              received === "again" ? undefined : await this.#commitOrWantRaw(leaves ?? [], this.#transfer);
            if (summary !== undefined) return { end: "recorded", summary };
          }
        }
      }
    } catch (error) {
      const useless = this.#isCoded && isMalformedCoding(error);
      // Kept, it would be gone on with, and be of no use again.
      if (useless || isStemmaError(error, "TRANSFER_MANIFEST_INVALID")) await this.#dropSpool();
      return refusalOf(error, useless);
    } finally {
      await this.#letGo();
    }
  }

  /**
   * What a stream was coded against went meanwhile, or cannot be read: then the same tensors are asked for
   * raw.
   */
  async #commitOrWantRaw(
    leaves: LeafTable,
    transfer: Transfer | undefined,
  ): Promise<VersionSummary | undefined> {
    try {
      return await this.#commit(leaves, transfer);
    } catch (error) {
      if (!this.#isCoded || this.rawOnly || !isReferenceLost(error)) throw error;
      this.parts.log.warn("coded-transfer-not-decodable", {
        device: this.device,
        versionId: this.versionId,
        code: isStemmaError(error) ? error.code : undefined,
        message: messageOf(error),
      });
      this.rawOnly = true;
      await this.#dropSpool();
      return undefined;
    }
  }

  #needs(leaves: LeafTable | undefined): Needs {
    const { repository, limits } = this.parts;
    const base = (versionId: Hash): BaseState => {
      const known = repository.get(versionId);
      return known === undefined ? "unknown" : known.state === "retired" ? "retired" : "known";
    };
    const view = {
      record: this.accepted.record,
      leaves,
      withoutBase: this.withoutBase,
      base,
      stored: (id: Hash) => repository.objects.has(id),
      inHand: (id: Hash) => this.#objects.has(id),
    };
    return needsOf(view, this.accepted.tensorBytes, limits);
  }

  async #leaves(): Promise<LeafTable | undefined> {
    const { record } = this.accepted;
    const held = this.#objects.get(record.objects.tree)?.bytes;
    if (held !== undefined) return leavesOf(record, held);
    const { objects } = this.parts.repository;
    return objects.has(record.objects.tree)
      ? leavesOf(record, await objects.read("tree", record.objects.tree))
      : undefined;
  }

  /** Pins everything the answer relies on, from before it is given (EV2). */
  #renewLease(leaves: LeafTable | undefined, held: readonly HeldVersion[] = []): void {
    const { objects } = this.parts.repository;
    const before = this.#lease;
    this.#lease = objects.lease(
      [...reliedOn(this.accepted.record, leaves), ...tensorsOf(held)],
      this.parts.limits.leaseMs,
    );
    if (before !== undefined) objects.release(before.id);
  }

  /**
   * Asks for objects and waits until all are here. Small ones are then in hand; tensors in the spool.
   * `again`: the device has another stream now than the one it had begun.
   */
  async #receive(
    reason: "objects" | "tensors" | "raw",
    objects: readonly ObjectRef[],
    indices: readonly number[],
  ): Promise<Received> {
    const resumed = reason === "objects" ? undefined : await this.#resume(objects);
    const refs = resumed?.saved.objects ?? objects;
    if (resumed !== undefined && Number.isSafeInteger(resumed.saved.wireBytes))
      this.wireBytes += resumed.saved.wireBytes;
    const held =
      resumed !== undefined
        ? resumed.held
        : reason === "tensors" && this.parts.limits.coding
          ? await heldVersionsFor(this.parts.repository, this.accepted.record)
          : undefined;
    if (held !== undefined) this.#renewLease(await this.#leaves(), held);
    const rawBytes = refs.reduce((sum, { byteLength }) => sum + byteLength, 0);
    const id = resumed?.saved.transfer ?? Buffer.from(this.parts.random.bytes(16)).toString("hex");
    const asked: Asked = { id, reason, objects: refs, indices: resumed?.indices ?? indices, held };
    this.parts.wanted(this, reason, refs.length, rawBytes);
    // The want goes before the first request for blocks: who does not know a transfer does not answer for it.
    await this.#sayWant(asked, resumed?.saved.receiver.shape.byteLength);
    const receiver = this.#receiver(asked, rawBytes, resumed?.saved.receiver);
    const transfer: Transfer = { ...asked, receiver, spool: resumed?.spool, encodings: [] };
    this.#transfer = transfer;
    this.#resumedBytes = this.#receivedBytes(transfer);
    if (this.#resumedBytes > 0)
      this.parts.moved(
        this,
        id,
        this.#resumedBytes,
        receiver.machine.progress.byteLength ?? rawBytes,
        this.#resumedBytes,
      );
    const gone = new Promise<"interrupted">((resolve) => {
      this.#interrupt = () => resolve("interrupted");
    });
    if (this.#interrupted) this.#interrupt?.();
    let encodings: readonly Encoding[] | "interrupted";
    try {
      encodings = await Promise.race([receiver.finished, gone]);
    } catch (error) {
      if (
        !isStemmaError(error, "TRANSFER_MANIFEST_INVALID") ||
        receiver.machine.progress.blocks === undefined ||
        reason === "objects" ||
        ++this.#begun > mostBegun
      )
        throw error;
      this.parts.log.info("transfer-begun-anew", {
        device: this.device,
        versionId: this.versionId,
        message: error.message,
      });
      await this.#dropSpool();
      return "again";
    }
    if (encodings === "interrupted") return encodings;
    if (reason === "objects") await this.#takeObjects(transfer, encodings);
    this.#isCoded = encodings.some(({ code }) => code !== 0);
    transfer.encodings = encodings;
    await this.parts.voice.say(this.device, { type: "transferDone", transfer: id });
    return "complete";
  }
  #resumedBytes = 0;

  #receiver(
    { id, reason, objects, held }: Asked,
    rawBytes: number,
    state: ReceiverState | undefined,
  ): RunningReceiver {
    const { limits, clock, budget, voice } = this.parts;
    const allowed: AllowedCoding =
      held === undefined ? rawOnly : { codec: codecFormat, tensors: tensorsOf(held) };
    const options = {
      transfer: id,
      objects: objects.length,
      rawBytes,
      maxBytes: reason === "objects" ? limits.maxObjectBytes : maxEncodedBytes(rawBytes),
      maxBlockBytes,
      window: limits.window,
      checkEncoding: (encoding: Encoding, index: number) => {
        checkEncoding(
          encoding,
          index,
          reason === "objects" ? encoding.byteLength : (objects[index]?.byteLength ?? 0),
          allowed,
        );
      },
    };
    return runReceiver(
      options,
      {
        clock,
        budget,
        send: (message) => {
          void voice.say(this.device, message);
        },
        write: (offset, bytes) => this.#write(offset, bytes),
      },
      state,
    );
  }

  async #resume(needed: readonly ObjectRef[]): Promise<ResumedTransfer | undefined> {
    const found = await this.parts.spools.resume(this.versionId, this.parts.limits.maxModelBytes);
    if (found === undefined) return undefined;
    try {
      const saved = JSON.parse(Buffer.from(found.state).toString("utf8")) as SavedTransfer;
      const listed = new Set(saved.objects.map(({ id }) => id));
      const known = saved.format === 1 || (saved.format === 2 && !this.rawOnly);
      // What has come meanwhile by another way is sent all the same; what is needed must be in the old list.
      if (
        known &&
        saved.receiver.shape.byteLength === found.spool.byteLength &&
        needed.every(({ id }) => listed.has(id))
      ) {
        return {
          spool: found.spool,
          saved,
          indices: await this.#indicesOf(saved.objects),
          held: await this.#heldAgain(saved),
        };
      }
    } catch {
      /* an old state that cannot be read costs a transfer */
    }
    await found.spool.remove();
    return undefined;
  }
  /**
   * The versions that an interrupted transfer may have been coded against. @throws REFERENCE_MISSING where
   * one is not whole any more
   */
  async #heldAgain({ references }: SavedTransfer): Promise<readonly HeldVersion[] | undefined> {
    if (references === undefined) return undefined;
    return await Promise.all(
      references.map(async (id) => {
        const version = await heldVersion(this.parts.repository, id);
        if (version === undefined)
          throw new StemmaError(
            "REFERENCE_MISSING",
            `The version ${id} that an interrupted transfer was coded against is not whole here any more.`,
          );
        return version;
      }),
    );
  }

  async #indicesOf(refs: readonly ObjectRef[]): Promise<readonly number[]> {
    const first = new Map<Hash, number>();
    ((await this.#leaves()) ?? []).forEach(({ tensor }, index) => {
      if (!first.has(tensor)) first.set(tensor, index);
    });
    return refs.map(({ id }) => {
      const index = first.get(id);
      if (index === undefined)
        throw new StemmaError(
          "TRANSFER_MANIFEST_INVALID",
          `An interrupted transfer of ${this.versionId} lists a tensor that the version does not have. Announce it again.`,
        );
      return index;
    });
  }

  /** @param streamBytes what the manifest of a transfer that goes on declared */
  async #sayWant(
    { id, reason, objects, indices, held }: Asked,
    streamBytes: number | undefined,
  ): Promise<void> {
    const coding = {
      ...(held !== undefined && { codec: codecFormat, references: held.map(({ versionId }) => versionId) }),
      ...(streamBytes !== undefined && reason !== "objects" && { streamBytes }),
    };
    const common = {
      type: "want" as const,
      reason,
      versionId: this.versionId,
      transfer: id,
      bases: [],
      blockBytes: this.parts.limits.blockBytes,
      ...coding,
    };
    if (reason === "objects") {
      await this.parts.voice.say(this.device, {
        ...common,
        objects,
        part: 0,
        parts: 1,
        more: false,
        tensorIndices: [],
      });
      return;
    }
    // Indices into the version's tree: a few bytes a tensor, so that one word does for 16,000 of them.
    const parts = Math.max(1, Math.ceil(indices.length / maxListLength));
    for (let part = 0; part < parts; part++) {
      await this.parts.voice.say(this.device, {
        ...common,
        objects: [],
        part,
        parts,
        more: part + 1 < parts,
        tensorIndices: indices.slice(part * maxListLength, (part + 1) * maxListLength),
      });
    }
  }

  async #write(offset: number, bytes: Uint8Array): Promise<void> {
    const transfer = this.#transfer;
    if (transfer === undefined) return;
    transfer.spool ??= await this.#openSpool(transfer);
    await transfer.spool.write(offset, bytes);
    const total = transfer.receiver.machine.progress.byteLength ?? 0;
    this.parts.moved(
      this,
      transfer.id,
      Math.min(total, this.#receivedBytes(transfer) + bytes.length),
      total,
      this.#resumedBytes,
    );
    if (this.#lease !== undefined)
      this.parts.repository.objects.renew(this.#lease.id, this.parts.limits.leaseMs);
    this.#cancelSave ??= this.parts.clock.after(stateDelayMs, () => {
      this.#cancelSave = undefined;
      this.#saveState(transfer).catch((error: unknown) => {
        this.parts.log.warn("transfer-state-not-saved", {
          versionId: this.versionId,
          message: messageOf(error),
        });
      });
    });
  }
  #opening: Promise<Spool> | undefined;
  #openSpool(transfer: Transfer): Promise<Spool> {
    // Several blocks may be the first at once.
    this.#opening ??= this.parts.spools
      .create(this.versionId, transfer.receiver.machine.progress.byteLength ?? 0)
      .then((spool) => {
        this.#opening = undefined;
        if (spool === undefined)
          throw new StemmaError(
            "QUOTA_EXCEEDED",
            "The server's space for unfinished transfers is used up. The device tries again later; if this stays, raise the server's limit or free its disk.",
          );
        return spool;
      });
    return this.#opening;
  }
  #receivedBytes(transfer: Transfer): number {
    const { writtenBlocks, blocks, byteLength } = transfer.receiver.machine.progress;
    return blocks === undefined || byteLength === undefined || blocks === 0
      ? 0
      : Math.min(byteLength, Math.round((writtenBlocks / blocks) * byteLength));
  }
  #saveState(transfer: Transfer): Promise<void> {
    const receiver = transfer.receiver.machine.state();
    const { spool } = transfer;
    if (receiver === undefined || spool === undefined || transfer.reason === "objects")
      return this.#stateSaves.idle();
    const { held } = transfer;
    const saved: SavedTransfer = {
      format: held === undefined ? 1 : 2,
      transfer: transfer.id,
      wireBytes: this.wireBytes,
      objects: transfer.objects,
      receiver,
      ...(held !== undefined && { references: held.map(({ versionId }) => versionId) }),
    };
    return this.#stateSaves.run(() => spool.saveState(Buffer.from(JSON.stringify(saved))));
  }

  /**
   * Small objects that came by blocks: each checked against its id, then held like those that came inline.
   */
  async #takeObjects(transfer: Transfer, encodings: readonly Encoding[]): Promise<void> {
    const refs = transfer.objects.map((ref, index) => ({
      ...ref,
      byteLength: encodings[index]?.byteLength ?? 0,
    }));
    const noTensor = (): TensorHeader => {
      throw new StemmaError(
        "OBJECT_KIND_MISMATCH",
        "A transfer of small objects holds a tensor. Announce the version again.",
      );
    };
    for await (const object of objectsOfStream(refs, noTensor, rangesOf(transfer.spool))) {
      if (object.kind === "object" && object.ref.kind !== "tensor")
        this.#objects.set(object.ref.id, { kind: object.ref.kind, bytes: object.bytes });
    }
    this.#transfer = undefined;
    await transfer.spool?.remove();
  }

  /** One pack for all of it, then the fact. What is acknowledged afterwards is on disk. */
  async #commit(leaves: LeafTable, transfer: Transfer | undefined): Promise<VersionSummary> {
    const { repository } = this.parts;
    const pack = await repository.objects.begin();
    try {
      for (const { kind, bytes } of this.#objects.values()) await pack.put(kind, bytes);
      await pack.put("record", this.accepted.recordBytes);
      if (transfer !== undefined) await this.#putTensors(pack, leaves, transfer);
      await pack.commit();
    } catch (error) {
      await pack.abort();
      // Bytes that are not what they were said to be are of no use for a next try.
      if (isStemmaError(error, "OBJECT_HASH_MISMATCH") || isStemmaError(error, "TENSOR_SIZE_MISMATCH"))
        await this.#dropSpool();
      throw error;
    }
    const summary = await repository.record(this.accepted.recordBytes);
    await this.#dropSpool();
    return summary;
  }

  async #putTensors(pack: PackWriter, leaves: LeafTable, transfer: Transfer): Promise<void> {
    const headers = new Map(leaves.map((leaf) => [leaf.tensor, leaf]));
    const headerOf = (tensor: Hash): TensorHeader => {
      const leaf = headers.get(tensor);
      if (leaf === undefined)
        throw new StemmaError(
          "OBJECT_MISSING",
          `The tensor ${tensor} is not in the announced version's tree.`,
        );
      return { dtype: leaf.dtype, shape: leaf.shape };
    };
    const { objects } = this.parts.repository;
    const coder = openTensorCoder(transfer.objects.reduce((sum, { byteLength }) => sum + byteLength, 0));
    try {
      // The pack hashes what it writes, so the tensors are not hashed here too.
      await putReceivedTensors(
        pack,
        objects,
        coder,
        objectsOfStream(transfer.objects, headerOf, rangesOf(transfer.spool), {
          verifyTensors: false,
          encodings: transfer.encodings,
        }),
      );
    } finally {
      await coder.close();
    }
  }

  async #dropSpool(): Promise<void> {
    const transfer = this.#transfer;
    this.#transfer = undefined;
    this.#cancelSave?.();
    await this.#stateSaves.idle();
    await transfer?.spool?.remove();
  }

  async #letGo(): Promise<void> {
    const transfer = this.#transfer;
    this.#transfer = undefined;
    this.#cancelSave?.();
    if (transfer !== undefined) {
      transfer.receiver.stop();
      try {
        await this.#saveState(transfer);
        if (transfer.reason === "objects") await transfer.spool?.remove();
        else await transfer.spool?.close();
      } catch (error) {
        this.parts.log.warn("spool-not-kept", { versionId: this.versionId, message: messageOf(error) });
      }
    }
    if (this.#lease !== undefined) this.parts.repository.objects.release(this.#lease.id);
    this.#lease = undefined;
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function rangesOf(spool: Spool | undefined): ReadRange {
  return async (offset, byteLength) => {
    if (spool === undefined) return new Uint8Array(0);
    const target = new Uint8Array(byteLength);
    return target.subarray(0, await spool.read(offset, target));
  };
}

/** Bytes of a manifest part, but for its head. */
function manifestBytes({ blockHashes, encodings }: ManifestPart): number {
  const ids = encodings.reduce(
    (sum, { against, previous }) =>
      sum + (against === undefined ? 0 : 34) + (previous === undefined ? 0 : 34),
    0,
  );
  return 32 * blockHashes.length + 8 * encodings.length + ids;
}
