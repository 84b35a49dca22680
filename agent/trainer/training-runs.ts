/**
 * Runs one training at a time, from its fact to its result. The file training-job.ts prepares the job, a
 * child process trains, save-result.ts puts the result into the outbox. A training that was cut short (the
 * power went, the agent or the engine was killed) is still begun in the outbox and goes on from the state
 * that the engine saved in its work folder, or runs again from its start, with the same base, samples, seed
 * and invocation, so that it gives the model that it would have given.
 */
import { join } from "node:path";
import { defined } from "../../shared/defined.js";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError } from "../../shared/errors.js";
import type { Clock, Files, Log } from "../../shared/ports.js";
import { requestField } from "../../shared/request-id.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { trainInChild } from "../../shared/train/train-in-child.js";
import { isFurther, savedProgress, type SavedProgress } from "../../shared/train/saved-progress.js";
import type { EngineNotice, TrainingProgress } from "../../shared/train/training.js";
import type { TrainingCourse } from "../../shared/wire/judged-training.js";
import type { TrainingBackends } from "../backend/training-backend.js";
import { judgeDisk } from "../resources/disk-budget.js";
import type { Activator, BaseFolder } from "../lines/activator.js";
import type { BegunTraining } from "../outbox/outbox-state.js";
import { endLeftProcess } from "../../shared/programs/left-process.js";
import { trainExternally, type ExternalTrainingOptions } from "../external/external-training.js";
import { externalRecipe, isExternalRecipe } from "../settings/external-trainer.js";
import { ownRecipeName } from "../../shared/wire/recipe-commands.js";
import { dataUsedBy } from "./data-used.js";
import type { KeptStates } from "./kept-states.js";
import { saveResult, type SaveResultOptions, type Trained } from "./save-result.js";
import { trainOnBackend, type BackendOptions } from "./train-on-backend.js";
import { commandNotSet, endedByServer, nothingToStartFrom, withoutArchitecture } from "./trainer-errors.js";
import { settingsOf } from "./training-settings.js";
import {
  engineJobOf,
  jobRoom,
  keptFolder,
  placedDataset,
  prepareJob,
  recipeOf,
  type JobOptions,
  type TrainingRequest,
} from "./training-job.js";

export interface TrainingRunsOptions
  extends
    SaveResultOptions,
    JobOptions,
    Pick<ExternalTrainingOptions, "random" | "commandOwner" | "evaluate"> {
  readonly files: Files;
  readonly home: string;
  readonly activator: Activator;
  readonly clock: Clock;
  readonly log: Log;
  readonly train: typeof trainInChild;
  readonly backends: TrainingBackends;
  readonly states: Pick<KeptStates, "replace">;
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

type Begun = Pick<BegunTraining, "invocation" | "because" | "job">;

/** The cause of a training: its request, and what made it due. */
export interface TrainingCause {
  readonly because: string;
  readonly request: TrainingRequest;
}

export class TrainingRuns {
  readonly #abort = new AbortController();
  /** Ends the running training alone, without a model. */
  #ending: AbortController | undefined;
  /** True if the server looks at the states of the training that was begun last. */
  #isJudged = false;
  #running: Running | undefined;
  /** The number of samples that each line's last training left out; reported when it changes. */
  readonly #skipped = new Map<string, number>();

  constructor(private readonly options: TrainingRunsOptions) {}

  get running(): Running | undefined {
    return this.#running;
  }

  /** Cuts the running training short; it goes on at the next start of the agent. */
  stop(): void {
    this.#abort.abort();
  }

  /** Ends the running training without a model. */
  end(): void {
    this.#ending?.abort();
  }

  /** The losses of the running training from a step on. */
  async course({ line, invocation }: Running, steps: number): Promise<TrainingCourse> {
    const { courseOf } = await import("./training-course.js");
    return await courseOf(this.options.files, this.#workFolder(line, invocation), steps);
  }

  /** Resolves when the running training has saved a further state than it had, or `signal` aborts. */
  async untilFurther(signal: AbortSignal): Promise<void> {
    let before: SavedProgress | undefined;
    while (!signal.aborted) {
      const running = this.#running;
      // The engine replaces the file meanwhile.
      const saved = running && (await this.savedProgress(running.line, running).catch(() => undefined));
      if (saved !== undefined && before !== undefined && isFurther(saved, before)) return;
      before ??= saved;
      await new Promise<void>((resolve) => {
        this.options.clock.after(furtherCheckMs, resolve);
      });
    }
  }

  /** Reads the saved progress of a training that was cut short. */
  async savedProgress(
    line: string,
    { invocation }: Pick<BegunTraining, "invocation">,
  ): Promise<SavedProgress> {
    return await savedProgress(this.options.files, this.#workFolder(line, invocation));
  }

  #workFolder(line: string, invocation: number): string {
    return join(this.options.home, "work", workName(line, invocation));
  }

  /** Removes what earlier trainings left, except the folders of those that go on. */
  async clearWork(): Promise<void> {
    const { files, home, outbox } = this.options;
    const kept = new Set(
      [...outbox.state.lines.values()].flatMap(({ line, begun }) =>
        begun === undefined ? [] : [workName(line, begun.invocation)],
      ),
    );
    const folder = join(home, "work");
    for (const name of await files.list(folder)) await endLeftProcess(join(folder, name));
    for (const name of await files.list(folder)) if (!kept.has(name)) await files.remove(join(folder, name));
  }

  /** Begins a training of a line. @throws TRAINING_REFUSED, MODEL_OPAQUE, DATASET_EMPTY, the training's errors */
  async begin(line: string, { because, request }: TrainingCause): Promise<Trained> {
    const { outbox, activator, clock } = this.options;
    const base = await activator.soundBase(line);
    if (base === undefined) throw nothingToStartFrom(line);
    this.#isJudged = request.isJudged === true;
    const recipe = recipeOf(this.options.config, line, request);
    if (!isExternalRecipe(recipe)) await this.#requireArchitecture(line, base.versionId);
    const invocation = (outbox.state.lines.get(line)?.trainings ?? 0) + 1;
    const { job, skipped } = await prepareJob(this.options, { line, base: base.versionId, request });
    this.#reportSkipped(line, skipped);
    // Counted before it starts: a training that fails has used its random streams.
    await outbox.append({
      type: "training",
      atMs: Math.round(clock.now()),
      line,
      invocation,
      because,
      samplesEnd: job.samples?.to ?? 0,
      job,
    });
    this.#logStart(line, { invocation, because, job }, "");
    return await this.#run(line, { invocation, because, job }, base);
  }

  /** Runs a training again that was cut short. @throws the training's errors */
  async again(line: string, begun: BegunTraining): Promise<Trained> {
    const { outbox, activator, clock } = this.options;
    let base: BaseFolder;
    try {
      base = await activator.installBase(line, begun.job.base);
    } catch (error) {
      if (isStemmaError(error, "MODEL_NOT_FOUND")) await this.fail(line, begun, error);
      throw error;
    }
    const { invocation } = begun;
    const { iteration, pass } = await this.savedProgress(line, begun);
    await outbox.append({
      type: "training-again",
      atMs: Math.round(clock.now()),
      line,
      invocation,
      ...(iteration === 0 ? {} : { iteration }),
      ...defined({ pass }),
    });
    this.#logStart(line, begun, "; again, after it was cut short");
    return await this.#run(line, begun, base);
  }

  /** Ends a begun training without a model. */
  async fail(line: string, { invocation }: Pick<BegunTraining, "invocation">, error: unknown): Promise<void> {
    const { outbox, clock } = this.options;
    await outbox.append({
      type: "training-failed",
      atMs: Math.round(clock.now()),
      line,
      invocation,
      code: isStemmaError(error) ? error.code : "INTERNAL",
      message: messageOf(error).slice(0, maxFailureLength),
    });
  }

  async #requireArchitecture(line: string, versionId: Hash): Promise<void> {
    const { record } = await this.options.outbox.record(versionId);
    if (record.kind === "opaque") throw withoutArchitecture(line, record.name);
  }

  async #run(line: string, begun: Begun, base: BaseFolder): Promise<Trained> {
    const { files, outbox, profile } = this.options;
    const { invocation, because } = begun;
    // One folder for all tries of a training: the engine finds its saved state there.
    const workFolder = this.#workFolder(line, invocation);
    this.#running = { line, invocation, because, base: base.versionId, progress: undefined };
    const ending = new AbortController();
    this.#ending = ending;
    const signal = AbortSignal.any([this.#abort.signal, ending.signal]);
    let isCutShort = false;
    try {
      await files.makeFolder(workFolder);
      if (isExternalRecipe(begun.job.recipe))
        return await this.#runExternal(line, begun, { base, workFolder, signal });
      const tensorBytes = outbox.entry(base.versionId)?.tensorBytes ?? 0;
      // The space that the trained model needs is kept free; the state of the training may use the rest.
      const { remainingBytes: left } = judgeDisk(
        profile.disk,
        await this.options.diskUse(),
        "train",
        2 * tensorBytes,
      );
      const room = jobRoom(left, this.options.config.lines[line]?.spotChecks);
      const folders = { base: base.folder, work: workFolder };
      const job = await engineJobOf(this.options, { line, invocation, job: begun.job }, folders, room.kept);
      const outcome = await trainOnBackend(this.#backendOptions(line, invocation), job, {
        workFolder,
        signal,
        memoryLimitMb: job.memoryLimitMb,
        state: {
          everySeconds: this.#isJudged ? judgedStateEverySeconds : settingsOf(profile).stateEverySeconds,
          maxBytes: room.state,
        },
        onNotice: (notice) => {
          this.#logNotice(line, invocation, notice);
        },
        onProgress: (progress) => {
          if (this.#running !== undefined) this.#running = { ...this.#running, progress };
        },
      });
      await this.#requireStillApproved(begun.job);
      const content = outcome.result.datasetHash;
      const data = await dataUsedBy(this.options, { line, job: begun.job, content });
      const trained = await saveResult(this.options, { line, begun, outcome, data });
      await this.#keepStates(line, trained, { from: keptFolder(workFolder), training: begun });
      this.options.onTrained(line, trained);
      return trained;
    } catch (cause) {
      const isEnded = ending.signal.aborted && !this.#abort.signal.aborted;
      const error = isEnded ? endedByServer(line) : cause;
      isCutShort = !isEnded && (this.#abort.signal.aborted || isStemmaError(error, "TRAINING_STOPPED"));
      if (isEnded) await this.fail(line, begun, error);
      else await this.#afterError(line, begun, error);
      throw error;
    } finally {
      this.#running = undefined;
      this.#ending = undefined;
      if (!isCutShort) await files.remove(workFolder);
    }
  }

  /** The model is saved: what goes wrong with its states costs only a spot check. */
  async #keepStates(
    line: string,
    { versionId }: Trained,
    left: Parameters<KeptStates["replace"]>[2],
  ): Promise<void> {
    if (this.options.config.lines[line]?.spotChecks === undefined) return;
    try {
      await this.options.states.replace(line, versionId, left);
    } catch (error) {
      this.options.log.warn("states-not-kept", {
        line,
        versionId,
        text: `the states of ${line}'s training are not kept, so the server cannot check parts of it: ${messageOf(error)}`,
      });
    }
  }

  #backendOptions(line: string, invocation: number): BackendOptions {
    return {
      ...this.options,
      onNativeFailed: (why) => {
        this.options.onEvent(
          "native-failed",
          `${line}: the native backend failed in training ${invocation}, which is trained on wasm now: ${why}`,
          line,
        );
      },
    };
  }

  /**
   * Requires that its recipe is still approved: it may have been taken back while it ran. @throws
   * RECIPE_NOT_APPROVED, RELEASE_REVOKED
   */
  async #requireStillApproved({ recipe, bundle }: Begun["job"]): Promise<void> {
    const own = ownRecipeName(recipe);
    if (own !== undefined) await this.options.recipes.require(own, bundle);
  }

  /** A training by the line's own program (external/). */
  async #runExternal(
    line: string,
    { invocation, job }: Begun,
    {
      base,
      workFolder,
      signal,
    }: { readonly base: BaseFolder; readonly workFolder: string; readonly signal: AbortSignal },
  ): Promise<Trained> {
    const trainer = this.options.config.lines[line]?.trainer;
    if (trainer === undefined || externalRecipe(trainer) !== job.recipe)
      throw commandNotSet(line, invocation);
    const trained = await trainExternally(this.options, {
      line,
      invocation,
      job: { ...job, dataset: placedDataset(this.options, line, job) },
      trainer,
      base,
      workFolder,
      signal,
      onProgress: (progress) => {
        if (this.#running !== undefined) this.#running = { ...this.#running, progress };
      },
      dataUsed: (content, others) => dataUsedBy(this.options, { line, job, content, others }),
    });
    this.options.onTrained(line, trained);
    return trained;
  }

  async #afterError(line: string, begun: Begun, error: unknown): Promise<void> {
    const { outbox, clock } = this.options;
    const { invocation } = begun;
    if (this.#abort.signal.aborted)
      await outbox.append({ type: "training-paused", atMs: Math.round(clock.now()), line, invocation });
    // An engine that was killed or ended without a word gave no result and no failure: the training goes on.
    else if (!isStemmaError(error, "TRAINING_STOPPED")) await this.fail(line, begun, error);
  }

  #logNotice(line: string, invocation: number, { event, text, iteration }: EngineNotice): void {
    const fields = {
      line,
      invocation,
      ...defined({ iteration }),
      text: `${line}: ${text}`,
    };
    if (event === "training-continued") this.options.log.info(event, fields);
    else this.options.log.warn(event, fields);
  }

  #reportSkipped(line: string, skipped: number): void {
    if (skipped > 0 && skipped !== this.#skipped.get(line))
      this.options.onEvent(
        "samples-skipped",
        `${line} leaves ${skipped} of its samples out: they do not have the form that its model needs. \`stemma agent samples list ${line} --unfit\` shows them, \`stemma agent samples rm ${line} --unfit\` removes them.`,
        line,
      );
    this.#skipped.set(line, skipped);
  }

  #logStart(line: string, { invocation, because, job }: Begun, how: string): void {
    this.options.log.info("training", {
      line,
      invocation,
      because,
      recipe: job.recipe,
      base: job.base,
      ...requestField(job),
      text: `${line} trains with ${isExternalRecipe(job.recipe) ? "its own program" : job.recipe} (${because}${how})`,
    });
  }
}

/** Seconds between two saved states of a training that the server judges. */
const judgedStateEverySeconds = 0.5;
/** Milliseconds between two looks at the saved state of a training that is to end at its next one. */
const furtherCheckMs = 100;
/** Longest message of a failure in the journal, in UTF-16 code units. */
const maxFailureLength = 2000;

function workName(line: string, invocation: number): string {
  return `${line}-${invocation}`;
}
