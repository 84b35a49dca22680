/**
 * One announced version on its way in: asks for what is lacking, receives it, writes one pack,
 * records it. Resumes from the spool where an earlier session or server left one. Decides nothing
 * itself: needs.ts says what is next, the transfer machine what to ask for.
 */
import { StemmaError, isStemmaError } from "../../shared/errors.js";
import type { Clock, Log, Random } from "../../shared/ports.js";
import type { LeafTable } from "../../shared/model/model.js";
import type { Lease, PackWriter } from "../../shared/objects/object-store.js";
import type { Hash, TensorHeader } from "../../shared/tensor/tensor.js";
import { maxBlockBytes, maxListLength } from "../../shared/wire/limits.js";
import type { Block, ManifestPart, ObjectRef, WantReason } from "../../shared/wire/messages.js";
import type { ReceiverState } from "../../shared/wire/transfer/receiver.js";
import { runReceiver, type RunningReceiver } from "../../shared/wire/transfer/run-receiver.js";
import { objectsOfStream, type ReadRange } from "../../shared/wire/transfer/stream.js";
import type { WindowBudget } from "../../shared/wire/transfer/window-budget.js";
import type { FleetRepository, VersionSummary } from "../repository/fleet-repository.js";
import { leavesOf, type Accepted, type HeldObject } from "./announcement.js";
import type { IngestLimits } from "./limits.js";
import { needsOf, reliedOn, type BaseState, type Needs } from "./needs.js";
import type { Spool, SpoolFolder } from "./spool.js";
import type { Voice } from "./voice.js";

export interface ReceptionParts {
  readonly repository: Pick<FleetRepository, "objects" | "get" | "record">;
  readonly spools: SpoolFolder;
  readonly budget: WindowBudget;
  readonly voice: Voice;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly limits: IngestLimits;
  /** Told as it goes, for whoever watches. */
  wanted(reception: Reception, reason: WantReason, objects: number, bytes: number): void;
  moved(reception: Reception, transfer: string, bytes: number, totalBytes: number, resumedBytes: number): void;
}

/** How a reception ends. `interrupted`: it goes on when the device announces again. */
export type ReceptionEnd =
  | { readonly end: "recorded"; readonly summary: VersionSummary }
  | { readonly end: "bases"; readonly bases: readonly Hash[] }
  | { readonly end: "refused"; readonly error: StemmaError; readonly retryAfterMs?: number }
  | { readonly end: "interrupted" };

/** What lies in a spool's state file. */
interface SavedTransfer { readonly format: 1; readonly transfer: string; /** What came over the wire for it so far. */ readonly wireBytes: number; readonly objects: readonly ObjectRef[]; readonly receiver: ReceiverState }

interface Asked { readonly id: string; readonly reason: WantReason; readonly objects: readonly ObjectRef[]; readonly indices: readonly number[] }
interface Transfer extends Asked { readonly receiver: RunningReceiver; spool: Spool | undefined }

/** How long after a block at the latest its place is saved; what came later is sent again after a kill of the server. */
const stateDelayMs = 200;

export class Reception {
  readonly startedAtMs: number;
  /** Bytes that came over the wire for this version, interrupted tries that went on included. */
  wireBytes: number;
  #objects: Map<Hash, HeldObject>;
  #lease: Lease | undefined;
  #transfer: Transfer | undefined;
  #cancelSave: (() => void) | undefined;
  #saving: Promise<void> = Promise.resolve();
  #interrupt: (() => void) | undefined;
  #interrupted = false;

  constructor(readonly device: string, readonly accepted: Accepted, readonly baseless: boolean, private readonly parts: ReceptionParts) {
    this.startedAtMs = parts.clock.monotonic();
    this.wireBytes = accepted.recordBytes.length + [...accepted.objects.values()].reduce((sum, { bytes }) => sum + bytes.length, 0);
    this.#objects = new Map(accepted.objects);
  }

  get versionId(): Hash { return this.accepted.versionId; }
  get isInterrupted(): boolean { return this.#interrupted; }
  get transfer(): string | undefined { return this.#transfer?.id; }

  onManifest(part: ManifestPart): void { this.#transfer?.receiver.onManifest(part); }
  onBlock(block: Block): void { this.wireBytes += block.data.length; this.#transfer?.receiver.onBlock(block); }

  /** The device announced again in the same session: it may have missed what was asked. */
  async repeat(): Promise<void> {
    const transfer = this.#transfer;
    if (transfer === undefined) return;
    await this.#sayWant(transfer);
    transfer.receiver.reconnected();
  }

  /** The device is gone: lets go of the transfer, keeps what came. What is past the transfer runs to its end. */
  interrupt(): void {
    this.#interrupted = true;
    this.#interrupt?.();
  }

  /** Runs to an end; never rejects for what a device can cause. */
  async run(): Promise<ReceptionEnd> {
    try {
      for (;;) {
        if (this.#interrupted) return { end: "interrupted" };
        const leaves = await this.#leaves();
        this.#renewLease(leaves);
        const needs = this.#needs(leaves);
        switch (needs.step) {
          case "bases": return { end: "bases", bases: needs.bases };
          case "refuse": return { end: "refused", error: new StemmaError(needs.code, needs.message) };
          case "commit": return { end: "recorded", summary: await this.#commit(leaves ?? [], undefined) };
          case "objects": {
            if (await this.#receive("objects", needs.objects, []) === "interrupted") return { end: "interrupted" };
            break;
          }
          case "tensors": {
            if (await this.#receive(needs.reason, needs.objects, needs.indices) === "interrupted") return { end: "interrupted" };
            return { end: "recorded", summary: await this.#commit(leaves ?? [], this.#transfer) };
          }
        }
      }
    } catch (error) {
      return refusalOf(error);
    } finally { await this.#letGo(); }
  }

  #needs(leaves: LeafTable | undefined): Needs {
    const { repository, limits } = this.parts;
    const base = (versionId: Hash): BaseState => {
      const known = repository.get(versionId);
      return known === undefined ? "unknown" : known.state === "retired" ? "retired" : "known";
    };
    const view = { record: this.accepted.record, leaves, baseless: this.baseless, base, stored: (id: Hash) => repository.objects.has(id), inHand: (id: Hash) => this.#objects.has(id) };
    return needsOf(view, this.accepted.tensorBytes, limits);
  }

  async #leaves(): Promise<LeafTable | undefined> {
    const { record } = this.accepted;
    const held = this.#objects.get(record.objects.tree)?.bytes;
    if (held !== undefined) return leavesOf(record, held);
    const { objects } = this.parts.repository;
    return objects.has(record.objects.tree) ? leavesOf(record, await objects.read("tree", record.objects.tree)) : undefined;
  }

  /** Pins everything the answer relies on, from before it is given (EV2). */
  #renewLease(leaves: LeafTable | undefined): void {
    const { objects } = this.parts.repository;
    const before = this.#lease;
    this.#lease = objects.lease(reliedOn(this.accepted.record, leaves), this.parts.limits.leaseMs);
    if (before !== undefined) objects.release(before.id);
  }

  /** Asks for objects and waits until all are here. Small ones are then in hand; tensors in the spool. */
  async #receive(reason: "objects" | "tensors" | "raw", objects: readonly ObjectRef[], indices: readonly number[]): Promise<"complete" | "interrupted"> {
    const resumed = reason === "objects" ? undefined : await this.#resume(objects);
    const refs = resumed?.saved.objects ?? objects;
    if (resumed !== undefined && Number.isSafeInteger(resumed.saved.wireBytes)) this.wireBytes += resumed.saved.wireBytes;
    const rawBytes = refs.reduce((sum, { byteLength }) => sum + byteLength, 0);
    const id = resumed?.saved.transfer ?? Buffer.from(this.parts.random.bytes(16)).toString("hex");
    const asked: Asked = { id, reason, objects: refs, indices: resumed?.indices ?? indices };
    this.parts.wanted(this, reason, refs.length, rawBytes);
    // The want goes before the first request for blocks: who does not know a transfer does not answer for it.
    await this.#sayWant(asked);
    const options = { transfer: id, objects: refs.length, rawBytes, maxBytes: reason === "objects" ? this.parts.limits.maxObjectBytes : rawBytes, maxBlockBytes, window: this.parts.limits.window };
    const receiver = runReceiver(options, {
      clock: this.parts.clock, budget: this.parts.budget,
      send: (message) => { void this.parts.voice.say(this.device, message); },
      write: (offset, bytes) => this.#write(offset, bytes),
    }, resumed?.saved.receiver);
    const transfer: Transfer = { ...asked, receiver, spool: resumed?.spool };
    this.#transfer = transfer;
    this.#resumedBytes = this.#receivedBytes(transfer);
    if (this.#resumedBytes > 0) this.parts.moved(this, id, this.#resumedBytes, rawBytes, this.#resumedBytes);
    const gone = new Promise<"interrupted">((resolve) => { this.#interrupt = () => resolve("interrupted"); });
    if (this.#interrupted) this.#interrupt?.();
    const encodings = await Promise.race([receiver.finished, gone]);
    if (encodings === "interrupted") return encodings;
    if (encodings.some(({ code }) => code !== 0)) throw new StemmaError("TRANSFER_MANIFEST_INVALID", `The transfer ${id} holds coded tensors, and this server asked for raw ones. Update the device's agent.`, { transfer: id });
    if (reason === "objects") await this.#takeObjects(transfer, encodings.map(({ byteLength }) => byteLength));
    await this.parts.voice.say(this.device, { type: "transferDone", transfer: id });
    return "complete";
  }
  #resumedBytes = 0;

  async #resume(needed: readonly ObjectRef[]): Promise<{ readonly spool: Spool; readonly saved: SavedTransfer; readonly indices: readonly number[] } | undefined> {
    const found = await this.parts.spools.resume(this.versionId, this.parts.limits.maxModelBytes);
    if (found === undefined) return undefined;
    try {
      const saved = JSON.parse(Buffer.from(found.state).toString("utf8")) as SavedTransfer;
      const listed = new Set(saved.objects.map(({ id }) => id));
      const bytes = saved.objects.reduce((sum, { byteLength }) => sum + byteLength, 0);
      // What has come meanwhile by another way is sent all the same; what is needed must be in the old list.
      if (saved.format === 1 && bytes === found.spool.byteLength && needed.every(({ id }) => listed.has(id))) return { spool: found.spool, saved, indices: await this.#indicesOf(saved.objects) };
    } catch { /* an old state that cannot be read costs a transfer */ }
    await found.spool.remove();
    return undefined;
  }

  async #indicesOf(refs: readonly ObjectRef[]): Promise<readonly number[]> {
    const first = new Map<Hash, number>();
    (await this.#leaves() ?? []).forEach(({ tensor }, index) => { if (!first.has(tensor)) first.set(tensor, index); });
    return refs.map(({ id }) => {
      const index = first.get(id);
      if (index === undefined) throw new StemmaError("TRANSFER_MANIFEST_INVALID", `An interrupted transfer of ${this.versionId} lists a tensor that the version does not have. Announce it again.`);
      return index;
    });
  }

  async #sayWant({ id, reason, objects, indices }: Asked): Promise<void> {
    const common = { type: "want" as const, reason, versionId: this.versionId, transfer: id, bases: [], blockBytes: this.parts.limits.blockBytes };
    if (reason === "objects") { await this.parts.voice.say(this.device, { ...common, objects, part: 0, parts: 1, more: false, tensorIndices: [] }); return; }
    // Indices into the version's tree: a few bytes a tensor, so that one word does for 16,000 of them.
    const parts = Math.max(1, Math.ceil(indices.length / maxListLength));
    for (let part = 0; part < parts; part++) {
      await this.parts.voice.say(this.device, { ...common, objects: [], part, parts, more: part + 1 < parts, tensorIndices: indices.slice(part * maxListLength, (part + 1) * maxListLength) });
    }
  }

  async #write(offset: number, bytes: Uint8Array): Promise<void> {
    const transfer = this.#transfer;
    if (transfer === undefined) return;
    transfer.spool ??= await this.#openSpool(transfer);
    await transfer.spool.write(offset, bytes);
    const total = transfer.receiver.machine.progress.byteLength ?? 0;
    this.parts.moved(this, transfer.id, Math.min(total, this.#receivedBytes(transfer) + bytes.length), total, this.#resumedBytes);
    if (this.#lease !== undefined) this.parts.repository.objects.renew(this.#lease.id, this.parts.limits.leaseMs);
    this.#cancelSave ??= this.parts.clock.after(stateDelayMs, () => {
      this.#cancelSave = undefined;
      this.#saveState(transfer).catch((error: unknown) => { this.parts.log.warn("transfer-state-not-saved", { versionId: this.versionId, message: messageOf(error) }); });
    });
  }
  #opening: Promise<Spool> | undefined;
  #openSpool(transfer: Transfer): Promise<Spool> {
    // Several blocks may be the first at once.
    this.#opening ??= this.parts.spools.create(this.versionId, transfer.receiver.machine.progress.byteLength ?? 0).then((spool) => {
      this.#opening = undefined;
      if (spool === undefined) throw new StemmaError("QUOTA_EXCEEDED", "The server's space for unfinished transfers is used up. The device tries again later; if this stays, raise the server's limit or free its disk.");
      return spool;
    });
    return this.#opening;
  }
  #receivedBytes(transfer: Transfer): number {
    const { writtenBlocks, blocks, byteLength } = transfer.receiver.machine.progress;
    return blocks === undefined || byteLength === undefined || blocks === 0 ? 0 : Math.min(byteLength, Math.round((writtenBlocks / blocks) * byteLength));
  }
  #saveState(transfer: Transfer): Promise<void> {
    const receiver = transfer.receiver.machine.state();
    const { spool } = transfer;
    if (receiver === undefined || spool === undefined || transfer.reason === "objects") return this.#saving;
    const saved: SavedTransfer = { format: 1, transfer: transfer.id, wireBytes: this.wireBytes, objects: transfer.objects, receiver };
    this.#saving = this.#saving.catch(() => undefined).then(() => spool.saveState(Buffer.from(JSON.stringify(saved))));
    return this.#saving;
  }

  /** Small objects that came by blocks: each checked against its id, then held like those that came inline. */
  async #takeObjects(transfer: Transfer, byteLengths: readonly number[]): Promise<void> {
    const refs = transfer.objects.map((ref, index) => ({ ...ref, byteLength: byteLengths[index] ?? 0 }));
    const noTensor = (): TensorHeader => { throw new StemmaError("OBJECT_KIND_MISMATCH", "A transfer of small objects holds a tensor. Announce the version again."); };
    for await (const object of objectsOfStream(refs, noTensor, rangesOf(transfer.spool))) {
      if (object.kind === "object" && object.ref.kind !== "tensor") this.#objects.set(object.ref.id, { kind: object.ref.kind, bytes: object.bytes });
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
      if (isStemmaError(error, "OBJECT_HASH_MISMATCH") || isStemmaError(error, "TENSOR_SIZE_MISMATCH")) await this.#dropSpool();
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
      if (leaf === undefined) throw new StemmaError("OBJECT_MISSING", `The tensor ${tensor} is not in the announced version's tree.`);
      return { dtype: leaf.dtype, shape: leaf.shape };
    };
    // The pack hashes what it writes, so the tensors are not hashed here too.
    for await (const object of objectsOfStream(transfer.objects, headerOf, rangesOf(transfer.spool), { verifyTensors: false })) {
      if (object.kind === "tensor") await pack.putTensor(object.source, object.ref.id);
    }
  }

  async #dropSpool(): Promise<void> {
    const transfer = this.#transfer;
    this.#transfer = undefined;
    this.#cancelSave?.();
    await this.#saving.catch(() => undefined);
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
      } catch (error) { this.parts.log.warn("spool-not-kept", { versionId: this.versionId, message: messageOf(error) }); }
    }
    if (this.#lease !== undefined) this.parts.repository.objects.release(this.#lease.id);
    this.#lease = undefined;
  }
}

function messageOf(error: unknown): string { return error instanceof Error ? error.message : String(error); }

function rangesOf(spool: Spool | undefined): ReadRange {
  return async (offset, byteLength) => {
    if (spool === undefined) return new Uint8Array(0);
    const target = new Uint8Array(byteLength);
    return target.subarray(0, await spool.read(offset, target));
  };
}

/** Codes after which the same announcement may go well later. */
const passing = new Set<string>(["TRANSFER_STALLED", "QUOTA_EXCEEDED", "DISK_FULL", "FILE_FAILED", "STORE_FAILED", "JOURNAL_STOPPED", "REFERENCE_MISSING", "LEASE_EXPIRED", "LEASE_UNKNOWN"]);

function refusalOf(error: unknown): ReceptionEnd {
  if (isStemmaError(error)) return { end: "refused", error, ...(passing.has(error.code) ? { retryAfterMs: 30_000 } : {}) };
  const unexpected = new StemmaError("INTERNAL", "The server failed inside while taking in this version. Its log names the cause; the device keeps the model and tries again.", { cause: error });
  return { end: "refused", error: unexpected, retryAfterMs: 60_000 };
}
