/** Runs the simulation of one seed. */
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
    days: days ?? 1 + choice.below(3),
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
  };
}

/** @throws SimulationFailure with all that is needed to find out why */
export async function runSimulation(seed: number, options: RunOptions = {}): Promise<RunResult> {
  const choice = new Choice(seed, "plan");
  const plan = planOf(choice, options);
  const known = new Map<string, number>();
  const violations: Violation[] = [];
  const world = new World(seed, plan, {
    serverStarted: (server) => {
      invariants.serverStarted(server);
    },
    serverLogged: (event, fields) => {
      invariants.serverLogged(event, fields);
    },
    vehicleLogged: (vehicle, event, fields) => {
      invariants.vehicleLogged(vehicle, event, fields);
    },
    notStarted: (name, error) => {
      invariants.notStarted(name, error);
    },
  });
  const invariants: Invariants = new Invariants(world, (violation) => {
    const fault = knownFaults.find((each) => each.isOf(violation, world));
    world.events.note(
      "people",
      fault === undefined ? "violation" : "known-fault",
      fault?.name ?? violation.text,
    );
    if (fault === undefined) violations.push(violation);
    else known.set(fault.name, (known.get(fault.name) ?? 0) + 1);
  });
  const steps = { count: 0 };
  const refuse = (): void => {
    const [violation] = violations;
    if (violation !== undefined) throw new SimulationFailure(failureText(world, steps.count, violation));
  };
  const pass = async (untilMs: number): Promise<void> => {
    while (await world.time.step(untilMs)) {
      steps.count++;
      invariants.afterStep();
      refuse();
    }
  };
  await world.begin();
  const workload = new Workload(world, {
    parkedMs: choice.between(4, 14) * hourMs,
    actionMs: choice.between(10, 60) * minuteMs,
    onUnexpected: (what, error) => {
      invariants.unexpected(what, error);
    },
  });
  const faults = new Faults(world, choice.of([0, 0.4, 0.8]) ?? 0);
  const watchServer = (): void => {
    const { server } = world;
    if (server.running !== undefined)
      void invariants.checkUsable(server.running).then((isKept) => {
        if (!isKept) return;
        // As a person would who was called.
        server.end("killed");
        server.startLater();
      });
    world.time.after(minuteMs, watchServer);
  };
  watchServer();
  workload.start();
  faults.start();
  await pass(plan.days * dayMs);
  workload.stop();
  faults.stop();
  world.calmLinks();
  for (const vehicle of world.vehicles) {
    vehicle.connection?.cut();
    vehicle.switchOn();
  }
  await pass(plan.days * dayMs + calmMs);
  const { running } = world.server;
  if (running === undefined) throw new SimulationFailure(`seed ${seed}: the server does not run at the end`);
  await invariants.atEnd(running);
  refuse();
  return {
    ...{ seed, steps: steps.count, known, checked: invariants.checked },
    digest: world.events.digest(),
    lines: world.events.lines,
    devices: plan.devices,
    days: plan.days,
    drivenHours: world.vehicles.reduce((sum, { drivenMs }) => sum + drivenMs, 0) / hourMs,
  };
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
