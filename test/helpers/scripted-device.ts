/**
 * A device for tests that does exactly what the test requests: connects with a given session, saves tiny
 * models in a memory store, announces, and answers wants with the real sender. A test can make it lose,
 * repeat or corrupt messages. Unlike an agent it stores nothing durably and retries nothing.
 */
import { awaiting } from "./awaiting.js";
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import mqtt, { type MqttClient } from "mqtt";
import { announcementOf } from "../../agent/outbox/announcement.js";
import type { Uploads } from "../../agent/outbox/uploads.js";
import { nodeClock, nodeRandom } from "../../shared/adapters/node-ports.js";
import type { ProvenanceObjects } from "../../shared/provenance/make-provenance.js";
import { memoryStore } from "../../shared/objects/memory-store.js";
import type { ObjectPruner } from "../../shared/objects/object-store.js";
import { opaqueModelSource } from "../../shared/save/model-source.js";
import { loadSaveBase, saveModel, type SavedModel } from "../../shared/save/save-model.js";
import { leavesOfSave, type SaveUses } from "../../shared/save/save-uses.js";
import type { Leaf, StreamedKind } from "../../shared/model/model.js";
import type { Hash, Tensor } from "../../shared/tensor/tensor.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import { deviceKeyOf } from "../../agent/identity/device-key.js";
import { signSession, type SessionSubject } from "../../shared/trust/signatures.js";
import { decodeEnvelope, encodeEnvelope } from "../../shared/wire/codec.js";
import { blockOverheadBytes, maxBlockBytes } from "../../shared/wire/limits.js";
import type { Body, BodyOf, BodyType, ManifestPart, ObjectRef, Want } from "../../shared/wire/messages.js";
import { buildTopic, clientIdOf, deviceSubscriptions, parseTopic } from "../../shared/wire/topics.js";
import { runSender, type RunningSender } from "../../shared/wire/transfer/run-sender.js";
import { storedStreamObject, type StreamObject } from "../../shared/wire/transfer/stream.js";
import type { Block } from "../../shared/wire/messages.js";

/** Replaces an outgoing message of a transfer: [] loses it, two entries repeat it. */
export type MessageInterceptor = (message: ManifestPart | Block) => readonly (ManifestPart | Block)[];

export interface ScriptedDeviceOptions {
  readonly session?: number;
  readonly previousSession?: number;
  readonly intercept?: MessageInterceptor;
  readonly blockBytes?: number;
  readonly store?: ObjectPruner;
  readonly answerWants?: boolean;
  /** Answers wants with the uploads of the agent, which may code. */
  readonly uploads?: (device: ScriptedDevice) => Uploads;
}

/** A session as its device states it. */
export async function stateOf(
  enrolment: Enrolment,
  stated: Pick<SessionSubject, "session" | "previousSession" | "online">,
): Promise<BodyOf<"state">> {
  const { fleet, device, generation } = enrolment;
  const key = deviceKeyOf(enrolment, undefined);
  const signature = await signSession(key, { fleet, device, generation, ...stated });
  const { previousSession, online } = stated;
  return { type: "state", online, previousSession, generation, signature };
}

/** Messages that come once for each version, transfer or command: a wait has to state which one it means. */
type MessageOfMany = "offer" | "manifest" | "refusal" | "want" | "receipt" | "command";
type Meant<Type extends BodyType> = Type extends MessageOfMany
  ? [fields: Partial<BodyOf<Type>>]
  : [fields?: Partial<BodyOf<Type>>];

export class ScriptedDevice {
  readonly messages: Body[] = [];
  /** With the transfer that a block belongs to, which its topic names. */
  readonly envelopes: { readonly correlation: string; readonly body: Body; readonly transfer?: string }[] =
    [];
  readonly store: ObjectPruner;
  readonly models = new Map<Hash, SavedModel & { readonly leaves: readonly Leaf[] }>();
  readonly senders = new Map<string, RunningSender>();
  sentBlocks = 0;
  isClosed = false;
  intercept: MessageInterceptor;
  /** Awaited before each message of a transfer is sent. */
  beforeSend: () => Promise<void> = () => Promise.resolve();
  readonly uploads: Uploads | undefined;
  readonly #waiters = new Set<() => void>();
  #sequence = 0;

  private constructor(
    readonly enrolment: Enrolment,
    readonly client: MqttClient,
    readonly session: number,
    private readonly options: ScriptedDeviceOptions,
  ) {
    this.store = options.store ?? memoryStore({ clock: nodeClock(), random: nodeRandom() });
    this.intercept = options.intercept ?? ((message) => [message]);
    this.uploads = options.uploads?.(this);
  }

  /** Connects and subscribes. Rejects when the broker refuses the device. */
  static async connect(enrolment: Enrolment, options: ScriptedDeviceOptions = {}): Promise<ScriptedDevice> {
    const { fleet, device, root } = enrolment;
    const session = options.session ?? 1;
    const will = encodeEnvelope({
      protocol: 1,
      session,
      sequence: 0,
      correlation: "",
      expiresMs: 0,
      body: await stateOf(enrolment, {
        session,
        previousSession: options.previousSession ?? 0,
        online: false,
      }),
    });
    const client = mqtt.connect(enrolment.mqtt[0] as string, {
      protocolVersion: 4,
      clean: true,
      reconnectPeriod: 0,
      clientId: clientIdOf(fleet, device),
      username: device,
      password: enrolment.token ?? "",
      queueQoSZero: false,
      will: {
        topic: buildTopic({ root, fleet, device, kind: "state" }),
        qos: 1,
        retain: true,
        payload: Buffer.from(will),
      },
      ...(enrolment.ca === undefined ? {} : { ca: enrolment.ca }),
      // The test of the server's certificate is not this helper's.
      ...(enrolment.authorities === undefined ? {} : { rejectUnauthorized: false }),
      ...(enrolment.identity && { cert: enrolment.identity.certificate, key: enrolment.identity.key }),
    });
    const scripted = new ScriptedDevice(enrolment, client, session, options);
    client.on("message", (topic, payload) => {
      scripted.#receive(topic, payload);
    });
    client.on("close", () => {
      scripted.isClosed = true;
      scripted.#wake();
    });
    await new Promise<void>((resolve, reject) => {
      client.once("connect", () => {
        resolve();
      });
      client.once("error", reject);
      client.once("close", () => {
        reject(new Error("the broker closed the connection before it accepted the device"));
      });
    });
    client.on("error", () => undefined);
    await client.subscribeAsync([...deviceSubscriptions(root, fleet, device)], { qos: 1 });
    return scripted;
  }

  /** Reports the session online, as behind an external broker. */
  async reportOnline(): Promise<void> {
    const { session, enrolment, options } = this;
    const previousSession = options.previousSession ?? 0;
    await this.send(await stateOf(enrolment, { session, previousSession, online: true }));
  }

  async birth(heads: BodyOf<"birth">["heads"] = []): Promise<BodyOf<"welcome">> {
    const welcome = this.next("welcome");
    await this.sendBirth({ heads });
    return welcome;
  }

  /** Sends a birth and waits for no answer. */
  async sendBirth(changed: Partial<BodyOf<"birth">> = {}): Promise<void> {
    await this.send({
      type: "birth",
      agentVersion: "0",
      profile: "test",
      runtime: "test",
      oldestProtocol: 1,
      heads: [],
      seenJournalLength: 0,
      unreleased: 0,
      clockMs: Date.now(),
      clockErrorMs: null,
      ...changed,
    });
  }

  /** Saves a model of F32 tensors in the device's store. */
  async save(
    tensors: Readonly<Record<string, readonly number[] | Uint8Array | Tensor>>,
    about: {
      readonly name?: string;
      readonly line?: string;
      readonly sequence: number;
      readonly base?: Hash | undefined;
      readonly device?: string;
      readonly fleet?: string;
      readonly attachments?: readonly { readonly name: string; readonly bytes: Uint8Array }[];
      readonly uses?: SaveUses;
      readonly provenance?: ProvenanceObjects;
    },
  ): Promise<SavedModel> {
    const source = opaqueModelSource(
      Object.entries(tensors).map(([name, values]) => {
        if ("dtype" in values) return { name, ...values };
        const bytes = values instanceof Uint8Array ? values : new Uint8Array(new Float32Array(values).buffer);
        return { name, dtype: "F32" as const, shape: [bytes.length / 4], bytes };
      }),
    );
    const bases = about.base === undefined ? [] : [await loadSaveBase(this.store, about.base)];
    const saved = await saveModel(
      this.store,
      source,
      {
        name: about.name ?? `${this.enrolment.device}-model`,
        fleet: about.fleet ?? this.enrolment.fleet,
        device: about.device ?? this.enrolment.device,
        line: about.line ?? this.enrolment.lines[0] ?? "line",
        sequence: about.sequence,
        bases,
        environment: { backend: "none" },
        ...(about.attachments === undefined ? {} : { attachments: about.attachments }),
        ...(about.uses === undefined ? {} : { uses: about.uses }),
        ...about.provenance,
      },
      nodeClock(),
    );
    this.models.set(saved.versionId, { ...saved, leaves: leavesOfSave(source, about.uses) });
    return saved;
  }

  async announce(
    saved: SavedModel,
    { inline, ...changed }: Partial<BodyOf<"announce">> & { readonly inline?: boolean } = {},
  ): Promise<void> {
    const announcement = await announcementOf(
      this.store,
      saved.versionId,
      deviceKeyOf(this.enrolment, undefined),
    );
    await this.send({ ...announcement, ...(inline === false && { objects: [] }), ...changed });
  }

  async send(body: Body, correlation = ""): Promise<void> {
    const { root, fleet, device } = this.enrolment;
    const envelope = encodeEnvelope({
      protocol: 1,
      session: this.session,
      sequence: this.#sequence++,
      correlation,
      expiresMs: 0,
      body,
    });
    const kind = body.type === "birth" || body.type === "state" ? body.type : "up";
    await this.client.publishAsync(buildTopic({ root, fleet, device, kind }), Buffer.from(envelope), {
      qos: 1,
      retain: kind !== "up",
    });
  }
  async sendRaw(bytes: Uint8Array): Promise<void> {
    const { root, fleet, device } = this.enrolment;
    await this.client.publishAsync(buildTopic({ root, fleet, device, kind: "up" }), Buffer.from(bytes), {
      qos: 1,
    });
  }
  async sendBlock(transfer: string, block: Block): Promise<void> {
    const { root, fleet, device } = this.enrolment;
    const envelope = encodeEnvelope({
      protocol: 1,
      session: this.session,
      sequence: this.#sequence++,
      correlation: "",
      expiresMs: 0,
      body: block,
    });
    await this.client.publishAsync(
      buildTopic({ root, fleet, device, kind: "block-up", transfer }),
      Buffer.from(envelope),
      { qos: 0 },
    );
  }

  /**
   * Returns the first received message from index `from` on that matches; waits for one if there is none yet.
   * Rejects with CONNECTION_ENDED when the connection ends before.
   */
  find<T extends Body>(
    matches: (message: Body) => message is T,
    from = 0,
    what = String(matches),
  ): Promise<T> {
    const received = (): string => this.messages.map(({ type }) => type).join(", ");
    const describe = (): string => `${what} at ${this.enrolment.device}, which received ${received()}`;
    return awaiting(describe, this.#found(matches, from));
  }
  async #found<T extends Body>(matches: (message: Body) => message is T, from: number): Promise<T> {
    for (;;) {
      const found = this.messages.slice(from).find(matches);
      if (found !== undefined) return found;
      if (this.isClosed)
        throw Object.assign(
          new Error(`the connection ended; received ${this.messages.map(({ type }) => type).join(", ")}`),
          { code: "CONNECTION_ENDED" },
        );
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          this.#waiters.delete(wake);
          resolve();
        };
        this.#waiters.add(wake);
      });
    }
  }
  /** Waits for the next message of this type that has these fields; those received already do not count. */
  next<Type extends BodyType>(type: Type, ...[fields = {}]: Meant<Type>): Promise<BodyOf<Type>> {
    const isMeant = (message: Body): message is BodyOf<Type> =>
      message.type === type &&
      Object.entries(fields).every(([name, value]) => message[name as keyof Body] === value);
    return this.find(isMeant, this.messages.length, `${type} ${JSON.stringify(fields)}`);
  }
  receipt(kind: BodyOf<"receipt">["kind"], versionId: Hash): Promise<BodyOf<"receipt">> {
    return this.find(
      (message): message is BodyOf<"receipt"> =>
        message.type === "receipt" && message.kind === kind && message.versionId === versionId,
    );
  }
  refusal(versionId?: Hash): Promise<BodyOf<"refusal">> {
    return this.find(
      (message): message is BodyOf<"refusal"> =>
        message.type === "refusal" && (versionId === undefined || message.versionId === versionId),
    );
  }
  want(versionId: Hash, reason?: Want["reason"], from = 0): Promise<Want> {
    return this.find(
      (message): message is Want =>
        message.type === "want" &&
        message.versionId === versionId &&
        (reason === undefined || message.reason === reason),
      from,
    );
  }

  /** Resolves when the connection has ended. */
  async closed(): Promise<void> {
    if (!this.isClosed)
      await new Promise((resolve) => {
        this.client.once("close", () => {
          resolve(undefined);
        });
      });
  }

  async close(): Promise<void> {
    for (const sender of this.senders.values()) void sender.stop();
    await this.uploads?.stop();
    if (!this.isClosed) await this.client.endAsync(true);
  }

  #wake(): void {
    for (const wake of [...this.#waiters]) wake();
  }
  #receive(topic: string, payload: Buffer): void {
    const parsed = parseTopic(this.enrolment.root, topic);
    if (parsed?.kind !== "down" && parsed?.kind !== "block-down") return;
    const { body, correlation } = decodeEnvelope(payload, { maxBytes: maxBlockBytes + blockOverheadBytes });
    this.messages.push(body);
    this.envelopes.push({ correlation, body, ...("transfer" in parsed && { transfer: parsed.transfer }) });
    if (this.options.answerWants !== false) this.#answer(body);
    this.#wake();
  }

  #answer(body: Body): void {
    if (this.uploads !== undefined) {
      this.#answerWithUploads(this.uploads, body);
      return;
    }
    if (body.type === "want" && body.transfer !== "") this.#startSender(body);
    if (body.type === "blockRequest") this.senders.get(body.transfer)?.onRequest(body);
    if (body.type === "transferDone") {
      void this.senders.get(body.transfer)?.stop();
      this.senders.delete(body.transfer);
    }
  }

  /** Handles messages serially, as an agent does: a request must not overtake the want before it. */
  #answerWithUploads(uploads: Uploads, body: Body): void {
    void this.#queue.run(async () => {
      if (body.type === "want" && body.transfer !== "") await uploads.begin(body);
      if (body.type === "blockRequest") uploads.onRequest(body);
      if (body.type === "transferDone") await uploads.end(body.transfer);
    });
  }
  readonly #queue = new SerialQueue();

  #startSender(want: Want): void {
    const saved = this.models.get(want.versionId);
    if (saved === undefined || this.senders.has(want.transfer)) return;
    const { objects, coded } = this.#streamOf(saved, want);
    this.senders.set(
      want.transfer,
      runSender(
        {
          transfer: want.transfer,
          blockBytes: this.options.blockBytes ?? want.blockBytes,
          ...(coded ? { encodings: objects.map(({ byteLength }) => ({ code: 0, byteLength })) } : {}),
        },
        objects,
        {
          clock: nodeClock(),
          send: async (message) => {
            await this.beforeSend();
            for (const one of this.intercept(message)) {
              if (this.isClosed) return;
              if (one.type === "block") {
                this.sentBlocks++;
                await this.sendBlock(want.transfer, one);
              } else await this.send(one);
            }
          },
          onFailed: (error) => {
            throw error;
          },
        },
      ),
    );
  }

  #streamOf(
    saved: { readonly leaves: readonly Leaf[] },
    want: Want,
  ): { readonly objects: readonly StreamObject[]; readonly coded: boolean } {
    if (want.reason === "objects")
      return { coded: true, objects: want.objects.map((ref) => this.#small(ref)) };
    return {
      coded: false,
      objects: [
        ...want.tensorIndices.map((index) => this.store.openTensor(saved.leaves[index]?.tensor as Hash)),
        ...want.objects.map(({ kind, id }) => this.streamedObject(kind as StreamedKind, id)),
      ],
    };
  }
  /** What it sends for an object that streams; a test can replace it by other bytes. */
  streamedObject(kind: StreamedKind, id: Hash): StreamObject {
    return storedStreamObject(this.store.openStream(kind, id));
  }
  #small({ kind, id }: ObjectRef): StreamObject {
    const store = this.store;
    const byteLength = store.stat(id)?.byteLength ?? 0;
    return {
      byteLength,
      async *chunks() {
        if (kind !== "tensor") yield await store.read(kind, id);
      },
    };
  }
}
