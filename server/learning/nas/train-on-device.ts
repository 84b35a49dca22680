/**
 * Trains candidates on a device of the fleet. The start of a candidate, with what it inherits, is given to a line of
 * the device; the device trains it on its own data as it trains every model of this line, and reports the model with
 * its provenance. The server measures the quality on data of its own: the word of a device is not taken for it, nor
 * that it left the inherited layers alone.
 */
import * as z from "zod";
import type { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { formatDuration } from "../../../shared/cli/output.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { weightSlots } from "../../../shared/model/architecture.js";
import { inheritableKey } from "../../../shared/model/metadata.js";
import type { Clock } from "../../../shared/ports.js";
import type { Hash, Tensor } from "../../../shared/tensor/tensor.js";
import { metricValue } from "../../../shared/train/evaluation.js";
import type { CallOutput, ServerOperations } from "../../interface/api/server-operations.js";
import {
  candidateStart,
  fileOf,
  recipeParameters,
  type CandidateJob,
  type CandidateStart,
  type CandidateTrainer,
  type MadeCandidate,
} from "./candidate.js";
import type { DeviceEvents } from "./device-events.js";
import { notOneClassEach, searchStopped, workerLost } from "./search-errors.js";
import { inChunks, readRecovered, type Inherited } from "./search-store.js";

/** The operations of a server that a search uses to train on its devices. */
export type DeviceOperations = Pick<
  ServerOperations,
  | "import"
  | "recover"
  | "retire"
  | "listModels"
  | "descendants"
  | "device"
  | "assign"
  | "trainOnDevice"
  | "command"
  | "evaluate"
>;

export interface DeviceTrainerOptions {
  readonly operations: DeviceOperations;
  readonly events: DeviceEvents;
  /** Evaluations of all devices: a server runs few at a time. */
  readonly evaluations: SerialQueue;
  readonly clock: Clock;
  readonly fleet: string;
  /** The name of the candidates' models; what they start from is named after it. */
  readonly name: string;
  readonly device: string;
  readonly line: string;
  /** Registered data, on whose held-out samples candidates are measured. */
  readonly data: string;
  /** The longest time for the device to run the new model, and then to train it; milliseconds. */
  readonly patienceMs: number;
}

/** Milliseconds between two looks, where no event comes: at what the server knows, and at the device itself. */
const lookMs = { server: 2_000, device: 15_000 };
/** The least time between two looks at the device, where events come; milliseconds. */
const minLookMs = 1_000;
/** A request to train that a device has neither begun nor refused after this time is sent again; milliseconds. */
const askAgainMs = 30_000;
/** The time between two tries of an evaluation while the server runs others; milliseconds. */
const evaluationPauseMs = 2_000;

export const startNameOf = (name: string): string => `${name}-start`;

/** The part of a device's report that is needed here. */
const reportSchema = z.object({
  training: z.object({ line: z.string() }).nullable(),
  lines: z.array(
    z.object({
      line: z.string(),
      trainings: z.number(),
      lastFailure: z.object({ atMs: z.number(), code: z.string(), message: z.string() }).nullish(),
    }),
  ),
});

type Version = CallOutput<"listModels">["versions"][number];

export class DeviceTrainer implements CandidateTrainer {
  readonly #options: DeviceTrainerOptions;
  /** Versions that nothing needs once the device runs another one. */
  #uselessVersions: Hash[] = [];

  constructor(options: DeviceTrainerOptions) {
    this.#options = options;
  }

  get device(): string {
    return this.#options.device;
  }

  async train(
    job: CandidateJob,
    inherited: Inherited | undefined,
    { signal }: { readonly signal?: AbortSignal | undefined },
  ): Promise<MadeCandidate> {
    const { operations, fleet, device, line, clock } = this.#options;
    const { frozenLayers, ...start } = candidateStart(job, inherited);
    const given = await this.#import(job, start);
    this.#uselessVersions.push(given.versionId);
    // Each candidate has another shape: that is what a search tries.
    await operations.assign({ fleet, device, line, model: given.versionId, force: true });
    await this.#until("run the model that it was given", () => this.#runs(given.versionId), signal);
    await this.#retireLeft(given.versionId);
    const startedMs = clock.monotonic();
    const request = new TrainingOfDevice(this.#options, recipeParameters(job, frozenLayers));
    const trained = await this.#until(
      "report a trained model",
      async () => (await this.#trainedFrom(given.versionId)) ?? (await request.look()),
      signal,
    );
    this.#uselessVersions.push(trained.versionId);
    const trainMs = clock.monotonic() - startedMs;
    if (trained.record.objects.architecture !== given.record.objects.architecture)
      throw this.#lost("it reported a model of another architecture than the one it was given");
    const accuracy = await this.#measure(trained.versionId, signal);
    const tensors = this.#tensorsOf(await this.#recovered(trained.versionId), start, frozenLayers);
    return { ...start, tensors, accuracy, frozen: frozenLayers.length, trainMs };
  }

  async close(): Promise<void> {
    await this.#retireLeft();
  }

  async #import(job: CandidateJob, start: Omit<CandidateStart, "frozenLayers">): Promise<Version> {
    const { operations, fleet, name } = this.#options;
    const file = await fileOf(start);
    const { summary } = await operations.import(
      { byteLength: file.length, chunks: inChunks(file) },
      {
        fleet,
        name: startNameOf(name),
        architecture: JSON.stringify(start.modelJson),
        // The weights are random ones where they are not inherited: no other candidate may take them over.
        metadata: { "search.candidate": job.candidate, [inheritableKey]: false },
      },
    );
    return summary!;
  }

  /** @returns undefined until the device runs this version on the line. @throws SEARCH_WORKER_LOST */
  async #runs(versionId: Hash): Promise<true | undefined> {
    const { operations, fleet, device, line } = this.#options;
    const { state, active, doubt } = await operations.device({ fleet, device });
    if (state !== "enrolled") throw this.#lost(`it is ${state}`);
    if (doubt !== undefined) throw this.#lost(`it does not believe this server: ${doubt.text}`);
    return active[line]?.versionId === versionId ? true : undefined;
  }

  /** The stored version that the device trained from this one. */
  async #trainedFrom(start: Hash): Promise<Version | undefined> {
    const { operations, fleet, device, line } = this.#options;
    const { versions } = await operations.listModels({ fleet, device, line, limit: 10 });
    return versions.find(({ record, state }) => record.bases.includes(start) && state !== "recorded");
  }

  async #measure(versionId: Hash, signal: AbortSignal | undefined): Promise<number> {
    const { operations, evaluations, fleet, data } = this.#options;
    return evaluations.run(() =>
      this.#until(
        "be measured",
        async () => {
          try {
            const { evaluation } = await operations.evaluate(
              { fleet, model: versionId, data, store: false },
              { signal },
            );
            if (evaluation.task === "classification") return metricValue(evaluation, "%");
          } catch (error) {
            if (isStemmaError(error, "QUOTA_EXCEEDED")) return undefined;
            throw error;
          }
          throw notOneClassEach(data);
        },
        signal,
        evaluationPauseMs,
      ),
    );
  }

  async #recovered(versionId: Hash): Promise<ReadonlyMap<string, Tensor>> {
    const { operations, fleet } = this.#options;
    return readRecovered(operations, { fleet, model: versionId });
  }

  /**
   * Returns the tensors in canonical order. @throws SEARCH_WORKER_LOST where the device changed what it was
   * not to train
   */
  #tensorsOf(
    trained: ReadonlyMap<string, Tensor>,
    { architecture, names, tensors }: Pick<CandidateStart, "architecture" | "names" | "tensors">,
    frozenLayers: readonly number[],
  ): readonly Tensor[] {
    const frozen = new Set(frozenLayers);
    const slots = weightSlots(architecture);
    return tensors.map((before, leaf) => {
      const after = trained.get(names.leaves[leaf] as string);
      if (after === undefined || after.dtype !== before.dtype || after.shape.join() !== before.shape.join())
        throw this.#lost(`its model has no tensor ${names.leaves[leaf]} of the form that it was given`);
      if (frozen.has(slots[leaf]?.layer ?? -1) && Buffer.compare(before.bytes, after.bytes) !== 0)
        throw this.#lost(`it changed the tensor ${names.leaves[leaf]}, whose layer was not to be trained`);
      return after;
    });
  }

  /** Retires what earlier candidates left on the server, except what the device still runs. */
  async #retireLeft(except?: Hash): Promise<void> {
    const { operations, fleet, device } = this.#options;
    const kept: Hash[] = [];
    for (const versionId of this.#uselessVersions) {
      const isRetired =
        versionId !== except &&
        (await retireUnlessUsed(operations, { fleet, model: versionId, because: startBecause(device) }));
      if (!isRetired) kept.push(versionId);
    }
    this.#uselessVersions = kept;
  }

  /**
   * Looks until there is something. A server that cannot be reached for a while, and a device that is not connected,
   * are waited for.
   * @throws SEARCH_WORKER_LOST after the patience, TRAINING_STOPPED
   */
  async #until<T>(
    what: string,
    look: () => Promise<T | undefined>,
    signal: AbortSignal | undefined,
    everyMs = lookMs.server,
  ): Promise<T> {
    const { clock, events, device, patienceMs } = this.#options;
    const endMs = clock.monotonic() + patienceMs;
    for (;;) {
      if (signal?.aborted === true) throw searchStopped();
      const moment = events.moment(device);
      const found = await unlessUnreachable(look);
      if (found !== undefined) return found;
      if (clock.monotonic() >= endMs)
        throw this.#lost(`it did not ${what} within ${formatDuration(patienceMs)}`);
      await events.after(device, moment, { ms: everyMs, signal });
    }
  }

  #lost(why: string): StemmaError {
    return workerLost(this.#options.device, why);
  }
}

/** One training on a device: asked for, asked for again where the request was lost, and seen to fail. */
class TrainingOfDevice {
  readonly #options: DeviceTrainerOptions;
  readonly #parameters: Readonly<Record<string, string | number>>;
  #lookedMs = -Infinity;
  #moment: number | undefined;
  /** The state of the line when the training was asked for. */
  #asked:
    | { readonly atMs: number; readonly trainings: number; readonly failedAtMs: number | undefined }
    | undefined;

  constructor(options: DeviceTrainerOptions, parameters: Readonly<Record<string, string | number>>) {
    this.#options = options;
    this.#parameters = parameters;
  }

  /**
   * Asks the device how the training stands, where an event came or some time has passed.
   * @throws NOT_A_NUMBER; SEARCH_WORKER_LOST where the device cannot train; SERVER_UNREACHABLE where it is not
   * connected
   */
  async look(): Promise<undefined> {
    const { clock, events, device } = this.#options;
    const now = clock.monotonic();
    const moment = events.moment(device);
    if (now - this.#lookedMs < (moment === this.#moment ? lookMs.device : minLookMs)) return;
    this.#lookedMs = now;
    this.#moment = moment;
    const { isTraining, trainings, lastFailure } = await this.#report();
    if (this.#asked === undefined) {
      await this.#ask();
      this.#asked = { atMs: now, trainings, failedAtMs: lastFailure?.atMs };
      return;
    }
    if (lastFailure && lastFailure.atMs !== this.#asked.failedAtMs) {
      if (lastFailure.code === "NOT_A_NUMBER") throw new StemmaError("NOT_A_NUMBER", lastFailure.message);
      throw workerLost(device, `its training failed: ${lastFailure.message} [${lastFailure.code}]`);
    }
    const isLost = !isTraining && trainings === this.#asked.trainings && now - this.#asked.atMs > askAgainMs;
    if (isLost) await this.#ask();
    if (isLost) this.#asked = { ...this.#asked, atMs: now };
  }

  async #ask(): Promise<void> {
    const { operations, fleet, device, line } = this.#options;
    const { accepted, message } = await operations.trainOnDevice({
      fleet,
      device,
      line,
      parameters: this.#parameters,
    });
    if (!accepted) throw workerLost(device, `it does not train: ${message}`);
  }

  async #report(): Promise<{
    readonly isTraining: boolean;
    readonly trainings: number;
    readonly lastFailure: z.infer<typeof reportSchema>["lines"][number]["lastFailure"];
  }> {
    const { operations, fleet, device, line } = this.#options;
    const { result } = await operations.command({ fleet, device, name: "report", body: {} });
    const read = reportSchema.safeParse(result);
    const status = read.data?.lines.find((each) => each.line === line);
    if (!read.success || status === undefined)
      throw workerLost(device, `its report does not tell how the line ${line} stands`);
    return {
      isTraining: read.data.training?.line === line,
      trainings: status.trainings,
      lastFailure: status.lastFailure,
    };
  }
}

/**
 * Retires what an earlier call of this search left: starts, and what devices trained of them. Of searches with one
 * name, only one may run in a fleet at a time.
 */
export async function retireStarts(
  operations: Pick<DeviceOperations, "listModels" | "descendants" | "retire">,
  { fleet, name, line }: { readonly fleet: string; readonly name: string; readonly line: string },
): Promise<void> {
  const because = startBecause("devices");
  for (const { versionId } of await startsOf(operations, { fleet, name })) {
    const { descendants } = await operations.descendants({ fleet, model: versionId, limit: 10_000 });
    for (const { version } of descendants)
      if (
        version.record.bases.includes(versionId) &&
        version.record.line === line &&
        version.state !== "retired"
      )
        await retireUnlessUsed(operations, { fleet, model: version.versionId, because });
    await retireUnlessUsed(operations, { fleet, model: versionId, because });
  }
}

async function startsOf(
  operations: Pick<DeviceOperations, "listModels">,
  { fleet, name }: { readonly fleet: string; readonly name: string },
): Promise<readonly Version[]> {
  const found: Version[] = [];
  for (;;) {
    const page = await operations.listModels({
      fleet,
      name: startNameOf(name),
      order: "oldest",
      offset: found.length,
      limit: 10_000,
    });
    found.push(...page.versions);
    if (page.versions.length === 0 || found.length >= page.total) return found;
  }
}

/** @returns whether it is retired now */
async function retireUnlessUsed(
  operations: Pick<DeviceOperations, "retire">,
  retirement: Parameters<DeviceOperations["retire"]>[0],
): Promise<boolean> {
  try {
    await operations.retire(retirement);
    return true;
  } catch (error) {
    if (isStemmaError(error, "MODEL_IN_USE") || isStemmaError(error, "MODEL_HELD")) return false;
    throw error;
  }
}

const startBecause = (device: string): string => `a search has taken over what ${device} trained`;

/** @returns undefined also where the server or the device cannot be reached now */
async function unlessUnreachable<T>(look: () => Promise<T | undefined>): Promise<T | undefined> {
  try {
    return await look();
  } catch (error) {
    if (isStemmaError(error, "SERVER_UNREACHABLE") || isStemmaError(error, "TIMED_OUT")) return undefined;
    throw error;
  }
}
