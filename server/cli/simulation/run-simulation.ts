/**
 * Runs a simulation: devices are enrolled and get a model, report fine-tunes, get a new version by a rollout, and
 * report again. Notes what happens; in the end compares what devices have receipts for with what the server has.
 */
import { setTimeout as pause } from "node:timers/promises";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { seededNumbers } from "../../../shared/random/seeded-numbers.js";
import type { HostReport } from "../../../shared/simulation/simulation-messages.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { RolloutAnswer } from "../../interface/api/rollouts/rollout-definitions.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import type { DeviceHosts } from "./device-hosts.js";
import { admitSimulated, labelLinks } from "./simulated-fleet.js";
import {
  answersOf,
  saveTimes,
  type RolloutOutcome,
  type SimulatedRollout,
  type SimulationRequest,
} from "./simulation.js";
import { importStreamOf, syntheticModel, updatedModel } from "./synthetic-model.js";
import { counted } from "../../../shared/printable.js";

export interface SimulationParts {
  readonly operations: ServerOperations;
  readonly hosts: DeviceHosts;
  readonly signal: AbortSignal;
  /** One line about what happened. */
  readonly note: (text: string) => void;
  /** Shows what is so now; the next text takes its place. */
  readonly progress: (text: string) => void;
}

const lookMs = 1_000;
/** Devices that are started together. */
const batch = 40;
const rolloutName = "rehearsal";

export class Simulation {
  readonly #startedMs = performance.now();
  readonly #draw: () => number;

  constructor(
    private readonly parts: SimulationParts,
    private readonly request: SimulationRequest,
    private readonly names: readonly string[],
  ) {
    this.#draw = seededNumbers(request.seed);
  }

  /** Milliseconds since the beginning. */
  get tookMs(): number {
    return performance.now() - this.#startedMs;
  }

  /** Saves a synthetic model; resolves with its id. */
  async saveModel(modelBytes: number): Promise<Hash> {
    const { operations, note } = this.parts;
    const { fleet, line, seed } = this.request;
    const tensors = syntheticModel(modelBytes, seed);
    const { summary } = await operations.import(importStreamOf(tensors), { fleet, name: line });
    const bytes = tensors.reduce((sum, tensor) => sum + tensor.bytes.length, 0);
    note(`the server has ${line}:1 of ${(bytes / 1e6).toFixed(1)} MB`);
    return (summary as NonNullable<typeof summary>).versionId;
  }

  /** Lets the devices in and starts them; resolves when all run the model. */
  async start(model: string): Promise<void> {
    const { operations, hosts, note, progress } = this.parts;
    const { spreadMs } = this.request;
    const orders = await admitSimulated(operations, this.names, {
      ...this.request,
      answersOf: answersOf(this.request.worse),
      model,
    });
    note(`${counted(orders.length, "device")} may connect`);
    const batches = Math.ceil(orders.length / batch);
    for (let at = 0; at < batches; at++) {
      const together = orders.slice(at * batch, (at + 1) * batch);
      await hosts.add(together);
      await labelLinks(operations, this.request.fleet, together);
      progress(`${at * batch + together.length} of ${orders.length} devices are started`);
      await this.#pause(spreadMs / (4 * batches));
    }
    await this.until("devices run the model", this.names.length, ({ runs }) =>
      Object.values(runs).reduce((sum, count) => sum + count, 0),
    );
  }

  /** Each device saves so many fine-tuned models over the spread. */
  async save(count: number): Promise<void> {
    if (count < 1) return;
    await this.parts.hosts.save(saveTimes(this.names, count, this.request.spreadMs, this.#draw));
  }

  /** Resolves when the server has released every model that a device saved, and none is to come. */
  async untilReported(saves: number): Promise<void> {
    await this.until(
      "models are saved and released by the server",
      saves * this.names.length,
      (report) => report.saves.filter(({ standing }) => standing === "released").length,
    );
  }

  /** Gives every device a partial update of the model; resolves when the rollout has ended. */
  async rollOut(
    { modelBytes, updates, waves, atOnce }: SimulatedRollout,
    base: Hash,
  ): Promise<RolloutOutcome> {
    const { operations, note } = this.parts;
    const { fleet, line, seed } = this.request;
    const update = updatedModel(syntheticModel(modelBytes, seed), updates, seed + 1);
    const { summary } = await operations.import(importStreamOf(update), { fleet, name: line, base });
    const body = {
      fleet,
      name: rolloutName,
      model: (summary as NonNullable<typeof summary>).versionId,
      line,
      select: "all",
      policy: { waves: [...waves], atOnce },
    };
    const plan = await operations.planRollout(body);
    const plannedBytes = (plan.transfers ?? []).reduce((sum, { bytes }) => sum + bytes, 0);
    const planned = plan.expectedMs ?? null;
    note(
      `the plan of the rollout: ${(plannedBytes / 1e6).toFixed(1)} MB in ${plan.waves.length} waves` +
        (planned === null ? "" : `, ${(planned / 1000).toFixed(0)} s of transfers`),
    );
    const startedMs = performance.now();
    await operations.createRollout({ ...body, start: true });
    await this.save(this.request.saves > 0 ? 1 : 0);
    const ended = await this.#followRollout();
    const tookMs = performance.now() - startedMs;
    const report = await operations.rolloutReport({ fleet, rollout: rolloutName });
    const { compared, actualBytes, bytesError, timeError } = report;
    return {
      phase: ended.phase,
      because: ended.because,
      devices: ended.devices,
      plannedBytes,
      plannedMs: planned,
      tookMs,
      compared: {
        devices: compared,
        plannedBytes: report.plannedBytes,
        actualBytes,
        bytesError,
        timeError,
      },
    };
  }

  /** Follows the rollout until it has ended or waits for a person, and who passed has switched. */
  async #followRollout(): Promise<RolloutAnswer> {
    const { operations, note, progress } = this.parts;
    const { fleet } = this.request;
    let before: RolloutAnswer | undefined;
    for (;;) {
      const now = (await operations.rollouts({ fleet })).find(({ name }) => name === rolloutName);
      if (now === undefined)
        throw new StemmaError(
          "NOT_FOUND",
          `The rollout ${rolloutName} is not in the fleet ${fleet} any more.`,
        );
      const { passed, switched, missed = 0, undecided, worse } = now.devices;
      if (now.wave > (before?.wave ?? 0))
        note(`wave ${now.wave} of ${now.policy.waves.length} of the rollout`);
      if (before?.phase !== now.phase && before !== undefined)
        note(`the rollout is ${now.phase}${now.because === "" ? "" : `: ${now.because}`}`);
      progress(`rollout: ${switched} switched, ${undecided} undecided, ${worse} worse`);
      const isOver = now.phase !== "created" && now.phase !== "running";
      if (isOver && (now.phase !== "done" || passed === switched + missed)) return now;
      before = now;
      await this.#pause(lookMs);
    }
  }

  /** Runs until the signal; for a fleet on somebody's server. */
  async idle(): Promise<void> {
    for (;;) {
      const { connected, saves, savesToCome } = await this.parts.hosts.report();
      const released = saves.filter(({ standing }) => standing === "released").length;
      this.parts.progress(
        `${connected} of ${this.names.length} connected; ${released} of ${saves.length + savesToCome} models released`,
      );
      await this.#pause(lookMs);
    }
  }

  async until(what: string, wanted: number, count: (report: HostReport) => number): Promise<HostReport> {
    const { hosts, note, progress } = this.parts;
    for (;;) {
      const report = await hosts.report();
      const reached = count(report);
      progress(`${reached} of ${wanted} ${what}; ${report.connected} connected`);
      if (reached >= wanted) {
        note(`all ${wanted} ${what}`);
        return report;
      }
      await this.#pause(lookMs);
    }
  }

  /** @throws INTERRUPTED, TIMED_OUT where the simulation's time is over */
  async #pause(delayMs: number): Promise<void> {
    const { signal } = this.parts;
    if (this.tookMs > this.request.limitMs)
      throw new StemmaError(
        "TIMED_OUT",
        `The simulation was ended after its time, ${Math.round(this.request.limitMs / 1000)} s. Give it more with --for.`,
      );
    await pause(delayMs, undefined, { signal }).catch(() => {
      signal.throwIfAborted();
    });
  }
}

/** True if a simulation was ended by its user or by its time, and not by a fault. */
export function isStopped(error: unknown): boolean {
  return isStemmaError(error) && (error.code === "INTERRUPTED" || error.code === "TIMED_OUT");
}
