/**
 * A device of the ingest simulation: it saves models in a store in memory, announces them, answers wants, and
 * keeps the receipts and refusals it gets.
 */
import { judgeReceipt } from "../../agent/session/server-history.js";
import { UploadCoding } from "../../agent/outbox/upload-coding.js";
import { Uploads } from "../../agent/outbox/uploads.js";
import { silentLog } from "../../shared/adapters/node-ports.js";
import { memoryFiles } from "./files/memory-files.js";
import type { LogFields } from "../../shared/ports.js";
import type { LeafTable } from "../../shared/model/model.js";
import { memoryStore } from "../../shared/objects/memory-store.js";
import { opaqueModelSource } from "../../shared/save/model-source.js";
import { loadSaveBase, saveModel, type SavedModel } from "../../shared/save/save-model.js";
import { bytesOfSources, type SaveUses } from "../../shared/save/save-uses.js";
import type { Hash, Tensor } from "../../shared/tensor/tensor.js";
import { generateKey } from "../../shared/trust/keys.js";
import { signAnnounce, verifyReceipt } from "../../shared/trust/signatures.js";
import { decodeEnvelope, encodeEnvelope } from "../../shared/wire/codec.js";
import { blockOverheadBytes, maxBlockBytes } from "../../shared/wire/limits.js";
import type { Body, Encoding, ReceiptKind, Refusal, Want } from "../../shared/wire/messages.js";
import type { Topic } from "../../shared/wire/topics.js";
import { runSender, type RunningSender } from "../../shared/wire/transfer/run-sender.js";
import type { StreamObject } from "../../shared/wire/transfer/stream.js";
import type { ManualClock } from "./manual-clock.js";

export const simulatedRoot = "stemma";
export const simulatedFleet = "sim";

export interface SimulatedMessage {
  readonly isFromDevice: boolean;
  readonly device: string;
  readonly topic: Topic;
  readonly payload: Uint8Array;
  readonly session: number;
}

/** What a device needs of the simulation around it. */
export interface SimulatedNetwork {
  readonly clock: ManualClock;
  readonly serverKey: string;
  /** Draws an integer in [0, below). */
  choose(below: number): number;
  /** Sends a message, which the network may lose, repeat or delay. */
  post(message: SimulatedMessage): void;
}

export class SimulatedDevice {
  /** The disk of the device. */
  readonly files = memoryFiles({ now: () => this.network.clock.now() });
  readonly store;
  readonly key;
  readonly models: (SavedModel & {
    readonly leaves: LeafTable;
    /** Bytes of its optimizer's state. */
    readonly usesBytes: number;
  })[] = [];
  /** Receipts that the device received and verified. */
  readonly receipts = new Map<Hash, Set<ReceiptKind>>();
  readonly refusals: Refusal[] = [];
  readonly wants: Want[] = [];
  readonly #senders = new Map<string, RunningSender>();
  /** Versions whose transfers were sent coded, one entry per transfer. */
  readonly codedVersions: Hash[] = [];
  /** Replaces an outgoing message or block; undefined drops it. */
  intercept: (body: Body) => Body | undefined = (body) => body;
  /** For a device that does not code: the stream to send for a want instead of its tensors, with any encodings. */
  streamFor: (
    want: Want,
  ) => { readonly objects: readonly StreamObject[]; readonly encodings: readonly Encoding[] } | undefined =
    () => undefined;
  /** Undefined for a device that does not code. */
  #uploads: Uploads | undefined;
  isConnected = false;
  session = 0;
  #sequence = 0;

  /** @param isCoding answers wants coded, as an agent that always codes; else raw, as older agents */
  constructor(
    readonly network: SimulatedNetwork,
    readonly name: string,
    readonly lines: readonly string[],
    readonly isCoding = false,
  ) {
    const random = {
      bytes: (count: number): Uint8Array => Uint8Array.from({ length: count }, () => network.choose(256)),
    };
    this.store = memoryStore({ clock: network.clock, random });
    this.key = generateKey(random);
    this.restart();
  }
  /** As after kill -9: running transfers are lost, the store and the files of coded streams stay. */
  restart(): void {
    if (!this.isCoding) return;
    const { clock } = this.network;
    const log = {
      ...silentLog(),
      debug: (event: string, fields: LogFields = {}) => {
        if (event === "coded") this.codedVersions.push(fields["versionId"] as Hash);
      },
    };
    const coding = new UploadCoding({
      objects: this.store,
      files: this.files,
      folder: "/transfers",
      clock,
      log,
      memoryLimitMb: 256,
      mayTake: () => Promise.resolve(true),
      link: {
        blockBytes: 4096,
        window: 4,
        bytesPerSecond: null,
        keepaliveSeconds: 60,
        coding: "always",
        metered: false,
      },
    });
    const uploads: Uploads = new Uploads({
      objects: this.store,
      clock,
      log,
      blockBytes: 4096,
      coding,
      send: (transfer, message) => {
        if (uploads === this.#uploads) this.send(message, transfer);
        return Promise.resolve(this.isConnected);
      },
    });
    this.#uploads = uploads;
  }
  nextSession(): number {
    return ++this.session;
  }
  /** The first message of a session, which the simulated network neither loses nor delays. */
  birth(): SimulatedMessage {
    return this.#message({
      type: "birth",
      agentVersion: "0",
      profile: "test",
      runtime: "test",
      oldestProtocol: 1,
      heads: [],
      seenJournalLength: 0,
      unreleased: 0,
      clockMs: 0,
      clockErrorMs: null,
      generation: 1,
    });
  }
  hasReceipt(versionId: Hash, kind: ReceiptKind): boolean {
    return this.receipts.get(versionId)?.has(kind) ?? false;
  }
  get unreleased(): SimulatedDevice["models"] {
    return this.models.filter(({ versionId }) => !this.hasReceipt(versionId, "released"));
  }

  async save(
    line: string,
    tensors: Readonly<Record<string, Uint8Array | Tensor>>,
    base?: Hash,
    uses?: SaveUses,
  ): Promise<SavedModel> {
    const source = opaqueModelSource(
      Object.entries(tensors).map(([name, tensor]) =>
        tensor instanceof Uint8Array
          ? { name, dtype: "U8" as const, shape: [tensor.length], bytes: tensor }
          : { name, ...tensor },
      ),
    );
    const sequence = 1 + this.models.filter(({ record }) => record.line === line).length;
    const saved = await saveModel(
      this.store,
      source,
      {
        name: `${this.name}-${line}`,
        fleet: simulatedFleet,
        device: this.name,
        line,
        sequence,
        bases: base === undefined ? [] : [await loadSaveBase(this.store, base)],
        environment: { backend: "none" },
        ...(uses === undefined ? {} : { uses }),
      },
      this.network.clock,
    );
    const usesBytes = uses?.optimizer === undefined ? 0 : bytesOfSources(uses.optimizer.sources);
    this.models.push({ ...saved, leaves: source.leaves, usesBytes });
    return saved;
  }

  /** Announces all versions that are not released. */
  async announce(inline = true): Promise<void> {
    for (const { versionId, recordBytes, record, tensorBytes, usesBytes } of this.unreleased) {
      const refs = [
        ["tree", record.objects.tree],
        ["names", record.objects.names],
        ["owner-map", record.objects.ownerMap],
        ["environment", record.objects.environment],
      ] as const;
      const objects = inline
        ? await Promise.all(refs.map(async ([kind, id]) => ({ kind, data: await this.store.read(kind, id) })))
        : [];
      this.send({
        type: "announce",
        record: recordBytes,
        signature: await signAnnounce(this.key, versionId),
        objects,
        tensorBytes,
        ...(usesBytes === 0 ? {} : { usesTensorBytes: usesBytes }),
      });
    }
  }

  /** Forgets running transfers, so that wants are answered again, as after a restart. */
  forgetSenders(): void {
    this.#senders.clear();
  }

  send(original: Body, transfer?: string): void {
    const body = this.intercept(original);
    if (!this.isConnected || body === undefined) return;
    const channel =
      body.type === "block" && transfer !== undefined
        ? { kind: "block-up" as const, transfer }
        : { kind: "up" as const };
    this.network.post(this.#message(body, channel));
  }

  #message(
    body: Body,
    channel: { readonly kind: "up" } | { readonly kind: "block-up"; readonly transfer: string } = {
      kind: "up",
    },
  ): SimulatedMessage {
    return {
      isFromDevice: true,
      device: this.name,
      session: this.session,
      topic: { root: simulatedRoot, fleet: simulatedFleet, device: this.name, ...channel },
      payload: encodeEnvelope({
        protocol: 1,
        session: this.session,
        sequence: ++this.#sequence,
        correlation: "",
        expiresMs: 0,
        body,
      }),
    };
  }

  receive(payload: Uint8Array): void {
    const { body, session } = decodeEnvelope(payload, { maxBytes: maxBlockBytes + blockOverheadBytes });
    if (session !== this.session) return;
    if (body.type === "want") this.wants.push(body);
    if (this.#uploads !== undefined) this.#passToUploads(this.#uploads, body);
    else if (body.type === "want") this.#sendRaw(body);
    if (body.type === "blockRequest") this.#senders.get(body.transfer)?.onRequest(body);
    if (body.type === "refusal") this.refusals.push(body);
    if (body.type === "receipt") {
      verifyReceipt(
        {
          serverPublicKey: this.network.serverKey,
          fleet: simulatedFleet,
          device: this.name,
          generation: 1,
          session: this.session,
        },
        body,
      );
      judgeReceipt(undefined, body);
      const kinds = this.receipts.get(body.versionId);
      if (kinds === undefined) this.receipts.set(body.versionId, new Set([body.kind]));
      else kinds.add(body.kind);
    }
  }

  #passToUploads(uploads: Uploads, body: Body): void {
    // An error is ignored like a lost want: the device announces again.
    if (body.type === "want" && body.transfer !== "") void uploads.begin(body).catch(() => undefined);
    if (body.type === "blockRequest") uploads.onRequest(body);
    if (body.type === "transferDone") void uploads.end(body.transfer);
    if (body.type === "receipt") void uploads.endVersion(body.versionId);
  }
  #sendRaw(want: Want): void {
    const model = this.models.find(({ versionId }) => versionId === want.versionId);
    if (model === undefined || want.transfer === "" || this.#senders.has(want.transfer)) return;
    const replacement = this.streamFor(want);
    const isSmallObjects = want.reason === "objects";
    const objects = isSmallObjects
      ? want.objects.map(({ kind, id }) => {
          const { store } = this;
          return {
            byteLength: store.stat(id)?.byteLength ?? 0,
            async *chunks() {
              if (kind !== "tensor") yield await store.read(kind, id);
            },
          };
        })
      : want.tensorIndices.map((index) => this.store.openTensor(model.leaves[index]?.tensor as Hash));
    const encodings =
      replacement?.encodings ??
      (isSmallObjects ? objects.map(({ byteLength }) => ({ code: 0, byteLength })) : []);
    this.#senders.set(
      want.transfer,
      runSender({ transfer: want.transfer, blockBytes: 4096, encodings }, replacement?.objects ?? objects, {
        clock: this.network.clock,
        send: (message) => {
          this.send(message, want.transfer);
          return Promise.resolve();
        },
        onFailed: (error) => {
          throw error;
        },
      }),
    );
  }
}
