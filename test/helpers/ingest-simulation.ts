/**
 * The server's ingest and devices in one process without sockets: on a disk in memory, with a clock that the
 * test drives, over a network that loses, repeats and reorders messages by a seed. The server can be killed
 * between any two messages; the devices' stores survive that.
 */
import { setImmediate } from "node:timers/promises";
import { FleetIngest } from "../../server/fleet/ingest/fleet-ingest.js";
import { defaultIngestLimits, type IngestLimits } from "../../server/fleet/ingest/limits.js";
import { eventHub, type EventHub } from "../../server/interface/events/event-hub.js";
import type { FleetRepository } from "../../server/storage/repository/fleet-repository.js";
import { openHome, type Home } from "../../server/storage/repository/home.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import { silentLog } from "../../shared/adapters/node-ports.js";
import type { Files } from "../../shared/ports.js";
import { signSession } from "../../shared/trust/signatures.js";
import { hashToken } from "../../shared/trust/token.js";
import { encodeEnvelope } from "../../shared/wire/codec.js";
import { buildTopic, clientIdOf, parseTopic } from "../../shared/wire/topics.js";
import { WindowBudget } from "../../shared/wire/transfer/window-budget.js";
import { filesOfProcess, type KillableProcess } from "./files/files-of-process.js";
import { manualClock, type ManualClock } from "./manual-clock.js";
import {
  SimulatedDevice,
  simulatedFleet,
  simulatedRoot,
  type SimulatedMessage,
  type SimulatedNetwork,
} from "./simulated-device.js";

const root = simulatedRoot;
const fleet = simulatedFleet;

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

export interface SimulationOptions {
  readonly seed: number;
  readonly files: Files;
  readonly limits?: Partial<IngestLimits>;
  /** Of 100 messages, how many are lost, repeated, or overtaken by later ones. */
  readonly lostPercent?: number;
  readonly repeatedPercent?: number;
  readonly reorderedPercent?: number;
}

export interface DeliverAllOptions {
  /** Consecutive rounds without a message in flight. */
  readonly quietRounds: number;
  /** Turns of the event loop in each round. */
  readonly settleRounds: number;
}

export class Simulation implements SimulatedNetwork {
  readonly clock: ManualClock = manualClock();
  readonly devices = new Map<string, SimulatedDevice>();
  readonly choose: (below: number) => number;
  fatalErrors = 0;
  /** Names of the events that the server logged. */
  readonly logged: string[] = [];
  /** Number of transfers that continued where an earlier one had stopped. */
  resumedTransfers = 0;
  files: Files;
  readonly #inFlight: SimulatedMessage[] = [];
  #home: Home | undefined;
  #repository: FleetRepository | undefined;
  #ingest: FleetIngest | undefined;
  #process: KillableProcess = { isRunning: false };

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
    const process = (this.#process = { isRunning: true });
    const recordEvent = (event: string): void => {
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
    const files = filesOfProcess(this.files, process);
    this.#home = await openHome("/home", { files, clock, random });
    this.#repository = await openRepository(this.#home, fleet);
    void this.#repository.failed.then(() => {
      if (process.isRunning) this.fatalErrors++;
    });
    const ingest: FleetIngest = await FleetIngest.start({
      root,
      repository: this.#repository,
      signer: this.#home.signer,
      clock,
      random,
      files,
      log: { ...silentLog(), info: recordEvent, warn: recordEvent, error: recordEvent },
      events: hub,
      limits: { ...defaultIngestLimits, memorySpoolBytes: 0, ...this.options.limits },
      budget: new WindowBudget(256 * 1024),
      spoolFolder: "/home/fleets/sim/spool",
      releasePolicy: "stored",
      serverVersion: "0",
      whatIsFull: () => Promise.resolve(undefined),
      broker: {
        publish: (topic, payload) => {
          if (!process.isRunning) return Promise.resolve("offline" as const);
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
    this.#process.isRunning = false;
    this.#ingest = undefined;
    this.#repository = undefined;
    this.#inFlight.length = 0;
    for (const device of this.devices.values()) device.isConnected = false;
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
    const stated = { online: false, previousSession: 0, generation: 1 };
    const will = {
      topic: buildTopic({ root, fleet, device: device.name, kind: "state" }),
      payload: encodeEnvelope({
        protocol: 1,
        session,
        sequence: 0,
        correlation: "",
        expiresMs: 0,
        body: {
          type: "state",
          ...stated,
          signature: await signSession(device.key, { fleet, ...stated, device: device.name, session }),
        },
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
    device.isConnected = true;
    await this.inject(device.birth());
    return true;
  }
  async disconnect(device: SimulatedDevice): Promise<void> {
    device.isConnected = false;
    this.#ingest?.disconnected(device.name);
  }

  /** Sends a message over the network, which may lose or repeat it. */
  post(message: SimulatedMessage): void {
    const { lostPercent = 0, repeatedPercent = 0 } = this.options;
    if (this.choose(100) < lostPercent) return;
    this.#inFlight.push(message);
    if (this.choose(100) < repeatedPercent) this.#inFlight.push(message);
  }
  get messagesInFlight(): number {
    return this.#inFlight.length;
  }

  /** Delivers one message: the next, or a later one that overtakes it. */
  async deliver(): Promise<void> {
    const at =
      this.choose(100) < (this.options.reorderedPercent ?? 0)
        ? this.choose(Math.min(this.#inFlight.length, 8))
        : 0;
    const [message] = this.#inFlight.splice(at, 1);
    if (message === undefined) return;
    const device = this.devices.get(message.device);
    if (message.isFromDevice)
      await this.#ingest?.handle({
        identity: { fleet, device: message.device },
        topic: message.topic,
        payload: message.payload,
        qos: 1,
      });
    else if (device?.isConnected === true && device.session === message.session)
      device.receive(message.payload);
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
  async settle(rounds = 4): Promise<void> {
    for (let round = 0; round < rounds; round++) await setImmediate();
  }

  /** Delivers messages until none has been in flight for several rounds of settling. */
  async deliverAll({ quietRounds, settleRounds }: DeliverAllOptions): Promise<void> {
    for (let quiet = 0; quiet < quietRounds;) {
      await this.settle(settleRounds);
      if (this.messagesInFlight === 0) quiet++;
      else {
        quiet = 0;
        await this.deliver();
      }
    }
  }
}
