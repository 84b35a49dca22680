/**
 * A device in a simulation: the agent itself on a machine that is switched on and off with its vehicle, with fine-tunes
 * and measurements that take no training. Enrolled again, the same machine has a new home.
 */
import { Agent } from "../../agent/agent.js";
import { deviceKeyOf } from "../../agent/identity/device-key.js";
import type { LinkIdentity } from "../../agent/link/link.js";
import { parseConfig } from "../../agent/settings/config.js";
import type { Profile } from "../../agent/settings/profile.js";
import { ServedSettings } from "../../agent/settings/served-settings.js";
import { fineTuned } from "../../agent/simulation/fine-tune.js";
import { askedVersions, simulatedEvaluation } from "../../agent/simulation/simulated-measurement.js";
import { recentLog, RecentEvents } from "../../shared/adapters/recent-log.js";
import { messageWithCode } from "../../shared/error-text.js";
import { StemmaError } from "../../shared/errors.js";
import type { LogFields } from "../../shared/ports.js";
import { treeRoot } from "../../shared/model/tree.js";
import { isHash } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import { Choice } from "./choice.js";
import { Machine, type MachineParts, type Process } from "./machine.js";
import { MemoryClient } from "./memory-client.js";
import type { MemoryBroker } from "./memory-broker.js";
import { Connection, type LinkQuality } from "./network.js";
import type { Truth } from "./truth.js";

export const line = "cam";
const restartMs = 10_000;

export interface VehicleParts extends MachineParts {
  readonly truth: Truth;
  readonly profile: Profile;
  quality(): LinkQuality;
  broker(): MemoryBroker | undefined;
}

export interface VehicleWatcher {
  logged(vehicle: Vehicle, event: string, fields: LogFields): void;
  /** The agent could not start. */
  failed(vehicle: Vehicle, error: unknown): void;
}

export class Vehicle {
  readonly machine: Machine;
  readonly choice: Choice;
  hasNetwork = true;
  /** Whether its vehicle is in use, so that its agent is to run. */
  isOn = false;
  /** Whether the server has answered it in its present session. */
  isWelcomed = false;
  /** What the server stated of its line since it connected. */
  readonly statedInSession = new Set<Hash>();
  /** What it stated last. */
  lastStated: Hash | undefined;
  #enrolment: Enrolment | undefined;
  #agent: Agent | undefined;
  #process: Process | undefined;
  #connection: Connection | undefined;
  /** Versions that are complete on the device. */
  readonly #held = new Set<Hash>();

  constructor(
    readonly name: string,
    private readonly parts: VehicleParts,
    private readonly watcher: VehicleWatcher,
  ) {
    this.machine = new Machine(name, parts);
    this.choice = new Choice(parts.seed, `vehicle ${name}`);
  }

  /** The folder of its agent; each enrolment has its own. */
  get home(): string {
    return `/agent-${this.#enrolment?.generation ?? 0}`;
  }
  get generation(): number {
    return this.#enrolment?.generation ?? 0;
  }
  get connection(): Connection | undefined {
    return this.#connection;
  }
  /** What the software of the device runs now. */
  get runs(): Hash | undefined {
    const { disk } = this.machine;
    if (this.#runs?.nameChanges !== disk.nameChanges || this.#runs.home !== this.home) {
      const id = disk.linkTarget(`${this.home}/current/${line}`)?.split("/").at(-1);
      this.#runs = { nameChanges: disk.nameChanges, home: this.home, versionId: isHash(id) ? id : undefined };
    }
    return this.#runs.versionId;
  }
  /** The bytes of the model that the software of the device reads. */
  get modelBytes(): Uint8Array | undefined {
    return this.machine.disk.bytesOf(`${this.home}/current/${line}/model.safetensors`);
  }

  /** The manifest of the folder that the software of the device reads. */
  get manifest(): { readonly versionId: string; readonly root: string } | undefined {
    const bytes = this.machine.disk.bytesOf(`${this.home}/current/${line}/manifest.json`);
    return bytes && (JSON.parse(Buffer.from(bytes).toString()) as { versionId: string; root: string });
  }
  /** For how long it was switched on. */
  get drivenMs(): number {
    return this.#drivenMs + (this.isOn ? this.parts.time.nowMs - this.#onSinceMs : 0);
  }
  /** Looked up again only after names have changed. */
  #runs:
    { readonly nameChanges: number; readonly home: string; readonly versionId: Hash | undefined } | undefined;
  #drivenMs = 0;
  #onSinceMs = 0;

  enrolled(enrolment: Enrolment): void {
    if (this.#agent !== undefined) throw new Error("a running agent is not enrolled again");
    this.#enrolment = enrolment;
  }

  switchOn(): void {
    if (!this.isOn) this.#onSinceMs = this.parts.time.nowMs;
    this.isOn = true;
    this.#start();
  }

  /** @param how "parked": the agent is told, and then the power goes */
  async switchOff(how: "parked" | "killed" | "lost its power"): Promise<void> {
    this.#drivenMs = this.drivenMs;
    this.isOn = false;
    if (how !== "parked") {
      this.#end(how);
      return;
    }
    const agent = this.#agent;
    const process = this.#process;
    try {
      await agent?.stop();
    } finally {
      // The power goes also where the agent could not keep everything, as on a full disk.
      if (process?.isRunning === true && this.#agent === agent) this.#end("lost its power");
    }
  }

  /** The process is killed; its supervisor starts it again. */
  crash(how: "killed" | "lost its power"): void {
    this.#end(how);
    this.#startLater();
  }

  /** Saves a fine-tuned model of the line. @throws what the agent throws */
  async save(): Promise<Hash | undefined> {
    const process = this.#process;
    if (this.#agent === undefined || process === undefined) return undefined;
    const { truth } = this.parts;
    const by = { device: this.name, generation: this.generation };
    const bases: Hash[] = [];
    const { versionId } = await this.#agent.saveMade(line, "simulated", async (base, outbox) => {
      const model = await fineTuned(base, outbox, { share: 0.3, draw: () => this.choice.number() });
      truth.root(treeRoot(model.leaves), model.leaves);
      bases.push(base);
      return model;
    });
    if (!process.isRunning) return undefined;
    this.#held.add(versionId);
    truth.made(versionId, bases, by);
    return versionId;
  }

  #start(): void {
    const enrolment = this.#enrolment;
    if (!this.isOn || this.machine.isRunning || enrolment === undefined) return;
    const process = this.machine.begin((event, fields) => {
      this.#note(event, fields);
      this.watcher.logged(this, event, fields);
    });
    this.#process = process;
    this.parts.events.note(this.name, "switched-on");
    this.#open(process, enrolment).catch((error: unknown) => {
      if (!process.isRunning) return;
      this.parts.events.note(this.name, "not-started", messageWithCode(error));
      this.watcher.failed(this, error);
      this.crash("killed");
    });
  }

  #startLater(): void {
    this.parts.time.after(restartMs, () => {
      this.#start();
    });
  }

  #end(how: "killed" | "lost its power"): void {
    if (!this.machine.isRunning) return;
    this.parts.events.note(this.name, how);
    this.#agent = undefined;
    this.#process = undefined;
    this.isWelcomed = false;
    if (how === "killed") this.machine.kill();
    else this.machine.losePower();
    if (how === "killed") this.#connection?.end("client");
    else this.#connection?.failSilently();
    this.#connection = undefined;
  }

  async #open(process: Process, enrolment: Enrolment): Promise<void> {
    const { files, clock, random, log } = process;
    const recent = new RecentEvents(clock);
    await files.makeFolder(this.home);
    await files.syncFolder("/");
    const agent = await Agent.open({
      home: this.home,
      version: "simulated",
      enrolment,
      enrolmentPath: `${this.home}/enrolment.json`,
      deviceKey: deviceKeyOf(enrolment, undefined),
      config: parseConfig({ format: 1, watchSeconds: 3600 }, "(simulated)"),
      profile: this.parts.profile,
      files,
      clock,
      random,
      log: recentLog(log, recent, () => "debug"),
      recent,
      served: await ServedSettings.open(files, this.home),
      train: () => Promise.reject(trainsNothing()),
      evaluate: () => Promise.reject(trainsNothing()),
      runtime: "simulated",
      commandOwner: undefined,
      onFatal: (error) => {
        if (!process.isRunning) return;
        this.parts.events.note(this.name, "outbox-failed", messageWithCode(error));
        this.crash("killed");
      },
      utcOffsetMinutes: () => 0,
      network: (own) => this.#network(process, own),
      evaluator: {
        inUse: new Set(),
        stop: () => undefined,
        evaluate: async (ofLine, request) =>
          simulatedEvaluation(ofLine, askedVersions(request, this.runs), {
            answers: { samples: 200, meanDifference: -0.01, standardDeviation: 0.05 },
            draw: () => this.choice.number(),
            has: (versionId) => this.#held.has(versionId),
          }),
      },
    });
    if (!process.isRunning) return;
    this.#agent = agent;
    await agent.start();
  }

  #network(process: Process, own: LinkIdentity): LinkIdentity {
    return {
      judges: () => false,
      dial: (address) => own.dial(address),
      renewIfDue: (wasRefused) => own.renewIfDue(wasRefused),
      connect: (_address, options) => {
        const { time } = this.parts;
        const connection = this.hasNetwork
          ? new Connection(time, this.choice, () => this.parts.quality())
          : undefined;
        this.#connection = connection;
        return new MemoryClient({ connection, process, broker: () => this.parts.broker() }, options).port;
      },
    };
  }

  /** Follows what the agent logs; it is the agent's own account of what happened. */
  #note(event: string, fields: LogFields): void {
    const versionId = fields["versionId"] as Hash | undefined;
    if (event === "connected") this.statedInSession.clear();
    if (event === "welcomed") this.isWelcomed = true;
    if (event === "disconnected" || event === "not-admitted") this.isWelcomed = false;
    if (versionId !== undefined && (event === "fetched" || event === "activated")) this.#held.add(versionId);
    if (event === "forgotten")
      for (const gone of fields["versions"] as readonly Hash[]) this.#held.delete(gone);
  }
}

function trainsNothing(): StemmaError {
  return new StemmaError("TRAINING_REFUSED", "A simulated device trains nothing.");
}
