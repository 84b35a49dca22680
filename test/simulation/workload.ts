/**
 * What people do in a simulated fleet: they drive, fine-tune, assign, try a model and take it back, roll out, undo,
 * hold, retire, collect, back up, revoke and enrol again. When and what follows from the seed.
 */
import { isStemmaError, type ErrorCode } from "../../shared/errors.js";
import { messageWithCode } from "../../shared/error-text.js";
import type { Choice } from "./choice.js";
import { fleet, type RunningServer } from "./simulated-server.js";
import { line, type Vehicle } from "./vehicle.js";
import type { World } from "./world.js";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/** What an operation may answer, whatever happens around it. */
const allowedCodes: ReadonlySet<ErrorCode> = new Set([
  // What was asked for is not possible now.
  "MODEL_NOT_FOUND",
  "MODEL_RETIRED",
  "MODEL_HELD",
  "MODEL_IN_USE",
  "NOT_ALLOWED",
  "ROLLOUT_INVALID",
  "ROLLOUT_REACHES_NOBODY",
  "ENROLMENT_INVALID",
  "COLLECTION_REFUSED",
  "REFERENCE_MISSING",
  // The device or the disk does not take it now.
  "SERVER_UNREACHABLE",
  "TIMED_OUT",
  "DISK_FULL",
  "CLOCK_NOT_TRUSTED",
  "DISK_BUDGET_EXHAUSTED",
  "FILE_FAILED",
  "JOURNAL_STOPPED",
  "STORE_FAILED",
]);

interface Action {
  readonly name: string;
  /** How often, compared with the others. */
  readonly weight: number;
  run(world: World, server: RunningServer): Promise<unknown>;
}

const online = ({ vehicles }: World): readonly Vehicle[] => vehicles.filter(({ isWelcomed }) => isWelcomed);

const actions: readonly Action[] = [
  { name: "import", weight: 2, run: (world, server) => world.saveModel(server) },
  { name: "assign", weight: 6, run: assign },
  { name: "rollback", weight: 4, run: rollBack },
  { name: "rollout", weight: 2, run: rollOut },
  { name: "undo-rollout", weight: 1, run: undoRollout },
  { name: "abort-rollout", weight: 1, run: abortRollout },
  { name: "hold", weight: 1, run: hold },
  { name: "retire", weight: 2, run: retire },
  {
    name: "collect",
    weight: 1,
    run: async (_, { operations }) =>
      operations.collect({ fleet, ...(await operations.planCollection({ fleet })) }),
  },
  {
    name: "backup",
    weight: 1,
    run: (_, { operations }) => operations.backup({ fleet, folder: "/backup", plainKey: true }),
  },
  { name: "revoke", weight: 0.5, run: revoke },
  { name: "enrol-again", weight: 1, run: enrollAgain },
];

async function assign(world: World, { operations }: RunningServer): Promise<void> {
  const { choice } = world;
  const vehicle = choice.of(choice.chance(0.8) ? online(world) : world.vehicles);
  const model = choice.of(world.serverModels().slice(-3));
  if (vehicle === undefined || model === undefined) return;
  world.events.note(vehicle.name, "assigned", model.slice(0, 12));
  await operations.assign({ fleet, device: vehicle.name, line, model });
}

async function rollBack(world: World, { operations }: RunningServer): Promise<void> {
  const vehicle = world.choice.of(online(world));
  if (vehicle === undefined) return;
  world.events.note(vehicle.name, "rolled-back");
  await operations.rollbackDevice({ fleet, device: vehicle.name, line });
}

async function rollOut(world: World, { operations, repository }: RunningServer): Promise<void> {
  const { choice } = world;
  const model = choice.of(world.serverModels().slice(-3));
  if (model === undefined) return;
  const chosen = <T>(...from: readonly T[]): T => choice.of(from) as T;
  await operations.createRollout({
    ...{ fleet, name: `r${repository.rollouts().length + 1}`, model, line, select: "all", start: true },
    policy: {
      waves: chosen(["rest"], ["1", "rest"], ["1", "50%", "rest"]),
      unmeasured: chosen("switch" as const, "fail" as const),
      own: chosen("replace" as const, "keep" as const),
      onFailure: chosen("pause" as const, "undo" as const),
      timeoutMinutes: 10 + choice.below(90),
      soakMinutes: choice.below(20),
    },
  });
}

async function undoRollout({ choice }: World, { operations, repository }: RunningServer): Promise<void> {
  const rollout = choice.of(repository.rollouts().slice(-2));
  if (rollout === undefined || rollout.phase === "undone") return;
  await operations.undoRollout({ fleet, rollout: rollout.name });
}

async function abortRollout({ choice }: World, { operations, repository }: RunningServer): Promise<void> {
  const open = repository.rollouts().filter(({ phase }) => phase === "running" || phase === "paused");
  const rollout = choice.of(open);
  if (rollout !== undefined) await operations.setRollout({ fleet, rollout: rollout.name, phase: "aborted" });
}

async function hold({ choice }: World, { operations, repository }: RunningServer): Promise<void> {
  const version = choice.of(repository.versions());
  if (version !== undefined)
    await operations.hold({ fleet, model: version.versionId, held: choice.chance(0.3) });
}

async function retire({ choice }: World, { operations, repository }: RunningServer): Promise<void> {
  const version = choice.of(repository.versions().slice(0, -4));
  if (version !== undefined) await operations.retire({ fleet, model: version.versionId });
}

async function revoke({ choice, vehicles, events }: World, { operations }: RunningServer): Promise<void> {
  const vehicle = choice.of(vehicles);
  if (vehicle === undefined) return;
  events.note(vehicle.name, "revoked");
  await operations.revoke({ fleet, device: vehicle.name });
}

/**
 * One that was revoked and stands still gets another enrolment, as after a repair; so does one whose new enrolment was
 * recorded and did not arrive.
 */
async function enrollAgain(world: World, server: RunningServer): Promise<void> {
  const vehicle = world.vehicles.find(({ name, isOn, generation }) => {
    const known = server.repository.device(name);
    return !isOn && (known?.state === "revoked" || known?.generation !== generation);
  });
  if (vehicle !== undefined) await world.enroll(server, vehicle);
}

export interface WorkloadOptions {
  /** Mean time for which a vehicle stands between two trips. */
  readonly parkedMs: number;
  /** Mean time between two things that people do at the server. */
  readonly actionMs: number;
  /** What must not have happened. */
  onUnexpected(what: string, error: unknown): void;
}

export class Workload {
  #isOver = false;
  readonly #choice: Choice;

  constructor(
    private readonly world: World,
    private readonly options: WorkloadOptions,
  ) {
    this.#choice = world.choice;
  }

  start(): void {
    for (const vehicle of this.world.vehicles) this.#park(vehicle, this.#choice.between(0, 2 * hourMs));
    this.#actLater();
  }

  /** Nothing begins any more. */
  stop(): void {
    this.#isOver = true;
  }

  #after(delayMs: number, run: () => void): void {
    this.world.time.after(delayMs, () => {
      if (!this.#isOver) run();
    });
  }

  #park(vehicle: Vehicle, forMs: number): void {
    this.#after(forMs, () => {
      vehicle.switchOn();
      const tripMs = this.#choice.between(15 * minuteMs, 1.5 * hourMs);
      for (let saves = this.#choice.below(3); saves > 0; saves--)
        this.#after(this.#choice.between(minuteMs, tripMs), () => {
          this.#watch(`${vehicle.name} saves`, vehicle.save());
        });
      this.#after(tripMs, () => {
        const how = this.#choice.of(["parked", "killed", "lost its power"] as const) ?? "parked";
        this.#watch(`${vehicle.name} is switched off`, vehicle.switchOff(how));
        this.#park(vehicle, this.#choice.waitMs(this.options.parkedMs));
      });
    });
  }

  #actLater(): void {
    this.#after(this.#choice.waitMs(this.options.actionMs), () => {
      this.#act();
      this.#actLater();
    });
  }

  #act(): void {
    const { running } = this.world.server;
    if (running === undefined) return;
    const total = actions.reduce((sum, { weight }) => sum + weight, 0);
    let drawn = this.#choice.number() * total;
    const action = actions.find(({ weight }) => (drawn -= weight) < 0);
    if (action === undefined) return;
    this.world.events.note("people", action.name);
    this.#watch(action.name, action.run(this.world, running));
  }

  #watch(what: string, work: Promise<unknown>): void {
    work.catch((error: unknown) => {
      this.world.events.note("people", `${what} failed`, messageWithCode(error).slice(0, 120));
      if (!isStemmaError(error) || !allowedCodes.has(error.code)) this.options.onUnexpected(what, error);
    });
  }
}
