/**
 * Trains candidates by a program of the user's own: as an agent has a line trained, with the same folders, limits
 * and files (docs/own-models.md). A candidate's folder stays until that is saved or ruled out: the same command goes
 * on after a kill with what the program left.
 */
import { readdir, readFile, rm } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import * as z from "zod";
import { silentLog } from "../../../shared/adapters/node-ports.js";
import { defined } from "../../../shared/defined.js";
import { isStemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { modelOfBase, type ModelOfBase } from "../../../shared/layouts/model-of-base.js";
import { weightSlots } from "../../../shared/model/architecture.js";
import { defaultOutputBytes } from "../../../shared/programs/command-settings.js";
import { prepareJobFolder, type GivenSamples, type JobLimits } from "../../../shared/programs/job-folder.js";
import { endLeftProcess } from "../../../shared/programs/left-process.js";
import { progressOf } from "../../../shared/programs/program-progress.js";
import { readOutput, type TrainerOutput } from "../../../shared/programs/read-output.js";
import { spaceBeside } from "../../../shared/programs/record-program.js";
import { runWatched } from "../../../shared/programs/watched-run.js";
import { placeProgram } from "../../../shared/programs/program-bundle.js";
import { isHash } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { Measurement } from "../../../shared/train/training.js";
import type { DatasetSummary } from "../../interface/api/models/dataset-schemas.js";
import {
  changedFrozen,
  killedAgain,
  ofProgram,
  otherDirection,
  otherModel,
  programFaults,
  programKind,
} from "../../learning/enumeration/program-errors.js";
import type { TrustedProgram } from "../../../shared/programs/program-settings.js";
import { ProgramTrainings, type RunningProgram } from "../../learning/enumeration/program-trainings.js";
import type {
  EndedTraining,
  TrainedSoFar,
  WantedFigure,
} from "../../learning/enumeration/train-candidate.js";
import { parametersOf, type PlannedCandidate } from "../../learning/query/evaluate/plan-evaluation.js";
import { foldersCutShort } from "../../learning/training/kept-trainings.js";
import { referenceOf, requireDataset } from "../../services/context/named-data.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { requireRoom } from "../../services/context/room-for-models.js";
import { workFolderOf } from "../../services/context/work-folder.js";
import { explainRefusedData } from "../../services/data/raw-files.js";
import { readableDataset, type ReadableDataset } from "../../services/data/readable-dataset.js";
import { ownLine } from "../../storage/repository/state/naming.js";
import type { CandidateWorkOptions } from "./candidate-work.js";
import { titleOf } from "./candidate-versions.js";
import { ProgramBases, type ProgramBase } from "./program-base.js";
import { contentOf, saveProgramCandidate, type ProgramRan } from "./save-program-candidate.js";

interface ProgramCandidatesOptions extends CandidateWorkOptions {
  readonly program: TrustedProgram;
  /** True if the request names the minutes of a training itself. */
  readonly hasMinutes: boolean;
}

interface ProgramOutcome extends EndedTraining {
  /** The folder with what the program left. */
  readonly folder: string;
  readonly samples: GivenSamples | undefined;
  readonly workMs: number;
  /** Content id of the model in it. */
  readonly content: Hash;
  /** The run of a recorded program, by which it can be run again. */
  readonly ran?: ProgramRan;
}

const count = z.number().int().nonnegative();
const hash = z.custom<Hash>(isHash, "not a hash");
/** The note about a program that has ended, beside what it left. */
const endedSchema = z.strictObject({
  format: z.literal(1),
  output: z.string().regex(/^output-[0-9a-f]+$/),
  workMs: count,
  content: hash,
  samples: z.strictObject({ hash, train: count, validation: count, heldOut: count }).exactOptional(),
  ran: z
    .strictObject({
      job: hash,
      limits: z.strictObject({
        ...{ memoryLimitMb: z.number(), threads: z.number() },
        ...{ timeoutSeconds: z.number(), maxOutputBytes: z.number() },
      }),
      libraries: z
        .array(
          z.strictObject({
            program: z.string(),
            libraries: z.array(z.strictObject({ name: z.string(), sha256: z.string().exactOptional() })),
          }),
        )
        .exactOptional(),
    })
    .exactOptional(),
  told: z.array(
    z.strictObject({
      ...{ iteration: count, epoch: count, loss: z.number(), learningRate: z.number() },
      validation: z.number().nullable(),
    }),
  ),
});
const endedName = "ended.json";
/** The least milliseconds between two reports of steps. */
const reportEveryMs = 100;

interface OpenData extends ReadableDataset {
  readonly registered: DatasetSummary;
}

export class ProgramCandidates {
  readonly #bases: ProgramBases;
  readonly #trainings: ProgramTrainings<ProgramOutcome>;

  private constructor(
    private readonly context: OperationsContext,
    private readonly options: ProgramCandidatesOptions,
    private readonly data: ReadonlyMap<string, OpenData>,
  ) {
    this.#bases = new ProgramBases(options);
    this.#trainings = new ProgramTrainings(
      {
        run: (number, running) => this.#run(this.#candidate(number), running),
        remove: (number) => rm(this.#folderOf(number), { recursive: true, force: true }),
      },
      options.signal,
    );
  }

  readonly concurrency = 1;
  readonly mayTrainAgain = true;
  readonly faults = programFaults;

  /**
   * Ends programs that a killed process left, also of other evaluations: nothing limits them.
   * @throws DATASET_UNKNOWN
   */
  static async open(
    context: OperationsContext,
    options: ProgramCandidatesOptions,
  ): Promise<ProgramCandidates> {
    const { plan, fleet, folder } = options;
    for (const left of [folder, ...(await foldersCutShort(context.home))])
      for (const name of await readdir(left).catch(() => []))
        if (isOfCandidate(name)) await endLeftProcess(join(left, name));
    const data = new Map<string, OpenData>();
    const work = new ProgramCandidates(context, options, data);
    try {
      for (const name of new Set(plan.query.combinations.flatMap((each) => each.data ?? []))) {
        const registered = await requireDataset(context, fleet, name);
        data.set(name, { registered, ...(await readableDataset(context, fleet, referenceOf(registered))) });
      }
      return work;
    } catch (error) {
      await work.close();
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#trainings.close();
    for (const { release } of this.data.values()) await release?.();
  }

  train(number: number, wanted: WantedFigure | undefined): Promise<TrainedSoFar<ProgramOutcome>> {
    return this.#trainings.train(number, wanted);
  }

  forget(number: number): Promise<void> {
    return this.#trainings.forget(number);
  }

  async save(number: number, { folder, samples, workMs, ran }: ProgramOutcome): Promise<Hash> {
    const candidate = this.#candidate(number);
    const { command, recorded } = this.options.program;
    return await this.#reading(candidate, folder, (output, found) =>
      saveProgramCandidate(this.context, this.options, {
        ...{ candidate, command, output, found, samples, workMs, data: this.#dataOf(candidate)?.registered },
        ...(recorded && ran && { recorded: { ...recorded, ...ran } }),
      }),
    );
  }

  #candidate(number: number): PlannedCandidate {
    return this.options.plan.candidates[number - 1] as PlannedCandidate;
  }

  #folderOf(number: number): string {
    return join(this.options.folder, `candidate-${number}`);
  }

  #dataOf({ combination: { data } }: PlannedCandidate): OpenData | undefined {
    return data === undefined ? undefined : this.data.get(data);
  }

  /** A program that something else kills is run once more. */
  async #run(candidate: PlannedCandidate, running: RunningProgram): Promise<ProgramOutcome> {
    const known = await this.#endedBefore(candidate);
    if (known !== undefined) return known;
    for (let tries = 1; ; tries++)
      try {
        return await this.#runOnce(candidate, running);
      } catch (error) {
        const isKilled = isStemmaError(error, "TRAINING_STOPPED") && !running.signal.aborted;
        if (!isKilled) throw ofProgram(error);
        if (tries === 2) throw killedAgain(error);
      }
  }

  async #runOnce(
    candidate: PlannedCandidate,
    { signal, onProgress, beginAgain, told }: RunningProgram,
  ): Promise<ProgramOutcome> {
    const { clock, random, log = silentLog() } = this.context.home.ports;
    const { plan, seed, program } = this.options;
    const workFolder = this.#folderOf(candidate.number);
    await endLeftProcess(workFolder);
    const base = await this.#bases.of(candidate.model);
    await requireRoom(this.context.home, base.bytes);
    const data = this.#dataOf(candidate);
    const limits = await this.#limitsFor(base);
    const startedMs = clock.monotonic();
    let reportedMs = -Infinity;
    beginAgain();
    const title = titleOf(plan, candidate);
    const report = (what: string, of: object = {}): void =>
      this.options.onProgress?.({ state: "running", line: `${title}: ${what}`, ...of });
    report("its program starts");
    const { folders, samples, jobHash } = await prepareJobFolder(
      workFolder,
      {
        ...{ line: ownLine, invocation: candidate.number, seed, parameters: parametersOf(candidate), base },
        ...{ dataset: data?.dataset, ...limits },
      },
      { files: nodeFiles(), random },
    ).catch((error: unknown) => {
      if (data === undefined) throw error;
      return explainRefusedData(error, data.registered, workFolderOf(this.context.home));
    });
    const { recorded, settings } = program;
    const exec = recorded
      ? await placeProgram(recorded.program, folders.program, recorded.interpreter)
      : settings.exec;
    const own = { exec, environment: settings.environment };
    const { libraries } = await runWatched(
      { line: ownLine, kind: programKind, program: own, workFolder, folders, limits },
      { folder: workFolder, listsLibraries: recorded !== undefined },
      {
        ...{ clock, log, signal },
        takesLine: (text) => {
          const progress = progressOf(text);
          if (progress === undefined) return false;
          onProgress(progress);
          // A program may tell a thousand steps a second.
          if (clock.monotonic() - reportedMs < reportEveryMs) return true;
          reportedMs = clock.monotonic();
          const { iteration, epoch, loss } = progress;
          if (iteration !== undefined)
            report(`step ${iteration}`, { iteration, ...(loss !== undefined && { loss }) });
          else if (epoch !== undefined) report(`epoch ${epoch}`);
          return true;
        },
      },
    );
    const workMs = Math.round(clock.monotonic() - startedMs);
    // A replay begins from a version; a derived base was none when its job was written.
    const isRecorded = recorded !== undefined && base.versionId !== null;
    const ran = isRecorded ? { job: jobHash as Hash, limits, ...defined({ libraries }) } : undefined;
    const left = { folder: folders.output, samples, workMs, told, ...defined({ ran }) };
    const outcome = await this.#outcomeOf(candidate, left);
    const output = folders.output.slice(workFolder.length + 1);
    const ended = { format: 1, output, workMs, content: outcome.content, told, samples, ran };
    await writeDurably(nodeFiles(), join(workFolder, endedName), Buffer.from(JSON.stringify(ended)));
    // Only what it left is needed until the candidate is saved.
    for (const folder of [folders.input, folders.scratch]) await rm(folder, { recursive: true, force: true });
    return outcome;
  }

  async #limitsFor({ bytes }: ProgramBase): Promise<JobLimits> {
    const { program, limits, hasMinutes } = this.options;
    const { timeoutSeconds, maxOutputBytes = defaultOutputBytes(bytes) } = program.settings;
    const { files } = this.context.home.ports;
    const free = await files.freeBytes(this.context.home.path);
    return {
      memoryLimitMb: limits.memoryLimitMb,
      threads: availableParallelism(),
      timeoutSeconds: Math.min(timeoutSeconds, 60 * (hasMinutes ? limits.maxMinutes : limits.mostMinutes)),
      maxOutputBytes: Math.min(maxOutputBytes, Math.floor(free / 2)),
    };
  }

  async #endedBefore(candidate: PlannedCandidate): Promise<ProgramOutcome | undefined> {
    const folder = this.#folderOf(candidate.number);
    const text = await readFile(join(folder, endedName), "utf8").catch(() => undefined);
    if (text === undefined) return undefined;
    const read = endedSchema.safeParse(parsed(text));
    if (!read.success) return undefined;
    const { output, samples, workMs, told, content, ran } = read.data;
    const left = { folder: join(folder, output), samples, workMs, told, ...defined({ ran }) };
    // A model that is not what it was is trained again.
    const outcome = await this.#outcomeOf(candidate, left).catch(() => undefined);
    return outcome?.content === content ? outcome : undefined;
  }

  /** Reads what a program left, and refuses what cannot be saved before anything is compared with it. */
  async #outcomeOf(
    candidate: PlannedCandidate,
    { told, ...left }: Omit<ProgramOutcome, "result" | "content"> & { readonly told: readonly Measurement[] },
  ): Promise<ProgramOutcome> {
    return await this.#reading(candidate, left.folder, ({ metrics: { metric, measurements } }, found) => {
      const wanted = this.options.program.settings.metric;
      if (metric !== null && metric.name === wanted?.name && metric.lowerIsBetter !== wanted.lowerIsBetter)
        throw otherDirection(metric);
      const stated =
        measurements === undefined ? [] : (JSON.parse(Buffer.from(measurements).toString()) as Measurement[]);
      return {
        ...left,
        content: contentOf(found.model),
        result: { metric, measurements: merged(told, stated) },
      };
    });
  }

  async #reading<T>(
    candidate: PlannedCandidate,
    folder: string,
    use: (output: TrainerOutput, found: ModelOfBase) => T | Promise<T>,
  ): Promise<T> {
    const output = await readOutput(folder, spaceBeside(this.options.program.recorded));
    const { file, requireUnchanged, close, path } = output.model;
    try {
      const base = await this.#bases.of(candidate.model);
      const found = await modelOfBase({ file, where: path, misfit: otherModel }, base);
      await requireUnchanged();
      requireFrozen(candidate, base, found);
      return await use(output, found);
    } finally {
      await close();
    }
  }
}

/** @throws TRAINER_OUTPUT_INVALID */
function requireFrozen(
  { frozenLayers }: PlannedCandidate,
  { described, leaves }: ProgramBase,
  { model }: ModelOfBase,
): void {
  if (frozenLayers.length === 0) return;
  const slots = weightSlots(described.architecture);
  const changed = leaves.find(
    ({ tensor }, leaf) =>
      frozenLayers.includes(slots[leaf]?.layer ?? -1) && model.leaves[leaf]?.tensor !== tensor,
  );
  if (changed !== undefined) throw changedFrozen(changed.path);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const isOfCandidate = (name: string): boolean => /^candidate-[0-9]+$/.test(name);

/** The figures that a program told while it ran, and those that it stated at its end, which count where both are. */
function merged(told: readonly Measurement[], stated: readonly Measurement[]): readonly Measurement[] {
  const byStep = new Map([...told, ...stated].map((each) => [each.iteration, each]));
  return [...byStep.values()].sort((a, b) => a.iteration - b.iteration);
}
