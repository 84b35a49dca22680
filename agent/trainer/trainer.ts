/**
 * Fine-tunes lines when they are due or requested, one training at a time: training-job.ts prepares the job,
 * a child process trains, save-result.ts puts the result into the outbox. Knows no wire.
 */
import { join } from "node:path";
import { messageOf, stackOf } from "../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import type { Clock, Files, Log } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { trainInChild } from "../../shared/train/train-in-child.js";
import type { TrainingProgress } from "../../shared/train/training.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import { judgeDisk, type DiskUse } from "../resources/disk-budget.js";
import type { AgentConfig } from "../settings/config.js";
import type { Intake } from "../intake/intake.js";
import type { Activator } from "../lines/activator.js";
import type { Outbox } from "../outbox/outbox.js";
import type { Profile } from "../settings/profile.js";
import { decideTraining, pauseAfterFailuresMs, type ScheduleDecision } from "./schedule.js";
import { saveResult, type Trained } from "./save-result.js";
import { isOwnSamples, prepareJob, recipeOf, type TrainingRequest } from "./training-job.js";

export interface TrainerOptions {
  readonly files: Files;
  readonly home: string;
  readonly config: AgentConfig;
  readonly profile: Profile;
  readonly enrolment: Enrolment;
  readonly outbox: Outbox;
  readonly activator: Activator;
  readonly intakes: ReadonlyMap<string, Intake>;
  readonly clock: Clock;
  readonly log: Log;
  readonly train: typeof trainInChild;
  readonly version: string;
  readonly diskUse: () => Promise<DiskUse>;
  readonly clockErrorMs: () => number | null;
  /**
   * Whether the server answers now: a scheduled training then waits for the receipt of the previous model.
   */
  readonly isOnline: () => boolean;
  readonly utcOffsetMinutes: () => number;
  onTrained(line: string, trained: Trained): void;
  onEvent(name: string, text: string, line: string): void;
}

export interface Running {
  readonly line: string;
  readonly invocation: number;
  readonly because: string;
  /** Version that is trained from; it stays installed as long as the training runs. */
  readonly base: Hash;
  readonly progress: TrainingProgress | undefined;
}
interface RequestedTraining {
  readonly line: string;
  readonly request: TrainingRequest;
  readonly resolve: (trained: Trained) => void;
  readonly reject: (error: unknown) => void;
}

/** Milliseconds between two checks of the schedules; short schedules need short checks. */
const checkMs = { short: 500, long: 15_000 };
/**
 * Max milliseconds that a scheduled training waits for the receipt of the previous model, while the server
 * answers.
 */
const receiptPatienceMs = 10 * 60_000;

export class Trainer {
  readonly #requested: RequestedTraining[] = [];
  readonly #abort = new AbortController();
  #running: Running | undefined;
  #loop: Promise<void> | undefined;
  #cancelCheck: (() => void) | undefined;
  #stopped = false;
  readonly #reportedReason = new Map<string, string>();
  /** Scheduled trainings that failed in a row, and when the next may be tried. */
  readonly #failures = new Map<string, { readonly count: number; readonly retryAtMs: number }>();

  constructor(private readonly options: TrainerOptions) {}

  get running(): Running | undefined {
    return this.#running;
  }

  /** Removes what an interrupted training left, and checks the schedules from now on. */
  async start(): Promise<void> {
    await this.options.files.remove(join(this.options.home, "work"));
    this.wake();
  }

  /**
   * Requests a training now; resolves with its model.
   * @throws LINE_UNKNOWN, TRAINING_REFUSED, the training's own errors
   */
  request(line: string, request: TrainingRequest = {}): Promise<Trained> {
    if (!this.options.enrolment.lines.includes(line))
      return Promise.reject(
        new StemmaError(
          "LINE_UNKNOWN",
          `This device has no line "${line}"; it has ${this.options.enrolment.lines.join(", ")}.`,
          { line },
        ),
      );
    if (this.#stopped)
      return Promise.reject(
        new StemmaError("INTERRUPTED", "The agent is stopping; request it again after the next start."),
      );
    return new Promise((resolve, reject) => {
      this.#requested.push({ line, request, resolve, reject });
      this.wake();
    });
  }

  /** The recipe that a line would be trained with. @throws TRAINING_REFUSED where none is set */
  recipeOf(line: string, request: TrainingRequest): string {
    return recipeOf(this.options.config, line, request);
  }

  /** Something changed: checks the schedules now. */
  wake(): void {
    if (this.#stopped || this.#loop !== undefined) return;
    this.#cancelCheck?.();
    this.#loop = this.#runLoop();
  }

  async #runLoop(): Promise<void> {
    try {
      await this.#runDue();
    } catch (error) {
      this.options.log.error("trainer-failed", { text: stackOf(error) });
    }
    this.#loop = undefined;
    if (this.#stopped) return;
    if (this.#requested.length > 0) {
      this.wake();
      return;
    }
    this.#cancelCheck = this.options.clock.after(this.#checkEveryMs(), () => {
      this.wake();
    });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelCheck?.();
    this.#abort.abort();
    await this.#loop;
    for (const { reject } of this.#requested.splice(0))
      reject(
        new StemmaError(
          "INTERRUPTED",
          "The agent stopped before this training began; request it again after the next start.",
        ),
      );
  }

  #checkEveryMs(): number {
    const short = Object.values(this.options.config.lines).some(
      ({ schedule }) => typeof schedule.everySeconds === "number" && schedule.everySeconds < 120,
    );
    return short ? checkMs.short : checkMs.long;
  }

  /** Trains what is due, one after the other, until nothing is. */
  async #runDue(): Promise<void> {
    for (let worked = true; worked && !this.#stopped;) {
      worked = false;
      const requested = this.#requested.shift();
      if (requested !== undefined) {
        worked = true;
        await this.#trainRequested(requested);
        continue;
      }
      for (const line of this.options.enrolment.lines) {
        if (this.#stopped || this.#requested.length > 0) {
          worked = this.#requested.length > 0;
          break;
        }
        const decision = await this.#decide(line, false);
        if (!decision.train) {
          this.#reportRefusal(line, decision);
          continue;
        }
        worked = true;
        this.#reportedReason.delete(line);
        try {
          await this.#train(line, decision.because, {});
          this.#failures.delete(line);
        } catch (error) {
          this.#pause(line);
          this.#failed(line, error);
        }
      }
    }
  }

  async #trainRequested({ line, request, resolve, reject }: RequestedTraining): Promise<void> {
    try {
      const decision = await this.#decide(line, true);
      if (!decision.train)
        throw new StemmaError(
          decision.because === "disk" ? "DISK_BUDGET_EXHAUSTED" : "TRAINING_REFUSED",
          `The line ${line} cannot train now: ${decision.text}.`,
          { line, because: decision.because },
        );
      resolve(await this.#train(line, "asked", request));
    } catch (error) {
      this.#failed(line, error);
      reject(error);
    }
  }

  async #decide(line: string, requested: boolean): Promise<ScheduleDecision> {
    const { config, profile, outbox, activator, clock, intakes } = this.options;
    const settings = config.lines[line];
    if (!requested && settings?.recipe === undefined)
      return { train: false, because: "not-due", text: "no recipe is set for this line" };
    if (!requested && isOwnSamples(settings?.dataset) && (intakes.get(line)?.trainSince(0) ?? 0) === 0)
      return { train: false, because: "not-due", text: "no samples have come in yet" };
    const state = outbox.state.lines.get(line);
    const newest = outbox.newest(line);
    const disk = judgeDisk(
      profile.disk,
      await this.options.diskUse(),
      "train",
      2 * (newest?.tensorBytes ?? 0),
    );
    return decideTraining({
      training: profile.training,
      schedule: settings?.schedule ?? {},
      nowMs: clock.now(),
      utcOffsetMinutes: this.options.utcOffsetMinutes(),
      lastTrainingMs: state?.lastTrainingMs,
      trainings: state?.trainings ?? 0,
      newSamples: intakes.get(line)?.trainSince(state?.samplesEnd ?? 0) ?? 0,
      hasBase: activator.base(line) !== undefined,
      disk,
      requested,
      pausesAfterFailure: clock.monotonic() < (this.#failures.get(line)?.retryAtMs ?? 0),
      awaitsReceipt:
        profile.activation === "after-receipt" &&
        this.options.isOnline() &&
        newest?.standing === "pending" &&
        newest.refusal === undefined &&
        clock.now() - newest.savedAtMs < receiptPatienceMs,
    });
  }

  /** A full disk is reported once; the other reasons are not reported. */
  #reportRefusal(line: string, decision: Extract<ScheduleDecision, { train: false }>): void {
    const before = this.#reportedReason.get(line);
    this.#reportedReason.set(line, decision.because);
    if (decision.because === "disk" && before !== "disk")
      this.options.onEvent(
        "training-stopped",
        `${line} does not train: ${decision.text}. Nothing that is not released is dropped; it goes on when the server has released models, or with a larger budget.`,
        line,
      );
  }

  /**
   * Pauses a line: a training that failed before it was counted (no samples, a full disk) would be due again
   * immediately.
   */
  #pause(line: string): void {
    const count = (this.#failures.get(line)?.count ?? 0) + 1;
    this.#failures.set(line, {
      count,
      retryAtMs: this.options.clock.monotonic() + pauseAfterFailuresMs(count),
    });
  }

  #failed(line: string, error: unknown): void {
    if (this.#stopped && isStemmaError(error, "TRAINING_STOPPED")) return;
    this.options.onEvent("training-failed", `${line} could not train: ${messageOf(error)}`, line);
  }

  async #train(line: string, because: string, request: TrainingRequest): Promise<Trained> {
    const { outbox, activator, files, home, clock, log } = this.options;
    const base = activator.base(line);
    if (base === undefined)
      throw new StemmaError(
        "TRAINING_REFUSED",
        `The line ${line} has no model to start from. Assign one on the server.`,
        { line },
      );
    const { record } = await outbox.record(base.versionId);
    if (record.kind === "opaque")
      throw new StemmaError(
        "MODEL_OPAQUE",
        `The model "${record.name}" of ${line} came without an architecture, so it can be kept and used but not trained. Assign one that was imported with --arch.`,
        { line },
      );
    const invocation = (outbox.state.lines.get(line)?.trainings ?? 0) + 1;
    const { job, samples } = await prepareJob(this.options, { line, base, request, invocation });
    // Counted before it starts: a training that fails has used its random streams.
    await outbox.append({
      type: "training",
      atMs: Math.round(clock.now()),
      line,
      invocation,
      because,
      samplesEnd: samples?.to ?? 0,
    });
    const workFolder = join(home, "work", `${line}-${invocation}`);
    this.#running = { line, invocation, because, base: base.versionId, progress: undefined };
    log.info("training", {
      line,
      invocation,
      because,
      recipe: job.recipe,
      base: base.versionId,
      text: `${line} trains with ${job.recipe} (${because})`,
    });
    try {
      await files.makeFolder(workFolder);
      const outcome = await this.options.train(job, {
        workFolder,
        signal: this.#abort.signal,
        memoryLimitMb: job.memoryLimitMb,
        onProgress: (progress) => {
          this.#progress(progress);
        },
      });
      const trained = await saveResult(this.options, { line, base: base.versionId, outcome, samples });
      this.options.onTrained(line, trained);
      return trained;
    } finally {
      this.#running = undefined;
      await files.remove(workFolder);
    }
  }

  #progress(progress: TrainingProgress): void {
    if (this.#running !== undefined) this.#running = { ...this.#running, progress };
  }
}
