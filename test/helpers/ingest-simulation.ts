/**
 * The server's ingest and devices in one process without sockets: on a disk in memory, with a clock that the
 * test drives, over a network that loses, repeats and reorders messages by a seed. The server can be killed
 * between any two messages; the devices' stores survive that.
 */
import { setImmediate } from "node:timers/promises";
import { UploadCoding } from "../../agent/outbox/upload-coding.js";
import { Uploads } from "../../agent/outbox/uploads.js";
import { FleetIngest } from "../../server/ingest/fleet-ingest.js";
import { defaultIngestLimits, type IngestLimits } from "../../server/ingest/limits.js";
import { eventHub, type EventHub } from "../../server/events/event-hub.js";
import type { FleetRepository } from "../../server/repository/fleet-repository.js";
import { openHome, type Home } from "../../server/repository/home.js";
import { openRepository } from "../../server/repository/open-repository.js";
import { silentLog } from "../../shared/adapters/node-ports.js";
import { memoryFiles } from "./files/memory-files.js";
import type { Files, LogFields } from "../../shared/ports.js";
import type { LeafTable } from "../../shared/model/model.js";
import { memoryStore } from "../../shared/objects/memory-store.js";
import { opaqueModelSource } from "../../shared/save/model-source.js";
import { loadSaveBase, saveModel, type SavedModel } from "../../shared/save/save-model.js";
import type { Hash, Tensor } from "../../shared/tensor/tensor.js";
import { generateKey } from "../../shared/trust/keys.js";
import { signAnnounce, verifyReceipt } from "../../shared/trust/signatures.js";
import { hashToken } from "../../shared/trust/token.js";
import { decodeEnvelope, encodeEnvelope } from "../../shared/wire/codec.js";
import { blockOverheadBytes, maxBlockBytes } from "../../shared/wire/limits.js";
import type { Body, Encoding, ReceiptKind, Refusal, Want } from "../../shared/wire/messages.js";
import { buildTopic, clientIdOf, parseTopic, type Topic } from "../../shared/wire/topics.js";
import { runSender, type RunningSender } from "../../shared/wire/transfer/run-sender.js";
import type { StreamObject } from "../../shared/wire/transfer/stream.js";
import { WindowBudget } from "../../shared/wire/transfer/window-budget.js";
import { manualClock, type ManualClock } from "./manual-clock.js";

const root = "stemma";
const fleet = "sim";

/** Draws integers in [0, below) from a seed. */
export function seededChooser(seed: number): (below: number) => number {
  let state = Math.imul(seed, 2654435761) >>> 0 || 1;
  return (below) => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % below;
  };
}

export interface SimulatedMessage {
  readonly isFromDevice: boolean;
  readonly device: string;
  readonly topic: Topic;
  readonly payload: Uint8Array;
  readonly session: number;
}

/** The files of one process: after `life.alive` becomes false, no pending operation reaches the disk. */
function filesOfProcess(files: Files, life: { alive: boolean }): Files {
  const through = <T extends object>(inner: T): T =>
    new Proxy(inner, {
      get: (target, name) => {
        const value = Reflect.get(target, name) as unknown;
        if (typeof value !== "function") return value;
        return (...given: unknown[]) => {
          if (!life.alive) return new Promise(() => undefined);
          const result = Reflect.apply(value, target, given) as unknown;
          if (!(result instanceof Promise)) return result;
          return result.then((got: unknown) =>
            life.alive ? (name === "open" ? through(got as object) : got) : new Promise(() => undefined),
          );
        };
      },
    });
  return through(files);
}

export interface SimulationOptions {
  readonly seed: number;
  readonly files: Files;
  readonly limits?: Partial<IngestLimits>;
  /** Of 100 messages, how many are lost, repeated, or overtaken by later ones. */
  readonly lostPercent?: number;
  readonly repeatedPercent?: number;
  readonly reorderedPercent?: number;
}

export class Simulation {
  readonly clock: ManualClock = manualClock();
  readonly devices = new Map<string, SimulatedDevice>();
  readonly choose: (below: number) => number;
  fatalErrors = 0;
  /** Names of the events that the server logged. */
  readonly logged: string[] = [];
  /** Number of transfers that continued where an earlier one had stopped. */
  resumedTransfers = 0;
  files: Files;
  readonly #wire: SimulatedMessage[] = [];
  #home: Home | undefined;
  #repository: FleetRepository | undefined;
  #ingest: FleetIngest | undefined;
  #life = { alive: false };

  constructor(readonly options: SimulationOptions) {
    this.choose = seededChooser(options.seed);
    this.files = options.files;
  }

  get repository(): FleetRepository {
    if (this.#repository === undefined) throw new Error("the server is down");
    return this.#repository;
  }
  get isUp(): boolean {
    return this.#ingest !== undefined;
  }

  /** Opens the home as a new process would. */
  async start(): Promise<void> {
    const { clock } = this;
    const choose = this.choose;
    const random = {
      bytes: (count: number): Uint8Array => Uint8Array.from({ length: count }, () => choose(256)),
    };
    const life = (this.#life = { alive: true });
    const note = (event: string): void => {
      this.logged.push(event);
    };
    const events = eventHub(clock);
    const hub: EventHub = {
      ...events,
      emit: (event) => {
        if (event.event === "transfer" && event.resumedBytes > 0 && event.bytes === event.resumedBytes)
          this.resumedTransfers++;
        events.emit(event);
      },
    };
    const files = filesOfProcess(this.files, life);
    this.#home = await openHome("/home", { files, clock, random });
    this.#repository = await openRepository(this.#home, fleet);
    const ingest: FleetIngest = await FleetIngest.start({
      root,
      repository: this.#repository,
      signer: this.#home.signer,
      clock,
      random,
      files,
      log: { ...silentLog(), info: note, warn: note, error: note },
      events: hub,
      limits: { ...defaultIngestLimits, memorySpoolBytes: 0, ...this.options.limits },
      budget: new WindowBudget(256 * 1024),
      spoolFolder: "/home/fleets/sim/spool",
      releasePolicy: "stored",
      serverVersion: "0",
      onFatal: () => {
        this.fatalErrors++;
      },
      broker: {
        publish: (topic, payload) => {
          if (!life.alive) return Promise.resolve("offline" as const);
          const parsed = parseTopic(root, topic);
          if (parsed !== undefined)
            this.post({
              isFromDevice: false,
              device: parsed.device,
              topic: parsed,
              payload: payload.slice(),
              session: this.devices.get(parsed.device)?.session ?? 0,
            });
          return Promise.resolve("sent" as const);
        },
        disconnect: () => Promise.resolve(),
      },
    });
    this.#ingest = ingest;
  }

  /** Ends the server process: its memory is lost, the disk stays. */
  kill(): void {
    this.#life.alive = false;
    this.#ingest = undefined;
    this.#repository = undefined;
    this.#wire.length = 0;
    for (const device of this.devices.values()) device.online = false;
  }

  /** Enrols a device. */
  async enroll(name: string, lines: readonly string[], isCoding = false): Promise<SimulatedDevice> {
    const device = new SimulatedDevice(this, name, lines, isCoding);
    await this.repository.append({
      type: "enrolled",
      atMs: this.clock.now(),
      device: name,
      publicKey: device.key.publicKey,
      tokenHash: hashToken("token"),
      profile: "test",
      lines,
    });
    this.devices.set(name, device);
    return device;
  }
  get serverKey(): string {
    return this.#home?.signer.publicKey ?? "";
  }

  /** Connects a device, with the same authentication as a CONNECT at the broker. */
  async connect(device: SimulatedDevice): Promise<boolean> {
    const ingest = this.#ingest;
    if (ingest === undefined) return false;
    const session = device.nextSession();
    const will = {
      topic: buildTopic({ root, fleet, device: device.name, kind: "state" }),
      payload: encodeEnvelope({
        protocol: 1,
        session,
        sequence: 0,
        correlation: "",
        expiresMs: 0,
        body: { type: "state", online: false, previousSession: 0 },
      }),
    };
    const verdict = await ingest.admission.authenticate({
      clientId: clientIdOf(fleet, device.name),
      username: device.name,
      password: new TextEncoder().encode("token"),
      will,
      address: "sim",
    });
    if ("refused" in verdict) throw new Error(verdict.refused);
    ingest.connected(device.name);
    device.online = true;
    return true;
  }
  async disconnect(device: SimulatedDevice): Promise<void> {
    device.online = false;
    this.#ingest?.disconnected(device.name);
  }

  /** Sends a message over the network, which may lose or repeat it. */
  post(message: SimulatedMessage): void {
    const { lostPercent = 0, repeatedPercent = 0 } = this.options;
    if (this.choose(100) < lostPercent) return;
    this.#wire.push(message);
    if (this.choose(100) < repeatedPercent) this.#wire.push(message);
  }
  get messagesInFlight(): number {
    return this.#wire.length;
  }

  /** Delivers one message: the next, or a later one that overtakes it. */
  async deliver(): Promise<void> {
    const at =
      this.choose(100) < (this.options.reorderedPercent ?? 0)
        ? this.choose(Math.min(this.#wire.length, 8))
        : 0;
    const [message] = this.#wire.splice(at, 1);
    if (message === undefined) return;
    const device = this.devices.get(message.device);
    if (message.isFromDevice)
      await this.#ingest?.handle({
        identity: { fleet, device: message.device },
        topic: message.topic,
        payload: message.payload,
        qos: 1,
      });
    else if (device?.online === true && device.session === message.session) device.receive(message.payload);
  }

  /** Passes a message to the server as if it had just arrived, without checking its content. */
  async inject(message: SimulatedMessage): Promise<void> {
    await this.#ingest?.handle({
      identity: { fleet, device: message.device },
      topic: message.topic,
      payload: message.payload,
      qos: 1,
    });
  }

  /** Resolves after everything that is ready has run. */
  async settle(turns = 4): Promise<void> {
    for (let turn = 0; turn < turns; turn++) await setImmediate();
  }
}

export class SimulatedDevice {
  readonly store;
  readonly key;
  readonly models: (SavedModel & { readonly leaves: LeafTable })[] = [];
  /** Receipts that the device received and verified. */
  readonly receipts = new Map<Hash, Set<ReceiptKind>>();
  readonly refusals: Refusal[] = [];
  readonly wants: Want[] = [];
  readonly #senders = new Map<string, RunningSender>();
  /** The disk of the device. */
  readonly files = memoryFiles({ now: () => this.simulation.clock.now() });
  /** Versions whose transfers were sent coded, one entry per transfer. */
  readonly codedVersions: Hash[] = [];
  /** Replaces an outgoing message or block; undefined drops it. */
  intercept: (body: Body) => Body | undefined = (body) => body;
  /** For a device that does not code: the stream to send for a want instead of its tensors, with any encodings. */
  streamFor: (
    want: Want,
  ) => { readonly objects: readonly StreamObject[]; readonly encodings: readonly Encoding[] } | undefined =
    () => undefined;
  #uploads: Uploads | undefined;
  online = false;
  session = 0;
  #sequence = 0;

  /** @param isCoding answers wants coded, as an agent that always codes; else raw, as older agents */
  constructor(
    readonly simulation: Simulation,
    readonly name: string,
    readonly lines: readonly string[],
    readonly isCoding = false,
  ) {
    const random = {
      bytes: (count: number): Uint8Array => Uint8Array.from({ length: count }, () => simulation.choose(256)),
    };
    this.store = memoryStore({ clock: simulation.clock, random });
    this.key = generateKey(random);
    this.restart();
  }
  /** As after kill -9: running transfers are lost, the store and the files of coded streams stay. */
  restart(): void {
    if (!this.isCoding) return;
    const { clock } = this.simulation;
    const log = {
      ...silentLog(),
      debug: (event: string, fields: LogFields = {}) => {
        if (event === "coded") this.codedVersions.push(fields["version"] as Hash);
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
        return Promise.resolve(this.online);
      },
    });
    this.#uploads = uploads;
  }
  nextSession(): number {
    return ++this.session;
  }
  has(versionId: Hash, kind: ReceiptKind): boolean {
    return this.receipts.get(versionId)?.has(kind) ?? false;
  }
  get unreleased(): readonly SavedModel[] {
    return this.models.filter(({ versionId }) => !this.has(versionId, "released"));
  }

  async save(
    line: string,
    tensors: Readonly<Record<string, Uint8Array | Tensor>>,
    base?: Hash,
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
        fleet,
        device: this.name,
        line,
        sequence,
        bases: base === undefined ? [] : [await loadSaveBase(this.store, base)],
        environment: { backend: "none" },
      },
      this.simulation.clock,
    );
    this.models.push({ ...saved, leaves: source.leaves });
    return saved;
  }

  /** Announces all versions that are not released. */
  async announce(inline = true): Promise<void> {
    for (const { versionId, recordBytes, record, tensorBytes } of this.unreleased) {
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
        signature: signAnnounce(this.key, versionId),
        objects,
        tensorBytes,
      });
    }
  }

  /** Forgets running transfers, so that wants are answered again, as after a restart. */
  forgetSenders(): void {
    this.#senders.clear();
  }

  send(original: Body, transfer?: string): void {
    const body = this.intercept(original);
    if (!this.online || body === undefined) return;
    const channel =
      body.type === "block" && transfer !== undefined
        ? { kind: "block-up" as const, transfer }
        : { kind: "up" as const };
    this.simulation.post({
      isFromDevice: true,
      device: this.name,
      session: this.session,
      topic: { root, fleet, device: this.name, ...channel },
      payload: encodeEnvelope({
        protocol: 1,
        session: this.session,
        sequence: ++this.#sequence,
        correlation: "",
        expiresMs: 0,
        body,
      }),
    });
  }

  receive(payload: Uint8Array): void {
    const { body, session } = decodeEnvelope(payload, { maxBytes: maxBlockBytes + blockOverheadBytes });
    if (session !== this.session) return;
    if (body.type === "want") this.wants.push(body);
    if (this.#uploads !== undefined) this.#answer(this.#uploads, body);
    else if (body.type === "want") this.#answerWant(body);
    if (body.type === "blockRequest") this.#senders.get(body.transfer)?.onRequest(body);
    if (body.type === "refusal") this.refusals.push(body);
    if (body.type === "receipt") {
      verifyReceipt(
        { serverPublicKey: this.simulation.serverKey, fleet, device: this.name, session: this.session },
        body,
      );
      const kinds = this.receipts.get(body.versionId);
      if (kinds === undefined) this.receipts.set(body.versionId, new Set([body.kind]));
      else kinds.add(body.kind);
    }
  }

  #answer(uploads: Uploads, body: Body): void {
    // An error is ignored like a lost want: the device announces again.
    if (body.type === "want" && body.transfer !== "") void uploads.begin(body).catch(() => undefined);
    if (body.type === "blockRequest") uploads.onRequest(body);
    if (body.type === "transferDone") void uploads.end(body.transfer);
    if (body.type === "receipt") void uploads.endVersion(body.versionId);
  }
  #answerWant(want: Want): void {
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
        clock: this.simulation.clock,
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
