/**
 * Trials on live inputs: the device's own software runs a staged version beside what the line runs, and tells what came
 * of each input. What it told is durable before it is answered, and a restarted agent goes on with it. A line has at
 * most one trial. Nothing here switches a line.
 */
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError } from "../../shared/errors.js";
import type { Clock, Files, Log } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { trialComplete } from "../../shared/wire/device-events.js";
import type { TrialAnswer, TrialEnd, TrialRequest } from "../../shared/wire/live-trial.js";
import type { Observation, Observations } from "../control/observation.js";
import type { Activator, BaseFolder } from "../lines/activator.js";
import type { Outbox } from "../outbox/outbox.js";
import type { ReleaseTrust } from "../releases/release-trust.js";
import { observedOf } from "./observed.js";
import { openTrial, removeTrial, trialFolder, type OpenTrial } from "./open-trial.js";
import type { ObservationsTaken, TrialForSoftware, TrialStatus } from "./trial-answers.js";
import { notHereYet, notOnTrial, otherModelRuns } from "./trial-errors.js";
import type { TrialFact, TrialFold } from "./trial-fold.js";

export interface LiveTrialsOptions {
  readonly files: Files;
  readonly home: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly lines: readonly string[];
  readonly activator: Pick<Activator, "base" | "installBase" | "installed" | "discard">;
  readonly outbox: Pick<Outbox, "entry" | "dropStaged">;
  readonly releases: Pick<ReleaseTrust, "requireInstallable">;
  /** Versions whose installed files something else reads. */
  readonly inUse: () => ReadonlySet<Hash>;
  /** Reports an event to the log and to the server. */
  readonly onEvent: (name: string, text: string, line: string) => void;
}

/** The time for which the software of a line counts as taking part after it last asked. */
const takesPartMs = 10 * 60_000;
/** The interval in which the time of a trial is written down; a killed agent forgets at most this much. */
const noteTimeMs = 5 * 60_000;
/** Errors after which what the software told cannot be read again. */
const damaged = new Set(["JOURNAL_CORRUPT", "JOURNAL_FORMAT_UNKNOWN"]);

export class LiveTrials {
  readonly #queue = new SerialQueue();
  readonly #open = new Map<string, OpenTrial>();
  /** The time when the software of a line last asked, by the monotonic clock. */
  readonly #askedAt = new Map<string, number>();
  /** Trials whose installed files were compared with their manifest since the agent started. */
  readonly #verified = new WeakSet<TrialFold>();
  readonly #allowance: ObservationAllowance;

  private constructor(private readonly options: LiveTrialsOptions) {
    this.#allowance = new ObservationAllowance(options.clock);
  }

  /** Goes on with the trials of the last run. One whose file is damaged is dropped: the server begins it again. */
  static async open(options: LiveTrialsOptions): Promise<LiveTrials> {
    const trials = new LiveTrials(options);
    for (const line of options.lines) await trials.#reopen(line);
    return trials;
  }

  /** Versions on trial, whose installed files stay. */
  get inUse(): ReadonlySet<Hash> {
    return new Set([...this.#open.values()].map(({ fold }) => fold.request.versionId));
  }

  /** Empty where the line's software takes part in trials; else why not. */
  absence(line: string): string {
    const askedAt = this.#askedAt.get(line);
    if (askedAt === undefined) return "its software has not asked for trials on live inputs";
    const isRecent = this.options.clock.monotonic() - askedAt < takesPartMs;
    return isRecent ? "" : "its software has not asked for trials on live inputs for 10 minutes";
  }

  /**
   * The server asks for a trial: begins it, or goes on with it, and tells how far it is.
   * @throws MODEL_NOT_FOUND while the version is not here, TRIAL_REFUSED where the line runs something else, the
   * errors of an installation and of requireInstallable
   */
  ask(request: TrialRequest): Promise<TrialAnswer> {
    return this.#queue.run(async () => {
      const { line, versionId, before } = request;
      if (!this.#open.has(line)) await this.#reopen(line);
      await this.#current(line);
      await this.#requireInstallable(line, versionId);
      if (this.#runs(line)?.versionId !== before) throw otherModelRuns(line, before);
      const known = this.#open.get(line);
      const isSame = known !== undefined && isSameTrial(known.fold.request, request);
      if (known !== undefined && !isSame) {
        await this.#drop(line, "another one takes its place");
        if (known.fold.request.versionId !== versionId)
          await this.#remove(line, known.fold.request.versionId);
      }
      const trial = isSame ? known : await this.#begin(request);
      await this.#count(trial);
      return trial.fold.answer(this.absence(line));
    });
  }

  /** The server ends a trial, which may have ended; the version goes, where the line does not run it. */
  end({ line, rollout, versionId }: TrialEnd): Promise<void> {
    return this.#queue.run(async () => {
      const request = this.#open.get(line)?.fold.request;
      // It may be on trial by another rollout now.
      if (request?.versionId === versionId && request.rollout !== rollout) return;
      if (request?.versionId === versionId) await this.#drop(line, "the server ends it");
      await this.#remove(line, versionId);
    });
  }

  /** Returns the progress of the line's trial; undefined: it has none. */
  status(line: string): TrialStatus | undefined {
    const fold = this.#open.get(line)?.fold;
    if (fold === undefined) return undefined;
    const { rollout, versionId, inputs: wanted } = fold.request;
    const { compared, waitingInputs: waiting, isOver } = fold;
    return { rollout, versionId, wanted, compared, waiting, isOver };
  }

  /** The software asks what is on trial. */
  forSoftware(line: string): Promise<TrialForSoftware> {
    this.#askedAt.set(line, this.options.clock.monotonic());
    return this.#queue.run(async () => {
      const running = this.#runs(line) ?? null;
      const trial = await this.#current(line);
      if (trial === undefined) return { line, trial: null, running, inputs: null };
      const { fold } = trial;
      const isNeeded = !fold.isComplete && !fold.isOver;
      const { compared, waitingInputs: waiting, request } = fold;
      const inputs = { wanted: request.inputs, compared, waiting };
      return { line, trial: isNeeded ? await this.#installed(trial) : null, running, inputs };
    });
  }

  /**
   * The software tells what came of live inputs; resolves once that is durable.
   * @throws TRIAL_REFUSED where these models are not on trial, SAMPLE_INVALID, DISK_FULL
   */
  observe(
    line: string,
    { trial: versionId, running, observations }: Observations,
  ): Promise<ObservationsTaken> {
    this.#askedAt.set(line, this.options.clock.monotonic());
    return this.#queue.run(async () => {
      const trial = await this.#current(line);
      const request = trial?.fold.request;
      if (trial === undefined || request?.versionId !== versionId || request.before !== running)
        throw notOnTrial(line, versionId, running);
      const { fold } = trial;
      const before = fold.isComplete;
      const taken = before || fold.isOver ? 0 : await this.#take(trial, observations);
      if (fold.isComplete && !before)
        this.options.onEvent(
          trialComplete,
          `the software of ${line} compared ${versionId.slice(0, 12)} on ${fold.compared} live inputs`,
          line,
        );
      return {
        taken,
        skipped: observations.length - taken,
        compared: fold.compared,
        wanted: request.inputs,
        isComplete: fold.isComplete,
      };
    });
  }

  /** Regularly: counts the time of trials, and ends those whose version was revoked. */
  housekeeping(): Promise<void> {
    return this.#queue.run(async () => {
      for (const line of this.options.lines) {
        try {
          const trial = await this.#current(line);
          if (trial !== undefined) await this.#count(trial);
        } catch (error) {
          if (!isStemmaError(error)) throw error;
          // A full disk: what else the agent does regularly may free some space.
          this.options.log.warn("trial-not-written", { line, code: error.code, text: error.message });
        }
      }
    });
  }

  stop(): Promise<void> {
    return this.#queue.run(async () => {
      for (const trial of this.#open.values()) {
        await this.#count(trial, { always: true }).catch((error: unknown) => {
          this.options.log.warn("trial-time-lost", { text: messageOf(error) });
        });
        await trial.close();
      }
      this.#open.clear();
    });
  }

  #runs(line: string): BaseFolder | undefined {
    return this.options.activator.base(line);
  }

  /** The trial of a line, unless what it compares has changed or was revoked. */
  async #current(line: string): Promise<OpenTrial | undefined> {
    const trial = this.#open.get(line);
    if (trial === undefined) return undefined;
    const { versionId, before } = trial.fold.request;
    if (this.#runs(line)?.versionId !== before) {
      await this.#drop(line, "the line runs another model now");
      return undefined;
    }
    try {
      await this.#requireInstallable(line, versionId);
      return trial;
    } catch (error) {
      if (isStemmaError(error, "RELEASE_REVOKED") || isStemmaError(error, "MODEL_NOT_FOUND")) {
        await this.#drop(line, messageOf(error));
        await this.#remove(line, versionId);
      }
      return undefined;
    }
  }

  /** @throws MODEL_NOT_FOUND, RELEASE_REVOKED and the others of ReleaseTrust.requireInstallable */
  async #requireInstallable(line: string, versionId: Hash): Promise<void> {
    const entry = this.options.outbox.entry(versionId);
    if (entry?.lines.includes(line) !== true) throw notHereYet(line, versionId);
    await this.options.releases.requireInstallable({ versionId, isOwn: entry.origin === "trained" });
  }

  async #begin(request: TrialRequest): Promise<OpenTrial> {
    const { line, versionId, inputs } = request;
    await this.options.activator.installBase(line, versionId);
    await removeTrial(this.options.files, this.#folder(line));
    const trial = await openTrial(this.options, this.#folder(line), request);
    this.#verified.add(trial.fold);
    this.#open.set(line, trial);
    this.options.log.info("trial-began", {
      line,
      versionId,
      text: `${versionId.slice(0, 12)} is on trial on ${inputs} live inputs of ${line}`,
    });
    return trial;
  }

  /** The installed version, compared with its manifest once after each start. */
  async #installed({ fold }: OpenTrial): Promise<BaseFolder> {
    const { line, versionId } = fold.request;
    const { activator } = this.options;
    const known = this.#verified.has(fold) ? await activator.installed(versionId) : undefined;
    const installed = known ?? (await activator.installBase(line, versionId));
    this.#verified.add(fold);
    return installed;
  }

  /** @returns how many were taken */
  async #take(trial: OpenTrial, observations: readonly Observation[]): Promise<number> {
    const { fold } = trial;
    const { line } = fold.request;
    // All are checked before any is taken.
    const waiting = new Map<string, ReturnType<typeof fold.waiting>>();
    const observed = observations.map((observation, at) => {
      const { id } = observation;
      const earlier = id === undefined ? undefined : (waiting.get(id) ?? fold.waiting(id));
      const input = observedOf(observation, earlier, at);
      if (input?.id !== undefined) waiting.set(input.id, input.outputs);
      return input;
    });
    const kept = observed.filter((input) => input !== undefined).slice(0, this.#allowance.of(line));
    const inputs = kept.filter((input) => {
      if (!fold.takes(input)) return false;
      fold.apply({ type: "observed", inputs: [input] });
      return true;
    });
    if (inputs.length === 0) return 0;
    this.#allowance.spend(line, inputs.length);
    await this.#write(trial, { type: "observed", inputs });
    return inputs.length;
  }

  /** Counts the time since the last call. */
  async #count(trial: OpenTrial, { always = false } = {}): Promise<void> {
    const { fold } = trial;
    const nowMs = this.options.clock.monotonic();
    const ms = fold.ranMs + Math.max(0, nowMs - trial.countedAtMs);
    trial.countedAtMs = nowMs;
    fold.apply({ type: "ran", ms });
    if (!always && nowMs - trial.notedAtMs < noteTimeMs && !fold.isOver) return;
    if (ms === trial.notedMs) return;
    trial.notedAtMs = nowMs;
    trial.notedMs = ms;
    await this.#write(trial, { type: "ran", ms });
  }

  async #write(trial: OpenTrial, fact: TrialFact): Promise<void> {
    try {
      await trial.write(fact);
    } catch (error) {
      // What is on the disk counts.
      await trial.close().catch(() => undefined);
      await this.#reopen(trial.fold.request.line);
      throw error;
    }
  }

  async #drop(line: string, because: string): Promise<void> {
    const trial = this.#open.get(line);
    if (trial === undefined) return;
    this.#open.delete(line);
    await trial.close().catch(() => undefined);
    await removeTrial(this.options.files, this.#folder(line));
    this.options.log.info("trial-ended", {
      line,
      versionId: trial.fold.request.versionId,
      text: `the trial on live inputs of ${line} ended: ${because}`,
    });
  }

  async #remove(line: string, versionId: Hash): Promise<void> {
    const { activator, outbox, inUse } = this.options;
    await activator.discard(versionId, new Set([...inUse(), ...this.inUse]));
    await outbox.dropStaged(line, versionId);
  }

  async #reopen(line: string): Promise<void> {
    const { files, log } = this.options;
    this.#open.delete(line);
    try {
      const trial = await openTrial(this.options, this.#folder(line), undefined);
      if (trial !== undefined) this.#open.set(line, trial);
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      log.warn("trial-not-read", { line, code: error.code, text: error.message });
      if (damaged.has(error.code)) await removeTrial(files, this.#folder(line)).catch(() => undefined);
    }
  }

  #folder(line: string): string {
    return trialFolder(this.options.home, line);
  }
}

function isSameTrial(a: TrialRequest, b: TrialRequest): boolean {
  return (
    a.rollout === b.rollout &&
    a.versionId === b.versionId &&
    a.before === b.before &&
    a.inputs === b.inputs &&
    a.minutes === b.minutes
  );
}

/** Observations of a line that are kept in a minute; inputs close to each other say little more than one. */
const perMinute = 600;

/** Limits how many observations of a line are kept now: software that floods the agent gets no more than a rate. */
class ObservationAllowance {
  readonly #lines = new Map<string, { left: number; atMs: number }>();

  constructor(private readonly clock: Pick<Clock, "monotonic">) {}

  /** Returns how many may be kept at this moment; it grows with the time, to those of a minute. */
  of(line: string): number {
    const nowMs = this.clock.monotonic();
    const { left, atMs } = this.#lines.get(line) ?? { left: perMinute, atMs: nowMs };
    const now = Math.min(perMinute, left + ((nowMs - atMs) * perMinute) / 60_000);
    this.#lines.set(line, { left: now, atMs: nowMs });
    return Math.floor(now);
  }

  spend(line: string, count: number): void {
    const allowance = this.#lines.get(line);
    if (allowance !== undefined) allowance.left -= count;
  }
}
