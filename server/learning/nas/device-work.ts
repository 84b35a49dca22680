/**
 * The work on one device for a search or an evaluation: it is given a version on a line, trains it on its own data as
 * it trains every model of this line, and reports the model with its provenance. The server measures it on data of its
 * own: the word of a device is not taken for that.
 */
import * as z from "zod";
import type { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { formatDuration } from "../../../shared/cli/output.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import type { Clock } from "../../../shared/ports.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { CallOutput, ServerOperations } from "../../interface/api/server-operations.js";
import type { DeviceEvents } from "./device-events.js";
import type { HeldLine } from "./held-line.js";
import { searchStopped, workerLost } from "./search-errors.js";

/** The operations of a server that training on its devices uses. */
export type DeviceWorkOperations = Pick<
  ServerOperations,
  "listModels" | "device" | "assign" | "command" | "evaluate" | "retire"
>;

export interface DeviceWorkOptions {
  readonly operations: DeviceWorkOperations;
  readonly events: DeviceEvents;
  /** Evaluations of all devices: a server runs few at a time. */
  readonly evaluations: SerialQueue;
  readonly clock: Clock;
  readonly fleet: string;
  readonly device: string;
  readonly line: string;
  readonly held: Pick<HeldLine, "key" | "require">;
  /** Registered data, on whose held-out samples candidates are measured. */
  readonly data: string;
  /** The longest time for the device to run the new model, and then to train it; milliseconds. */
  readonly patienceMs: number;
  /** Sends the device a request to train. */
  readonly request: (training: AskedTraining) => Promise<{
    readonly accepted: boolean;
    readonly message: string;
  }>;
}

/** Milliseconds between two looks, where no event comes: at what the server knows, and at the device itself. */
const lookMs = { server: 2_000, device: 15_000 };
/** The least milliseconds between two looks at the device, where events come, or where its training is judged. */
const minLookMs = 1_000;
/** A request to train that a device has neither begun nor refused after this time is sent again; milliseconds. */
const askAgainMs = 30_000;
/** The time between two tries of an evaluation while the server runs others; milliseconds. */
const evaluationPauseMs = 2_000;

/** The part of a device's report that is needed here. */
const reportSchema = z.object({
  training: z
    .object({
      line: z.string(),
      base: z.string().optional(),
      progress: z.object({ iteration: z.number().optional() }).optional(),
    })
    .nullable(),
  lines: z.array(
    z.object({
      line: z.string(),
      trainings: z.number(),
      lastFailure: z.object({ atMs: z.number(), code: z.string(), message: z.string() }).nullish(),
    }),
  ),
});

export type Version = CallOutput<"listModels">["versions"][number];

/** A training that a device is asked for. */
export interface AskedTraining {
  /** The version that the device was given. */
  readonly start: Hash;
  readonly parameters: Readonly<Record<string, string | number | boolean>>;
  /** True if it is judged while it trains: it then saves its state more often. */
  readonly isJudged?: boolean;
  /** Called at each look while it trains. */
  readonly watch?: (training: { readonly iteration: number | undefined }) => Promise<void>;
}

export class DeviceWork {
  constructor(private readonly options: DeviceWorkOptions) {}

  get device(): string {
    return this.options.device;
  }

  /** Gives the device a version, and waits until it runs it. @throws SEARCH_WORKER_LOST, TRAINING_STOPPED */
  async give(versionId: Hash, signal: AbortSignal | undefined): Promise<void> {
    const { operations, fleet, device, line, held } = this.options;
    // Each candidate may have another shape: that is what is tried.
    await operations.assign({ fleet, device, line, model: versionId, leaseKey: held.key, force: true });
    await this.until("run the model that it was given", () => this.#runs(versionId), signal);
  }

  /**
   * Has the device train the version that it runs.
   * @returns the stored version that it reported
   * @throws NOT_A_NUMBER; SEARCH_WORKER_LOST, TRAINING_STOPPED
   */
  async train(asked: AskedTraining, signal: AbortSignal | undefined): Promise<Version> {
    const request = new TrainingOfDevice(this.options, asked);
    return await this.until(
      "report a trained model",
      async () => (await this.trainedFrom(asked.start)) ?? (await request.look()),
      signal,
      asked.isJudged === true ? minLookMs : lookMs.server,
    );
  }

  /** The stored version that the device trained from this one. */
  async trainedFrom(start: Hash): Promise<Version | undefined> {
    const { operations, fleet, device, line } = this.options;
    const { versions } = await operations.listModels({ fleet, device, line, limit: 10 });
    return versions.find(({ record, state }) => record.bases.includes(start) && state !== "recorded");
  }

  /** Measures a version on the server, which runs few evaluations at a time. */
  async measure(versionId: Hash, signal: AbortSignal | undefined): Promise<CallOutput<"evaluate">> {
    const { operations, evaluations, fleet, data } = this.options;
    const evaluate = async (): Promise<CallOutput<"evaluate"> | undefined> => {
      try {
        return await operations.evaluate({ fleet, model: versionId, data, store: false }, { signal });
      } catch (error) {
        if (isStemmaError(error, "QUOTA_EXCEEDED")) return undefined;
        throw error;
      }
    };
    return evaluations.run(() => this.until("be measured", evaluate, signal, evaluationPauseMs));
  }

  /**
   * Looks until there is something. A server that cannot be reached for a while, and a device that is not connected,
   * are waited for.
   * @throws SEARCH_WORKER_LOST after the patience, TRAINING_STOPPED; TRAINING_REFUSED, LEASE_UNKNOWN where the line is
   * held no more
   */
  async until<T>(
    what: string,
    look: () => Promise<T | undefined>,
    signal: AbortSignal | undefined,
    everyMs = lookMs.server,
  ): Promise<T> {
    const { clock, events, device, held, patienceMs } = this.options;
    const endMs = clock.monotonic() + patienceMs;
    for (;;) {
      if (signal?.aborted === true) throw searchStopped();
      held.require();
      const moment = events.moment(device);
      const found = await unlessUnreachable(look);
      if (found !== undefined) return found;
      if (clock.monotonic() >= endMs)
        throw this.lost(`it did not ${what} within ${formatDuration(patienceMs)}`);
      await events.after(device, moment, { ms: everyMs, signal });
    }
  }

  lost(why: string): StemmaError {
    return workerLost(this.options.device, why);
  }

  /** @returns undefined until the device runs this version on the line. @throws SEARCH_WORKER_LOST */
  async #runs(versionId: Hash): Promise<true | undefined> {
    const { operations, fleet, device, line } = this.options;
    const { state, active, doubt } = await operations.device({ fleet, device });
    if (state !== "enrolled") throw this.lost(`it is ${state}`);
    if (doubt !== undefined) throw this.lost(`it does not believe this server: ${doubt.text}`);
    return active[line]?.versionId === versionId ? true : undefined;
  }
}

/** One training on a device: asked for, asked for again where the request was lost, and seen to fail. */
class TrainingOfDevice {
  readonly #options: DeviceWorkOptions;
  readonly #training: AskedTraining;
  #lookedMs = -Infinity;
  #moment: number | undefined;
  /** The state of the line when the training was asked for. */
  #asked:
    | { readonly atMs: number; readonly trainings: number; readonly failedAtMs: number | undefined }
    | undefined;

  constructor(options: DeviceWorkOptions, training: AskedTraining) {
    this.#options = options;
    this.#training = training;
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
    const { watch, isJudged } = this.#training;
    const isCalm = moment === this.#moment && isJudged !== true;
    if (now - this.#lookedMs < (isCalm ? lookMs.device : minLookMs)) return;
    this.#lookedMs = now;
    this.#moment = moment;
    const { training, trainings, lastFailure } = await this.#report();
    // It may train since before an evaluation was cut short.
    const isOurs = training?.base === this.#training.start;
    if (isOurs) await watch?.({ iteration: training?.progress?.iteration });
    if (this.#asked === undefined) {
      if (!isOurs) await this.#ask();
      this.#asked = { atMs: now, trainings, failedAtMs: lastFailure?.atMs };
      return;
    }
    if (lastFailure && lastFailure.atMs !== this.#asked.failedAtMs) {
      if (lastFailure.code === "NOT_A_NUMBER") throw new StemmaError("NOT_A_NUMBER", lastFailure.message);
      throw workerLost(
        device,
        `its training failed: ${lastFailure.message} [${lastFailure.code}]`,
        lastFailure,
      );
    }
    const isLost =
      training === undefined && trainings === this.#asked.trainings && now - this.#asked.atMs > askAgainMs;
    if (isLost) await this.#ask();
    if (isLost) this.#asked = { ...this.#asked, atMs: now };
  }

  async #ask(): Promise<void> {
    const { accepted, message } = await this.#options.request(this.#training);
    if (!accepted) throw workerLost(this.#options.device, `it does not train: ${message}`);
  }

  async #report(): Promise<{
    readonly training: z.infer<typeof reportSchema>["training"] | undefined;
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
      training: read.data.training?.line === line ? read.data.training : undefined,
      trainings: status.trainings,
      lastFailure: status.lastFailure,
    };
  }
}

/** @returns undefined also where the server or the device cannot be reached now */
async function unlessUnreachable<T>(look: () => Promise<T | undefined>): Promise<T | undefined> {
  try {
    return await look();
  } catch (error) {
    if (isStemmaError(error, "SERVER_UNREACHABLE") || isStemmaError(error, "TIMED_OUT")) return undefined;
    throw error;
  }
}
