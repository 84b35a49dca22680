/** Runs the simulation of one seed. */
// A module that is loaded when it is first needed comes at a time that no seed decides.
import "../../server/loaded-at-start.js";
import { Choice } from "./choice.js";
import { Faults } from "./faults.js";
import { Invariants, type Violation } from "./invariants.js";
import { timeText } from "./event-log.js";
import { knownFaults } from "./known-faults.js";
import { Workload } from "./workload.js";
import { World, type WorldPlan } from "./world.js";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
/** In which everything has to converge once all is mended: longer than a device that was refused waits. */
const calmMs = hourMs;
/** Steps without any time between them: more are a loop. */
const maxStepsAtOnce = 10_000;
/** How often a person looks after the server. */
const watchMs = 5 * minuteMs;

export interface RunResult {
  readonly seed: number;
  /** Hash of everything that happened. */
  readonly digest: string;
  readonly steps: number;
  readonly lines: number;
  readonly devices: number;
  readonly days: number;
  /** Hours in which devices were switched on, of all together. */
  readonly drivenHours: number;
  /** Known faults that were met, with how often. */
  readonly known: ReadonlyMap<string, number>;
  readonly checked: Invariants["checked"];
}

export interface RunOptions {
  /** Absent: as the seed decides. */
  readonly devices?: number;
  readonly days?: number;
}

export class SimulationFailure extends Error {}

function planOf(choice: Choice, { devices, days }: RunOptions): WorldPlan {
  const isBad = choice.chance(0.7);
  const upTo = (most: number): number => (isBad && choice.chance(0.6) ? choice.number() * most : 0);
  return {
    devices: devices ?? 2 + choice.below(6),
    days: days ?? 1 + choice.below(2),
    quality: {
      latencyMs: choice.between(10, 800),
      loss: upTo(0.1),
      repeats: upTo(0.1),
      overtaken: upTo(0.2),
      cutEveryMs: choice.between(0.3, 6) * hourMs,
      halfOpenEveryMs: choice.between(0.5, 12) * hourMs,
      keepaliveMs: minuteMs,
    },
    activation: choice.chance(0.5) ? "after-receipt" : "after-outbox",
    keepLast: 1 + choice.below(3),
    releaseAfter: choice.chance(0.85) ? "stored" : "backed-up",
    releasedWhen: choice.chance(0.8) ? "stored" : "backed-up",
  };
}

/** @throws SimulationFailure with all that is needed to find out why */
export async function runSimulation(seed: number, options: RunOptions = {}): Promise<RunResult> {
  return await new Simulation(seed, options).run();
}

class Simulation {
  readonly #choice: Choice;
  readonly #plan: WorldPlan;
  readonly #world: World;
  readonly #invariants: Invariants;
  readonly #known = new Map<string, number>();
  readonly #violations: Violation[] = [];
  #steps = 0;

  constructor(seed: number, options: RunOptions) {
    this.#choice = new Choice(seed, "plan");
    this.#plan = planOf(this.#choice, options);
    this.#world = new World(seed, this.#plan, {
      serverStarted: (server) => {
        this.#invariants.serverStarted(server);
      },
      serverLogged: (event, fields) => {
        this.#invariants.serverLogged(event, fields);
      },
      vehicleLogged: (vehicle, event, fields) => {
        this.#invariants.vehicleLogged(vehicle, event, fields);
      },
      signedWrongly: (text) => {
        this.#invariants.signedWrongly(text);
      },
      notStarted: (name, error) => {
        this.#invariants.notStarted(name, error);
      },
    });
    this.#invariants = new Invariants(this.#world, (violation) => {
      this.#violated(violation);
    });
  }

  async run(): Promise<RunResult> {
    const { days } = this.#plan;
    await this.#world.begin();
    this.#watchServer();
    const calm = this.#disturb();
    await this.#pass(days * dayMs);
    calm();
    await this.#pass(days * dayMs + calmMs);
    const { running } = this.#world.server;
    if (running === undefined) throw new SimulationFailure("the server does not run at the end");
    await this.#invariants.atEnd(running);
    this.#refuse();
    return this.#result();
  }

  /** People act and things go wrong, until the returned function is called. */
  #disturb(): () => void {
    const world = this.#world;
    const workload = new Workload(world, {
      parkedMs: this.#choice.between(4, 14) * hourMs,
      actionMs: this.#choice.between(10, 60) * minuteMs,
      onUnexpected: (what, error) => {
        this.#invariants.unexpected(what, error);
      },
    });
    const faults = new Faults(world, this.#choice.of([0, 0.4, 0.8]) ?? 0);
    workload.start();
    faults.start();
    return () => {
      workload.stop();
      faults.stop();
      world.calmLinks();
      for (const vehicle of world.vehicles) {
        vehicle.connection?.cut();
        vehicle.switchOn();
      }
    };
  }

  /** Starts a server again that goes on without being of use, as a person would who was called. */
  #watchServer(): void {
    const { server, time } = this.#world;
    if (server.running !== undefined)
      void this.#invariants.checkUsable(server.running).then((isUseless) => {
        if (!isUseless) return;
        server.end("killed");
        server.startLater();
      });
    time.after(watchMs, () => {
      this.#watchServer();
    });
  }

  async #pass(untilMs: number): Promise<void> {
    const { time } = this.#world;
    let [beforeMs, atOnce] = [time.nowMs, 0];
    while (await time.step(untilMs)) {
      this.#steps++;
      atOnce = time.nowMs === beforeMs ? atOnce + 1 : 0;
      beforeMs = time.nowMs;
      if (atOnce > maxStepsAtOnce) this.#invariants.restless(atOnce);
      this.#invariants.afterStep();
      this.#refuse();
    }
  }

  #violated(violation: Violation): void {
    const { events } = this.#world;
    const fault = knownFaults.find((each) => each.isOf(violation, this.#world));
    if (fault === undefined) {
      events.note("people", "violation", violation.text);
      this.#violations.push(violation);
    } else {
      events.note("people", "known-fault", fault.name);
      this.#known.set(fault.name, (this.#known.get(fault.name) ?? 0) + 1);
    }
  }

  #refuse(): void {
    const [violation] = this.#violations;
    if (violation !== undefined)
      throw new SimulationFailure(failureText(this.#world, this.#steps, violation));
  }

  #result(): RunResult {
    const { seed, events, vehicles } = this.#world;
    const { devices, days } = this.#plan;
    return {
      ...{ seed, devices, days, steps: this.#steps, lines: events.lines, known: this.#known },
      checked: this.#invariants.checked,
      digest: events.digest(),
      drivenHours: vehicles.reduce((sum, { drivenMs }) => sum + drivenMs, 0) / hourMs,
    };
  }
}

function failureText({ seed, events, plan }: World, steps: number, violation: Violation): string {
  const { invariant, text, atMs, vehicle } = violation;
  return [
    `seed ${seed}, step ${steps}, ${timeText(atMs)}: violates "${invariant}": ${text}`,
    `plan: ${JSON.stringify(plan)}`,
    `again, with a trace: STEMMA_TEST_SEED=${seed} STEMMA_TEST_RUNS=1 STEMMA_TEST_LOG=1 npm test -- simulation/simulation`,
    events.tail("server", "people", ...(vehicle === undefined ? [] : [vehicle.name])),
  ].join("\n");
}
