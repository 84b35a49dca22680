/**
 * One transfer of an incoming upload: its receiver, its spool, and the state from which it is resumed after
 * an interruption. Knows no announcement; incoming-upload.ts decides what is transferred.
 */
import { SerialQueue } from "../../../../shared/concurrency/serial-queue.js";
import { defined } from "../../../../shared/defined.js";
import { messageOf } from "../../../../shared/error-text.js";
import type { Clock, Log } from "../../../../shared/ports.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import {
  checkEncoding,
  MixedTensors,
  codecFormat,
  maxEncodedBytes,
  rawOnly,
  type AllowedCoding,
} from "../../../../shared/wire/coding/encodings.js";
import { maxBlockBytes } from "../../../../shared/wire/limits.js";
import type { Encoding } from "../../../../shared/wire/messages.js";
import { runReceiver, type RunningReceiver } from "../../../../shared/wire/transfer/run-receiver.js";
import type { ReadRange } from "../../../../shared/wire/transfer/stream.js";
import type { WindowBudget } from "../../../../shared/wire/transfer/window-budget.js";
import { spoolFull } from "../ingest-errors.js";
import type { DeviceSender } from "../sessions/device-sender.js";
import { tensorsOf } from "../downloads/held-versions.js";
import type { IngestLimits } from "../limits.js";
import type { ResumedTransfer, SavedTransfer } from "./saved-transfer.js";
import type { Spool, SpoolFolder } from "./spool.js";
import { tensorRefsOf, type TransferRequest } from "./want-messages.js";

export interface UploadTransferParts {
  readonly device: string;
  readonly versionId: Hash;
  /** Generation of the device. */
  readonly generation: number;
  readonly spools: SpoolFolder;
  readonly budget: WindowBudget;
  readonly slowBudget: WindowBudget;
  readonly sender: DeviceSender;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: IngestLimits;
  /** Bytes that came over the wire for this version so far. */
  wireBytes(): number;
  /** A block is in the spool. */
  onWritten(progress: TransferProgress): void;
}

export interface TransferProgress {
  readonly transfer: string;
  readonly bytes: number;
  readonly totalBytes: number;
  /** Bytes that were here already when this transfer was resumed. */
  readonly resumedBytes: number;
}

/**
 * Max milliseconds between the arrival of a block and the save of the state that includes it. After the
 * server was killed, blocks that came after the last save are sent again.
 */
const stateDelayMs = 200;

export class UploadTransfer {
  readonly receiver: RunningReceiver;
  /** Bytes of all objects before encoding. */
  readonly rawBytes: number;
  /** Bytes that were here already when this transfer was resumed. */
  readonly resumedBytes: number;
  /** The objects' encodings, once the stream is complete. */
  encodings: readonly Encoding[] = [];
  #spool: Spool | undefined;
  #opening: Promise<Spool> | undefined;
  #cancelSave: (() => void) | undefined;
  readonly #stateSaves = new SerialQueue();
  #isClosed = false;

  constructor(
    readonly request: TransferRequest,
    resumed: ResumedTransfer | undefined,
    private readonly parts: UploadTransferParts,
  ) {
    this.rawBytes = request.objects.reduce((sum, { byteLength }) => sum + byteLength, 0);
    this.#spool = resumed?.spool;
    this.receiver = this.#startReceiver(resumed?.saved);
    this.resumedBytes = this.#receivedBytes();
  }

  get id(): string {
    return this.request.id;
  }

  /** Bytes of the stream as its manifest declares them; before the manifest, the raw bytes of the objects. */
  get totalBytes(): number {
    return this.receiver.machine.progress.byteLength ?? this.rawBytes;
  }

  /** Reads ranges of the received stream. */
  readRange(): ReadRange {
    const spool = this.#spool;
    return async (offset, byteLength) => {
      if (spool === undefined) return new Uint8Array(0);
      const target = new Uint8Array(byteLength);
      return target.subarray(0, await spool.read(offset, target));
    };
  }

  /** Ends the transfer and removes what was received. */
  async remove(): Promise<void> {
    this.#isClosed = true;
    this.#cancelSave?.();
    await this.#stateSaves.idle();
    await this.#spool?.remove();
  }

  /** Ends the transfer and keeps what was received, so that it can be resumed. Never rejects. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelSave?.();
    this.receiver.stop();
    try {
      await this.#saveState();
      if (this.request.reason === "objects") await this.#spool?.remove();
      else await this.#spool?.close();
    } catch (error) {
      this.parts.log.warn("spool-not-kept", { versionId: this.parts.versionId, message: messageOf(error) });
    }
  }

  #startReceiver(saved: SavedTransfer | undefined): RunningReceiver {
    const { limits, clock, budget, slowBudget, sender, device } = this.parts;
    const { id, reason, objects, references: held, optimizer, ownReferences } = this.request;
    const own = ownReferences
      ? new Map(tensorRefsOf(objects).map((tensor, index) => [tensor.id, index]))
      : undefined;
    const allowed: AllowedCoding =
      held === undefined
        ? rawOnly
        : {
            codec: codecFormat,
            tensors: tensorsOf(optimizer === undefined ? held : [...held, optimizer]),
            own,
            mixed: new MixedTensors(),
          };
    const options = {
      transfer: id,
      objects: objects.length,
      rawBytes: this.rawBytes,
      maxBytes: reason === "objects" ? limits.maxObjectBytes : maxEncodedBytes(this.rawBytes),
      maxBlockBytes,
      window: limits.window,
      checkEncoding: (encoding: Encoding, index: number) => {
        const { kind = "tensor", byteLength = 0 } = objects[index] ?? {};
        const rawBytes = reason === "objects" ? encoding.byteLength : byteLength;
        checkEncoding(encoding, index, rawBytes, kind === "tensor" ? allowed : rawOnly);
      },
    };
    const ports = {
      clock,
      budget,
      slowBudget,
      send: (message: Parameters<DeviceSender["send"]>[1]) => {
        void sender.send(device, message);
      },
      write: (offset: number, bytes: Uint8Array) => this.#write(offset, bytes),
    };
    return runReceiver(options, ports, saved?.receiver);
  }

  async #write(offset: number, bytes: Uint8Array): Promise<void> {
    if (this.#isClosed) return;
    this.#spool ??= await this.#openSpool();
    await this.#spool.write(offset, bytes);
    const totalBytes = this.receiver.machine.progress.byteLength ?? 0;
    this.parts.onWritten({
      transfer: this.id,
      bytes: Math.min(totalBytes, this.#receivedBytes() + bytes.length),
      totalBytes,
      resumedBytes: this.resumedBytes,
    });
    if (this.#isClosed) return;
    this.#cancelSave ??= this.parts.clock.after(stateDelayMs, () => {
      this.#cancelSave = undefined;
      this.#saveState().catch((error: unknown) => {
        this.parts.log.warn("transfer-state-not-saved", {
          versionId: this.parts.versionId,
          message: messageOf(error),
        });
      });
    });
  }

  #openSpool(): Promise<Spool> {
    // The first blocks may come concurrently: they share one spool.
    this.#opening ??= this.#createSpool();
    return this.#opening;
  }

  async #createSpool(): Promise<Spool> {
    const byteLength = this.receiver.machine.progress.byteLength ?? 0;
    const { spools, versionId, device } = this.parts;
    const spool = await spools.create(versionId, byteLength, device);
    this.#opening = undefined;
    if (spool === undefined) throw spoolFull(byteLength);
    return spool;
  }

  #receivedBytes(): number {
    const { writtenBlocks, blocks, byteLength } = this.receiver.machine.progress;
    return blocks === undefined || byteLength === undefined || blocks === 0
      ? 0
      : Math.min(byteLength, Math.round((writtenBlocks / blocks) * byteLength));
  }

  #saveState(): Promise<void> {
    const { id, reason, objects, references: held, optimizer } = this.request;
    const receiver = this.receiver.machine.state();
    const spool = this.#spool;
    if (receiver === undefined || spool === undefined || reason === "objects") return this.#stateSaves.idle();
    const saved: SavedTransfer = {
      format: held === undefined ? 1 : 2,
      transfer: id,
      generation: this.parts.generation,
      wireBytes: this.parts.wireBytes(),
      objects,
      receiver,
      ...defined({
        references: held?.map(({ versionId }) => versionId),
        optimizerReference: optimizer?.versionId,
      }),
    };
    return this.#stateSaves.run(() => spool.saveState(Buffer.from(JSON.stringify(saved))));
  }
}
