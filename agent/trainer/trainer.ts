/**
 * Decides which line trains next: trainings that were cut short, then those that are requested, then those that
 * are due, one at a time. training-runs.ts runs them. Knows no wire.
 */
import { messageOf, stackOf } from "../../shared/error-text.js";
import { isStemmaError } from "../../shared/errors.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import type {
  EndTrainingRequest,
  TrainingCourse,
  TrainingCourseRequest,
} from "../../shared/wire/judged-training.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { ownRecipeName } from "../../shared/wire/recipe-commands.js";
import type { IntakeStatus } from "../intake/intake-answers.js";
import type { BegunTraining } from "../outbox/outbox-state.js";
import { nextActivation } from "../lines/activation.js";
import { judgeDisk, type DiskVerdict } from "../resources/disk-budget.js";
import { decideAgain } from "./begun-training.js";
import { originalBytesIn } from "../../shared/programs/job-folder.js";
import { decideTraining, pauseAfterFailuresMs, type ScheduleDecision } from "./schedule.js";
import type { Trained } from "./save-result.js";
import {
  cannotTrainNow,
  deviceBusy,
  earlierUnfinished,
  lineUnknown,
  notThisTraining,
  trainingInterrupted,
} from "./trainer-errors.js";
import { configuredRecipe, isOwnSamples, recipeOf, type TrainingRequest } from "./training-job.js";
import { TrainingRuns, type Running, type TrainingRunsOptions } from "./training-runs.js";

export interface TrainerOptions extends TrainingRunsOptions {
  readonly enrolment: Pick<Enrolment, "fleet" | "device" | "lines">;
  /** True if the server answers now: a scheduled training then waits for the receipt of the previous model. */
  readonly isOnline: () => boolean;
  readonly utcOffsetMinutes: () => number;
  /** True if the server has set that no training begins by itself. */
  readonly isSwitchedOff: () => boolean;
}

/** The work other than training that is done between two trainings. */
interface RequestedWork {
  readonly run: () => Promise<void>;
  readonly reject: (error: unknown) => void;
}

interface RequestedTraining {
  readonly line: string;
  readonly request: TrainingRequest;
  readonly resolve: (trained: Trained) => void;
  readonly reject: (error: unknown) => void;
}

/** The longest text of a failure in the agent's status, in UTF-16 code units: a report has to fit into one message. */
const maxFailureLength = 500;

export interface TrainingFailure {
  /** The time by the device's clock. */
  readonly atMs: number;
  readonly code: string;
  readonly message: string;
}

/** Milliseconds between two checks of the schedules; short schedules need short checks. */
const checkMs = { short: 500, long: 15_000 };
/**
 * Max milliseconds that a scheduled training waits for the receipt of the previous model, while the server
 * answers.
 */
const receiptPatienceMs = 10 * 60_000;
/**
 * Milliseconds for which no training begins by itself after one because of which other work was refused. The server
 * asks again within a minute, and a device that trains all the time would never be free by chance.
 */
const keptFreeMs = 90_000;

export class Trainer {
  readonly #requested: (RequestedTraining | RequestedWork)[] = [];
  readonly #runs: TrainingRuns;
  #loop: Promise<void> | undefined;
  #cancelCheck: (() => void) | undefined;
  #stopped = false;
  readonly #reportedReason = new Map<string, string>();
  /** Scheduled trainings that failed in a row, and when the next may be tried. */
  readonly #failures = new Map<
    string,
    { readonly count: number; readonly retryAtMs: number; readonly text: string }
  >();
  /** The reason why each line did not train when its schedule was last checked. */
  readonly #standstills = new Map<string, string>();
  /** The failure of each line whose last training failed, requested or not. */
  readonly #lastFailures = new Map<string, TrainingFailure>();
  /** The time when a training that was cut short begins again, by line. */
  readonly #againAtMs = new Map<string, number>();
  /** Called when the training that runs has ended. */
  readonly #waitForEnd: (() => void)[] = [];
  /** True if other work was refused because of the training that runs. */
  #refusedWork = false;
  /** The time until when no training begins by itself, by the monotonic clock. */
  #keptFreeUntilMs = -Infinity;

  constructor(private readonly options: TrainerOptions) {
    this.#runs = new TrainingRuns(options);
  }

  get running(): Running | undefined {
    return this.#runs.running;
  }

  /** Returns why a line does not train now, for people; undefined while it trains or has not been checked yet. */
  standstill(line: string): string | undefined {
    if (this.running?.line === line) return undefined;
    const failure = this.#failures.get(line);
    return failure === undefined ? this.#standstills.get(line) : `its last training failed: ${failure.text}`;
  }

  /** Returns why the last training of a line failed; undefined where it did not. */
  lastFailure(line: string): TrainingFailure | undefined {
    return this.#lastFailures.get(line);
  }

  /** Removes what earlier trainings left, begins those again that were cut short, and checks the schedules. */
  async start(): Promise<void> {
    await this.#runs.clearWork();
    this.wake();
  }

  /**
   * Requests a training now; resolves with its model.
   * @throws LINE_UNKNOWN, TRAINING_REFUSED, the training's own errors
   */
  request(line: string, request: TrainingRequest = {}): Promise<Trained> {
    if (!this.options.enrolment.lines.includes(line))
      return Promise.reject(lineUnknown(line, this.options.enrolment.lines));
    if (this.#stopped) return Promise.reject(trainingInterrupted());
    return new Promise((resolve, reject) => {
      this.#requested.push({ line, request, resolve, reject });
      this.wake();
    });
  }

  /**
   * Runs other work than a training while none runs, and keeps the next one from beginning meanwhile. Where a
   * training runs, the next one leaves time to ask again.
   * @throws TRAINING_REFUSED while a training runs, what the work throws
   */
  between<T>(work: () => Promise<T>): Promise<T> {
    const { running } = this;
    this.#refusedWork = running !== undefined;
    if (running !== undefined || this.#stopped) return Promise.reject(deviceBusy(running?.line));
    return new Promise((resolve, reject) => {
      this.#requested.push({ run: () => work().then(resolve, reject), reject });
      this.wake();
    });
  }

  /** The losses of the training that runs. @throws NOT_FOUND where another one runs, or none */
  async course({ line, base, steps }: TrainingCourseRequest): Promise<TrainingCourse> {
    return await this.#runs.course(this.#requireRunning(line, base), steps);
  }

  /** Ends the training that runs, without a model; resolves when it has ended. @throws NOT_FOUND */
  async end({ line, base }: EndTrainingRequest): Promise<void> {
    this.#requireRunning(line, base);
    const ended = new Promise<void>((resolve) => this.#waitForEnd.push(resolve));
    this.#runs.end();
    await ended;
  }

  #requireRunning(line: string, base: Hash): Running {
    const { running } = this;
    if (running?.line !== line || running.base !== base) throw notThisTraining(line);
    return running;
  }

  /** The recipe that a line would be trained with. @throws TRAINING_REFUSED where none is set */
  recipeOf(line: string, request: TrainingRequest): string {
    return recipeOf(this.options.config, line, request);
  }

  /** Checks the schedules now, because something changed. */
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

  /**
   * Begins nothing more, and waits until what runs has ended or a training has saved a further state, from which it
   * goes on at the next start without doing a step again. What is running when `limit` aborts is left to `stop`.
   */
  async settle(limit: AbortSignal): Promise<void> {
    this.#stopped = true;
    this.#cancelCheck?.();
    const settled = new AbortController();
    const signal = AbortSignal.any([limit, settled.signal]);
    await Promise.race([this.#loop, this.#runs.untilFurther(signal)]);
    settled.abort();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelCheck?.();
    this.#runs.stop();
    await this.#loop;
    for (const { reject } of this.#requested.splice(0)) reject(trainingInterrupted());
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
        if ("run" in requested) {
          this.#keptFreeUntilMs = -Infinity;
          await requested.run();
        } else await this.#trainRequested(requested);
        continue;
      }
      for (const line of this.options.enrolment.lines) {
        if (this.#stopped || this.#requested.length > 0) {
          worked = this.#requested.length > 0;
          break;
        }
        this.#keepFree();
        if (this.options.clock.monotonic() < this.#keptFreeUntilMs) {
          this.#standstills.set(line, "an evaluation that was refused because of a training is expected");
          continue;
        }
        const begun = this.#begun(line);
        if (await (begun === undefined ? this.#trainDue(line) : this.#trainAgain(line, begun, false)))
          worked = true;
      }
    }
  }

  /** Leaves time after a training because of which other work was refused. */
  #keepFree(): void {
    if (this.#refusedWork) this.#keptFreeUntilMs = this.options.clock.monotonic() + keptFreeMs;
    this.#refusedWork = false;
  }

  /** Trains a line where its schedule says so; returns whether it did. */
  async #trainDue(line: string): Promise<boolean> {
    const decision = await this.#decide(line, false);
    if (!decision.train && decision.because === "activation") return await this.#activateNewest(line);
    if (!decision.train) {
      this.#reportRefusal(line, decision);
      return false;
    }
    this.#reportedReason.delete(line);
    this.#standstills.delete(line);
    try {
      await this.#runs.begin(line, { because: decision.because, request: {} });
      this.#succeeded(line);
    } catch (error) {
      this.#pause(line, error);
      this.#failed(line, error);
    }
    return true;
  }

  /**
   * Switches a line to the newest model that may run, so that its next training builds on it. Returns true. A
   * failure is reported, and the line pauses.
   */
  async #activateNewest(line: string): Promise<true> {
    try {
      await this.options.activator.activateNewest(line);
    } catch (error) {
      this.#pause(line, error);
      this.options.onEvent(
        "activation-failed",
        `the newest model of ${line} cannot be activated, and no scheduled training begins before it is: ${messageOf(error)}`,
        line,
      );
    }
    return true;
  }

  /** The training of a line that was cut short. */
  #begun(line: string): BegunTraining | undefined {
    return this.options.outbox.state.lines.get(line)?.begun;
  }

  /** Begins a training again that was cut short, or gives it up; returns whether it did either. */
  async #trainAgain(line: string, begun: BegunTraining, isRequested: boolean): Promise<boolean> {
    const { config, profile, clock, utcOffsetMinutes } = this.options;
    const disk = await this.#judgeDisk(line);
    const decision = decideAgain({
      line,
      begun,
      saved: await this.#runs.savedProgress(line, begun),
      recipe: configuredRecipe(config.lines[line]),
      training: profile.training,
      nowMs: clock.now(),
      utcOffsetMinutes: utcOffsetMinutes(),
      disk,
      isSwitchedOff: this.options.isSwitchedOff(),
      isRequested,
    });
    if (decision.do === "wait") {
      if (!disk.allowed) this.#reportRefusal(line, { train: false, because: "disk", text: disk.reason });
      return false;
    }
    this.#reportedReason.delete(line);
    try {
      if (decision.do === "give-up") {
        await this.#runs.fail(line, begun, decision.error);
        throw decision.error;
      }
      const againAtMs = this.#againAtMs.get(line) ?? clock.monotonic() + decision.afterMs;
      this.#againAtMs.set(line, againAtMs);
      if (!isRequested && clock.monotonic() < againAtMs) return false;
      this.#againAtMs.delete(line);
      await this.#runs.again(line, begun);
      this.#succeeded(line);
    } catch (error) {
      this.#pause(line, error);
      this.#failed(line, error);
    }
    return true;
  }

  async #trainRequested({ line, request, resolve, reject }: RequestedTraining): Promise<void> {
    try {
      const begun = this.#begun(line);
      if (begun !== undefined) await this.#trainAgain(line, begun, true);
      if (this.#begun(line) !== undefined) throw earlierUnfinished(line);
      await this.#activateNewest(line);
      const decision = await this.#decide(line, true);
      if (!decision.train) throw cannotTrainNow(line, decision.because, decision.text);
      const trained = await this.#runs.begin(line, { because: "asked", request });
      this.#succeeded(line);
      resolve(trained);
    } catch (error) {
      this.#failed(line, error);
      reject(error);
    }
  }

  async #decide(line: string, requested: boolean): Promise<ScheduleDecision> {
    const { config, profile, outbox, activator, clock, intakes } = this.options;
    const settings = config.lines[line];
    if (!requested && configuredRecipe(settings) === undefined)
      return { train: false, because: "not-due", text: "no recipe is set for this line" };
    const own = ownRecipeName(configuredRecipe(settings) ?? "");
    if (!requested && own !== undefined) {
      const whyNot = await this.options.recipes.whyNot(own);
      if (whyNot !== undefined) return { train: false, because: "not-due", text: whyNot };
    }
    if (!requested && isOwnSamples(settings?.dataset) && settings?.trainer?.samples !== false) {
      const samples = await intakes.get(line)?.status();
      if ((samples?.train ?? 0) === 0) return withoutSamples(samples);
    }
    const disk = await this.#judgeDisk(line);
    const state = outbox.state.lines.get(line);
    const newest = outbox.newest(line);
    return decideTraining({
      training: profile.training,
      schedule: settings?.schedule ?? {},
      nowMs: clock.now(),
      utcOffsetMinutes: this.options.utcOffsetMinutes(),
      lastTrainingMs: state?.lastTrainingMs,
      trainings: state?.trainings ?? 0,
      newSamples: (await intakes.get(line)?.trainSince(state?.samplesEnd ?? 0)) ?? 0,
      hasBase: activator.base(line) !== undefined,
      disk,
      requested,
      isSwitchedOff: this.options.isSwitchedOff(),
      pausesAfterFailure: clock.monotonic() < (this.#failures.get(line)?.retryAtMs ?? 0),
      awaitsActivation: nextActivation(outbox.state, line, profile.activation) !== undefined,
      awaitsReceipt:
        profile.activation === "after-receipt" &&
        this.options.isOnline() &&
        newest?.standing === "pending" &&
        newest.refusal === undefined &&
        clock.now() - newest.savedAtMs < receiptPatienceMs,
    });
  }

  async #judgeDisk(line: string): Promise<DiskVerdict> {
    const { profile, outbox, diskUse, activator, config } = this.options;
    const use = await diskUse();
    const base = activator.base(line);
    // A program works on a copy of its base, with the file in the layout that the base came in.
    const original =
      config.lines[line]?.trainer === undefined || base === undefined
        ? 0
        : await originalBytesIn(base.folder);
    const needed = 2 * (outbox.newest(line)?.tensorBytes ?? 0) + original;
    return judgeDisk(profile.disk, use, "train", needed);
  }

  /** A full disk is reported once; the other reasons are not reported. */
  #reportRefusal(line: string, decision: Extract<ScheduleDecision, { train: false }>): void {
    const before = this.#reportedReason.get(line);
    this.#reportedReason.set(line, decision.because);
    this.#standstills.set(line, decision.text);
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
  #pause(line: string, error: unknown): void {
    const count = (this.#failures.get(line)?.count ?? 0) + 1;
    this.#failures.set(line, {
      count,
      retryAtMs: this.options.clock.monotonic() + pauseAfterFailuresMs(count),
      text: messageOf(error),
    });
  }

  #succeeded(line: string): void {
    this.#told();
    this.#failures.delete(line);
    this.#lastFailures.delete(line);
  }

  #told(): void {
    for (const resolve of this.#waitForEnd.splice(0)) resolve();
  }

  #failed(line: string, error: unknown): void {
    this.#told();
    if (this.#stopped) return;
    if (this.#begun(line) === undefined) {
      this.#lastFailures.set(line, {
        atMs: Math.round(this.options.clock.now()),
        code: isStemmaError(error) ? error.code : "INTERNAL",
        message: messageOf(error).slice(0, maxFailureLength),
      });
      this.options.onEvent("training-failed", `${line} could not train: ${messageOf(error)}`, line);
    } else
      this.options.onEvent(
        "training-cut-short",
        `the training of ${line} was cut short: ${messageOf(error)} It goes on by itself.`,
        line,
      );
  }
}

function withoutSamples(samples: IntakeStatus | undefined): ScheduleDecision {
  const text =
    samples === undefined || samples.unfit === 0
      ? "no samples to train on have come in yet"
      : `none of its samples can be trained on; ${samples.unfit} do not fit its model, which needs ${samples.form ?? "another form"}`;
  return { train: false, because: "not-due", text };
}
