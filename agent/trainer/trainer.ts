/**
 * Fine-tunes lines when they are due or asked for: job from the line's settings and its active model,
 * training in a child process, result into the outbox. One training at a time. Knows no wire.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import { decodeArchitecture } from "../../shared/model/architecture.js";
import { decodeNames } from "../../shared/model/names.js";
import type { Clock, Files, Log } from "../../shared/ports.js";
import { modelSourceOfSafetensors } from "../../shared/save/model-source.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { trainInChild, TrainingOutcome } from "../../shared/train/train-in-child.js";
import { environmentOfTraining } from "../../shared/train/training-environment.js";
import { metadataOfResult } from "../../shared/train/result-metadata.js";
import type { DatasetReference, TrainingJob, TrainingProgress } from "../../shared/train/training.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import { judgeDisk, type DiskUse } from "../resources/disk-budget.js";
import type { AgentConfig, LineConfig } from "../settings/config.js";
import type { Intake } from "../intake/intake.js";
import type { Activator } from "../lines/activator.js";
import type { Outbox } from "../outbox/outbox.js";
import type { Profile } from "../settings/profile.js";
import { decideTraining, pauseAfterFailuresMs, type ScheduleDecision } from "./schedule.js";
import { settingsOf } from "./training-settings.js";

export interface TrainingRequest {
  readonly recipe?: string;
  readonly parameters?: Readonly<Record<string, string | number | boolean>>;
}
export interface Trained {
  readonly versionId: Hash;
  readonly sequence: number;
  readonly metric: {
    readonly name: string;
    readonly unit: string;
    readonly before: number;
    readonly after: number;
  };
}

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
  /** The server answers now: a scheduled training waits for the receipt of the one before. */
  readonly isOnline: () => boolean;
  readonly utcOffsetMinutes: () => number;
  onTrained(line: string, trained: Trained): void;
  onEvent(name: string, text: string, line: string): void;
}

export interface Running {
  readonly line: string;
  readonly invocation: number;
  readonly because: string;
  /** Its slot stays as long as the training runs. */ readonly base: Hash;
  readonly progress: TrainingProgress | undefined;
}
interface Asked {
  readonly line: string;
  readonly request: TrainingRequest;
  resolve(trained: Trained): void;
  reject(error: unknown): void;
}

/** How often schedules are looked at: short ones need it often. */
const checkMs = { short: 500, long: 15_000 };
/** A scheduled training waits this long for the receipt of the one before, while the server answers. */
const receiptPatienceMs = 10 * 60_000;

export class Trainer {
  readonly #asked: Asked[] = [];
  readonly #abort = new AbortController();
  #running: Running | undefined;
  #loop: Promise<void> | undefined;
  #cancelCheck: (() => void) | undefined;
  #stopped = false;
  readonly #toldReason = new Map<string, string>();
  /** Scheduled trainings that failed in a row, and when the next may be tried. */
  readonly #failures = new Map<string, { readonly count: number; readonly retryAtMs: number }>();

  constructor(private readonly options: TrainerOptions) {}

  get running(): Running | undefined {
    return this.#running;
  }

  /** Clears what an interrupted training left, and looks at the schedules from now on. */
  async start(): Promise<void> {
    await this.options.files.remove(join(this.options.home, "work"));
    this.wake();
  }

  /**
   * Asks for a training now; resolves with its model. @throws LINE_UNKNOWN, TRAINING_REFUSED, the training's
   * own errors
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
        new StemmaError("INTERRUPTED", "The agent is stopping; ask again when it is started."),
      );
    return new Promise((resolve, reject) => {
      this.#asked.push({ line, request, resolve, reject });
      this.wake();
    });
  }

  /** What a line would be trained with. @throws TRAINING_REFUSED where nothing says it */
  recipeOf(line: string, request: TrainingRequest): string {
    const recipe = request.recipe ?? this.options.config.lines[line]?.recipe;
    if (recipe === undefined)
      throw new StemmaError(
        "TRAINING_REFUSED",
        `No recipe is set for the line ${line}. Name one with the request, or in the device's agent.json under lines.${line}.recipe.`,
        { line },
      );
    return recipe;
  }

  /** Something changed: looks at once. */
  wake(): void {
    if (this.#stopped || this.#loop !== undefined) return;
    this.#cancelCheck?.();
    this.#loop = this.#runDue()
      .catch((error: unknown) => {
        this.options.log.error("trainer-failed", { text: (error as Error).stack ?? String(error) });
      })
      .finally(() => {
        this.#loop = undefined;
        if (this.#stopped) return;
        if (this.#asked.length > 0) {
          this.wake();
          return;
        }
        this.#cancelCheck = this.options.clock.after(this.#checkEveryMs(), () => {
          this.wake();
        });
      });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelCheck?.();
    this.#abort.abort();
    await this.#loop;
    for (const { reject } of this.#asked.splice(0))
      reject(
        new StemmaError(
          "INTERRUPTED",
          "The agent stopped before this training began; ask again when it is started.",
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
      const asked = this.#asked.shift();
      if (asked !== undefined) {
        worked = true;
        await this.#trainAsked(asked);
        continue;
      }
      for (const line of this.options.enrolment.lines) {
        if (this.#stopped || this.#asked.length > 0) {
          worked = this.#asked.length > 0;
          break;
        }
        const decision = await this.#decide(line, false);
        if (!decision.train) {
          this.#tellWhyNot(line, decision);
          continue;
        }
        worked = true;
        this.#toldReason.delete(line);
        await this.#train(line, decision.because, {}).then(
          () => {
            this.#failures.delete(line);
          },
          (error: unknown) => {
            this.#pause(line);
            this.#failed(line, error);
          },
        );
      }
    }
  }

  async #trainAsked({ line, request, resolve, reject }: Asked): Promise<void> {
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

  async #decide(line: string, asked: boolean): Promise<ScheduleDecision> {
    const { config, profile, outbox, activator, clock, intakes } = this.options;
    const settings = config.lines[line];
    if (!asked && settings?.recipe === undefined)
      return { train: false, because: "not-due", text: "no recipe is set for this line" };
    if (!asked && isOwnSamples(settings?.dataset) && (intakes.get(line)?.trainSince(0) ?? 0) === 0)
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
      asked,
      pausesAfterFailure: clock.monotonic() < (this.#failures.get(line)?.retryAtMs ?? 0),
      awaitsReceipt:
        profile.activation === "after-receipt" &&
        this.options.isOnline() &&
        newest?.standing === "pending" &&
        newest.refusal === undefined &&
        clock.now() - newest.savedAtMs < receiptPatienceMs,
    });
  }

  /** The disk limit is news once; the others are no news. */
  #tellWhyNot(line: string, decision: Extract<ScheduleDecision, { train: false }>): void {
    const before = this.#toldReason.get(line);
    this.#toldReason.set(line, decision.because);
    if (decision.because === "disk" && before !== "disk")
      this.options.onEvent(
        "training-stopped",
        `${line} does not train: ${decision.text}. Nothing that is not released is dropped; it goes on when the server has released models, or with a larger budget.`,
        line,
      );
  }

  /** What failed before it was counted (no samples, a full disk) would be due again at once. */
  #pause(line: string): void {
    const count = (this.#failures.get(line)?.count ?? 0) + 1;
    this.#failures.set(line, {
      count,
      retryAtMs: this.options.clock.monotonic() + pauseAfterFailuresMs(count),
    });
  }

  #failed(line: string, error: unknown): void {
    if (this.#stopped && isStemmaError(error, "TRAINING_STOPPED")) return;
    this.options.onEvent("training-failed", `${line} could not train: ${(error as Error).message}`, line);
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
    const { job, samples } = await this.#job(line, base, request, invocation);
    // Counted before it begins: a training that fails has used its random streams up.
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
      return await this.#save(line, base.versionId, outcome, samples);
    } finally {
      this.#running = undefined;
      await files.remove(workFolder);
    }
  }

  #progress(progress: TrainingProgress): void {
    if (this.#running !== undefined) this.#running = { ...this.#running, progress };
  }

  async #job(
    line: string,
    base: { readonly versionId: Hash; readonly folder: string },
    request: TrainingRequest,
    invocation: number,
  ): Promise<{
    readonly job: TrainingJob;
    readonly samples: { readonly from: number; readonly to: number } | null;
  }> {
    const { config, profile, enrolment } = this.options;
    const settings = config.lines[line];
    const recipe = this.recipeOf(line, request);
    const { dataset, samples } = await this.#dataset(line, settings?.dataset);
    const job: TrainingJob = {
      format: 1,
      recipe,
      parameters: {
        ...(request.recipe === undefined || request.recipe === settings?.recipe ? settings?.parameters : {}),
        ...request.parameters,
      },
      dataset,
      seed: settings?.seed ?? seedOf(enrolment.fleet, enrolment.device, line),
      invocation,
      base: { folder: base.folder, versionId: base.versionId },
      memoryLimitMb: settingsOf(profile).memoryLimitMb,
      threads: settingsOf(profile).threads,
    };
    return { job, samples };
  }

  /**
   * The line's own samples unless its settings name other data; own samples are pinned to what is there now.
   */
  async #dataset(
    line: string,
    set: LineConfig["dataset"],
  ): Promise<{
    readonly dataset: DatasetReference;
    readonly samples: { readonly from: number; readonly to: number } | null;
  }> {
    if (set !== undefined && !isOwnSamples(set)) return { dataset: set, samples: null };
    const intake = this.options.intakes.get(line);
    if (intake === undefined)
      throw new StemmaError(
        "TRAINING_REFUSED",
        `The line ${line} collects no samples and its settings name no dataset. Set lines.${line}.dataset in agent.json.`,
        { line },
      );
    const { segments, range } = await intake.snapshot();
    if (segments.length === 0)
      throw new StemmaError(
        "DATASET_EMPTY",
        `The line ${line} has no samples yet. Send some with \`stemma agent samples\`, or put files into its inbox.`,
        { line },
      );
    return {
      dataset: { reader: "samples", location: intake.folder, parameters: { ...set?.parameters, segments } },
      samples: range,
    };
  }

  async #save(
    line: string,
    base: Hash,
    outcome: TrainingOutcome,
    samples: { readonly from: number; readonly to: number } | null,
  ): Promise<Trained> {
    const { outbox, files, profile, enrolment, config } = this.options;
    const { record } = await outbox.record(base);
    const leaves = await outbox.leaves(record);
    const names = decodeNames(await outbox.objects.read("names", record.objects.names), leaves.length);
    const file = await files.open(outcome.modelFile, "read");
    try {
      const architecture = decodeArchitecture(await files.read(outcome.architectureFile));
      // The base's names, so that a fine-tuned model goes by the names its base came with.
      const model = await modelSourceOfSafetensors(file, outcome.modelFile, {
        architecture: { architecture, names },
      });
      const verdict = judgeDisk(
        profile.disk,
        await this.options.diskUse(),
        "report",
        model.sources.reduce((sum, { byteLength }) => sum + byteLength, 0),
      );
      if (!verdict.allowed)
        throw new StemmaError(
          "DISK_BUDGET_EXHAUSTED",
          `The model that ${line} trained cannot be kept: ${verdict.reason}. It is dropped; nothing kept before is.`,
          { line },
        );
      const { result } = outcome;
      const saved = await outbox.saveTrained(model, {
        name: config.lines[line]?.name ?? `${line}-${enrolment.device}`,
        fleet: enrolment.fleet,
        device: enrolment.device,
        line,
        base,
        approach: settingsOf(profile).approach,
        clockErrorMs: this.options.clockErrorMs(),
        metric: result.metric,
        samples,
        metadata: { ...metadataOfResult(result) },
        measurements: json(result.measurements),
        provenance: json(result.provenance),
        environment: environmentOfTraining(result, this.options.version, profile.training.threads),
        attachments: await Promise.all(
          outcome.checkpointFiles.map(async (path) => ({
            name: path.slice(path.lastIndexOf("/") + 1),
            bytes: await files.read(path),
          })),
        ),
      });
      const { before, after, unit, name } = result.metric;
      this.options.log.info("trained", {
        line,
        version: saved.versionId,
        sequence: saved.record.sequence,
        metric: name,
        before,
        after,
        unit,
        newBytes: saved.newTensorBytes,
        tensorBytes: saved.tensorBytes,
        ms: Math.round(result.durationMs),
        text: `${line} trained model ${saved.record.sequence}: ${name} ${before.toFixed(2)} → ${after.toFixed(2)} ${unit}`,
      });
      const done = { versionId: saved.versionId, sequence: saved.record.sequence, metric: result.metric };
      this.options.onTrained(line, done);
      return done;
    } finally {
      await file.close();
    }
  }
}

function json(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

/**
 * A line's own seed: nobody has to choose one, no two lines share one, and it is the same after a
 * reinstallation.
 */
export function seedOf(fleet: string, device: string, line: string): string {
  return createHash("sha256")
    .update(`stemma-seed ${fleet}\0${device}\0${line}`)
    .digest()
    .readBigUInt64LE(0)
    .toString();
}

/** Nothing else is named. */
function isOwnSamples(set: LineConfig["dataset"]): boolean {
  return set === undefined || (set.reader === "samples" && set.location === undefined);
}
