/** A simulated fleet: one server, its devices, and the time that they share. */
import { treeRoot } from "../../shared/model/tree.js";
import { opaqueModelSource } from "../../shared/save/model-source.js";
import type { ModelSource } from "../../shared/model/model.js";
import type { LogFields } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import { testProfile } from "../helpers/agent-fixtures.js";
import { Choice } from "./choice.js";
import { EventLog } from "./event-log.js";
import type { LinkQuality } from "./network.js";
import { fleet, SimulatedServer, type RunningServer } from "./simulated-server.js";
import { Truth } from "./truth.js";
import { line, Vehicle } from "./vehicle.js";
import { VirtualTime } from "./virtual-time.js";

/** What a seed decides of a simulation before it begins. */
export interface WorldPlan {
  readonly devices: number;
  readonly days: number;
  readonly quality: LinkQuality;
  /** Whether devices may run their own models before the server has them. */
  readonly activation: "after-receipt" | "after-outbox";
  readonly keepLast: number;
  /** When the server releases versions, and when devices take them for released. */
  readonly releaseAfter: "stored" | "backed-up";
  readonly releasedWhen: "stored" | "backed-up";
}

export interface WorldWatcher {
  serverStarted(server: RunningServer): void;
  serverLogged(event: string, fields: LogFields): void;
  vehicleLogged(vehicle: Vehicle, event: string, fields: LogFields): void;
  /** The server used its key while its clock was in doubt. */
  signedWrongly(text: string): void;
  /** A server or an agent could not start. */
  notStarted(name: string, error: unknown): void;
}

export class World {
  readonly time = new VirtualTime();
  readonly events = new EventLog(() => this.time.nowMs);
  readonly truth = new Truth();
  readonly server: SimulatedServer;
  readonly vehicles: readonly Vehicle[];
  /** Draws what people and the weather do. */
  readonly choice: Choice;

  constructor(
    readonly seed: number,
    readonly plan: WorldPlan,
    watcher: WorldWatcher,
  ) {
    const { time, events, truth } = this;
    this.choice = new Choice(seed, "world");
    this.server = new SimulatedServer(
      { seed, time, events, releaseAfter: plan.releaseAfter },
      {
        started: (server) => {
          watcher.serverStarted(server);
        },
        logged: (event, fields) => {
          watcher.serverLogged(event, fields);
        },
        failed: (error) => {
          watcher.notStarted("server", error);
        },
        signedWrongly: (text) => {
          watcher.signedWrongly(text);
        },
      },
    );
    const profile = testProfile({
      "link.coding": "never",
      activation: plan.activation,
      "disk.keepLast": plan.keepLast,
      "save.releasedWhen": plan.releasedWhen,
    });
    this.vehicles = Array.from(
      { length: plan.devices },
      (_, at) =>
        new Vehicle(
          `van-${String(at + 1).padStart(2, "0")}`,
          {
            ...{ seed, time, events, truth, profile },
            quality: () => this.quality,
            broker: () => this.server.broker,
          },
          {
            logged: (vehicle, event, fields) => {
              watcher.vehicleLogged(vehicle, event, fields);
            },
            failed: (vehicle, error) => {
              watcher.notStarted(vehicle.name, error);
            },
          },
        ),
    );
  }

  /** Of all links; it may change. */
  get quality(): LinkQuality {
    return this.#quality ?? this.plan.quality;
  }
  #quality: LinkQuality | undefined;

  /** Nothing disturbs links from now on that are made from now on. */
  calmLinks(): void {
    this.#quality = calmQuality;
  }

  /** A vehicle by the name of its device. */
  vehicle(name: string): Vehicle | undefined {
    return this.vehicles.find((vehicle) => vehicle.name === name);
  }

  /** What the server states that a device runs; undefined: nothing, or there is no server now. */
  stated({ name }: Vehicle): Hash | undefined {
    const { running } = this.server;
    if (running === undefined) return undefined;
    const { length } = running.repository.journal.head();
    if (this.#stated?.running !== running || this.#stated.length !== length)
      this.#stated = { running, length, versions: new Map() };
    const { versions } = this.#stated;
    if (!versions.has(name)) versions.set(name, running.repository.device(name)?.active[line]?.versionId);
    return versions.get(name);
  }
  /** What the server states, as far as it was asked since its journal grew. */
  #stated:
    | {
        readonly running: RunningServer;
        readonly length: number;
        readonly versions: Map<string, Hash | undefined>;
      }
    | undefined;

  /** Starts the server with three models, the devices with the first of them. */
  async begin(): Promise<void> {
    this.server.start();
    while (this.server.running === undefined) await this.time.step(this.time.nowMs + 1);
    const { running } = this.server;
    for (let count = 0; count < 3; count++) await this.saveModel(running);
    for (const vehicle of this.vehicles) await this.enroll(running, vehicle);
  }

  /** The server gets a new model: from scratch, or made from its newest. */
  async saveModel({ repository, ingest }: RunningServer): Promise<Hash> {
    const newest = this.serverModels().at(-1);
    const source = this.#randomModel();
    this.truth.root(treeRoot(source.leaves), source.leaves);
    const bases = newest === undefined || this.choice.chance(0.3) ? [] : [newest];
    const { summary } = await repository.save(source, { name: "m", bases });
    ingest.saved(summary.versionId);
    this.truth.made(summary.versionId, bases);
    this.events.note("server", "imported", summary.versionId.slice(0, 12));
    return summary.versionId;
  }

  /** Models that were made on the server and are not retired, oldest first. */
  serverModels(): readonly Hash[] {
    const versions = this.server.running?.repository.versions() ?? [];
    return versions.flatMap(({ versionId, name }) => (name === "m" ? [versionId] : []));
  }

  /** Gives a device that does not run an enrolment, and a model to begin with. */
  async enroll({ operations }: RunningServer, vehicle: Vehicle): Promise<void> {
    const [model] = this.serverModels();
    const enrolment = await operations.enroll({
      ...{ fleet, device: vehicle.name, lines: [line] },
      ...(model === undefined ? {} : { initial: { [line]: model } }),
    });
    if (vehicle.machine.isRunning) {
      // It was switched on meanwhile: the enrolment is recorded, and does not arrive.
      this.events.note(vehicle.name, "enrolment-not-taken");
      return;
    }
    vehicle.enrolled(enrolment as Enrolment);
    this.events.note(vehicle.name, "enrolled", `generation ${vehicle.generation}`);
  }

  #randomModel(): ModelSource {
    const tensor = (name: string, numbers: number) => ({
      name,
      dtype: "F32" as const,
      shape: [numbers],
      bytes: this.choice.floats(numbers),
    });
    return opaqueModelSource([tensor("body", 64), tensor("head.bias", 4), tensor("head.kernel", 32)]);
  }
}

const yearMs = 365 * 86_400_000;
const calmQuality: LinkQuality = {
  latencyMs: 20,
  loss: 0,
  repeats: 0,
  overtaken: 0,
  cutEveryMs: yearMs,
  halfOpenEveryMs: yearMs,
  keepaliveMs: 60_000,
};
