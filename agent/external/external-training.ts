/**
 * One training by an external trainer, from its folder to the version in the outbox. A failure saves nothing and
 * has a code.
 */
import { join } from "node:path";
import { defined } from "../../shared/defined.js";
import type { ModelSource } from "../../shared/model/model.js";
import type { Clock, Files, Log, Random } from "../../shared/ports.js";
import { placeProgram } from "../../shared/programs/program-bundle.js";
import type { DataDescription, ProgramRecord } from "../../shared/provenance/provenance.js";
import { parametersWithOrigin } from "../../shared/provenance/training-provenance.js";
import { defaultOutputBytes, recordedFiles } from "../../shared/programs/command-settings.js";
import { progressOf } from "../../shared/programs/program-progress.js";
import { requestField } from "../../shared/request-id.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { DatasetReference, TrainingProgress } from "../../shared/train/training.js";
import type { BegunJob, Metric } from "../outbox/outbox-state.js";
import { judgeDisk, noDiskFor } from "../resources/disk-budget.js";
import { heldBytes } from "../resources/held-bytes.js";
import { attachmentsWithLayout, modelOfLine } from "../saving/line-model.js";
import { checkModel, type CheckedModel, type CheckOptions } from "../saving/check-model.js";
import {
  storeModel,
  type DataUsed,
  type StoredModel,
  type StoreModelOptions,
} from "../saving/store-model.js";
import type { ExternalTrainer } from "../settings/external-trainer.js";
import {
  keptNameIn,
  originalBytesIn,
  prepareJobFolder,
  type ExternalJob,
  type GivenSamples,
  type JobLimits,
} from "../../shared/programs/job-folder.js";
import { checkFileIn, readOutput } from "../../shared/programs/read-output.js";
import { trainerKind } from "../../shared/programs/run-command.js";
import type { JobPorts } from "../../shared/programs/run-job.js";
import { orderText } from "../../shared/programs/program-libraries.js";
import { profileObjects, profileToStore, type ProfileToStore } from "../../shared/programs/stored-profile.js";
import { folderToRunIn, runWatched, type WatchedRun } from "../../shared/programs/watched-run.js";
import { endLeftProcess } from "../../shared/programs/left-process.js";
import {
  checkCommand,
  identifyCommand,
  type CommandIdentity,
} from "../../shared/programs/trusted-command.js";
import {
  programAttachments,
  recordProgram,
  spaceBeside,
  type RecordedProgram,
} from "../../shared/programs/record-program.js";
import { configFieldInvalid } from "../settings/settings-errors.js";

export interface ExternalTrainingOptions extends StoreModelOptions, CheckOptions {
  readonly files: Files;
  readonly random: Random;
  readonly clock: Clock;
  /** User id that owns agent.json; undefined where the system has no user ids. */
  readonly commandOwner: number | undefined;
  onEvent(name: string, text: string, line: string): void;
}

export interface ExternalTraining {
  readonly line: string;
  readonly invocation: number;
  readonly job: BegunJob;
  readonly trainer: ExternalTrainer;
  /** The installed base. */
  readonly base: { readonly versionId: Hash; readonly folder: string };
  /** A folder of its own; the caller removes it. */
  readonly workFolder: string;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: TrainingProgress) => void;
  /**
   * The data of a training whose program is recorded, as its version names them.
   * @param others the number of other data objects of the version
   */
  readonly dataUsed: (content: Hash, others: number) => Promise<DataUsed>;
}

export type TrainedExternally = StoredModel & { readonly metric: Metric | null };

/**
 * @throws TRAINER_FAILED, TRAINER_TIMED_OUT, TRAINER_OUTPUT_INVALID, TRAINER_OUTPUT_TOO_LARGE, SAFETENSORS_MALFORMED,
 * SAFETENSORS_TRUNCATED, ARCHITECTURE_MISMATCH, DATASET_EMPTY, CONFIG_INVALID (the command), DISK_BUDGET_EXHAUSTED;
 * TRAINING_STOPPED when it was cut short
 */
export async function trainExternally(
  options: ExternalTrainingOptions,
  training: ExternalTraining,
): Promise<TrainedExternally> {
  const { line, trainer, workFolder, signal, onProgress } = training;
  const { clock } = options;
  const startedMs = clock.monotonic();
  await endLeftProcess(workFolder);
  const files = recordedFiles(trainer);
  await checkCommand(
    { exec: [...trainer.exec, ...files] },
    { field: `lines.${line}.trainer.exec`, owner: options.commandOwner },
  );
  const command = await identifyCommand(trainer);
  const field = `lines.${line}.trainer.record`;
  const recorded = await recordProgram(trainer, command, { field, invalid: configFieldInvalid });
  const job = await jobOf(options, training);
  const recordsRandomness = recorded?.program.recordsRandomness === true;
  const runFolder = folderToRunIn(workFolder, recordsRandomness);
  const { folders, samples, jobHash } = await prepareJobFolder(runFolder, job, options);
  const exec =
    recorded === undefined
      ? trainer.exec
      : await placeProgram(recorded.program, folders.program, recorded.interpreter);
  const program = { exec, environment: trainer.environment };
  const run = { line, kind: trainerKind, program, workFolder, folders, limits: job };
  const ports: JobPorts = {
    clock,
    log: options.log,
    signal,
    takesLine: (text) => {
      const progress = progressOf(text);
      if (progress !== undefined) onProgress(progress);
      return progress !== undefined;
    },
  };
  const randomness = recordsRandomness ? { mode: "record" as const } : undefined;
  const listsLibraries = recorded !== undefined;
  const watched = await runWatched(
    run,
    { folder: runFolder, listsLibraries, ...defined({ randomness }) },
    ports,
  );
  return await saveOutput(options, training, {
    folder: folders.output,
    command,
    samples,
    ...defined({ recorded: recorded && { ...recorded, jobHash, limits: limitsOf(job), watched } }),
    durationMs: Math.round(clock.monotonic() - startedMs),
  });
}

function limitsOf(job: JobLimits): JobLimits {
  const { memoryLimitMb, threads, timeoutSeconds, maxOutputBytes } = job;
  return { memoryLimitMb, threads, timeoutSeconds, maxOutputBytes };
}

async function jobOf(
  { profile, outbox, diskUse }: ExternalTrainingOptions,
  { line, invocation, job, trainer, base }: ExternalTraining,
): Promise<ExternalJob> {
  const tensorBytes = outbox.entry(base.versionId)?.tensorBytes ?? 0;
  const baseBytes = tensorBytes + (await originalBytesIn(base.folder));
  const verdict = judgeDisk(profile.disk, await diskUse(), "train", baseBytes);
  if (!verdict.allowed)
    throw noDiskFor(`The line ${line} cannot train now`, verdict, "It trains when it is due again.", {
      line,
    });
  return {
    line,
    invocation,
    seed: job.seed,
    parameters: job.parameters,
    base,
    dataset: trainer.samples ? job.dataset : undefined,
    memoryLimitMb: profile.training.memoryLimitMb,
    threads: profile.training.threads,
    timeoutSeconds: trainer.timeoutSeconds,
    maxOutputBytes: Math.min(
      trainer.maxOutputBytes ?? defaultOutputBytes(tensorBytes),
      verdict.remainingBytes,
    ),
  };
}

interface Finished {
  readonly folder: string;
  readonly command: CommandIdentity;
  readonly samples: GivenSamples | undefined;
  readonly durationMs: number;
  /** The program, where its owner has it recorded, and the job that it was given. */
  readonly recorded?: RecordedProgram & {
    readonly jobHash: string;
    readonly limits: JobLimits;
    readonly watched: WatchedRun;
  };
}

function describeSamples(
  { reader, parameters }: DatasetReference,
  { train, validation, heldOut }: NonNullable<Finished["samples"]>,
  isRecorded: boolean,
): DataDescription {
  return { reader, ...(isRecorded ? { parameters } : {}), samples: { train, validation, heldOut } };
}

/** The members of a saved model that a server needs to run its program again. */
function programOf(
  { id, jobHash, limits, machine, watched: { libraries } }: NonNullable<Finished["recorded"]>,
  profile: ProfileToStore | undefined,
): ProgramRecord {
  const stated = { bundle: id, job: jobHash, limits, machine };
  return { ...stated, ...defined({ libraries, randomness: profile?.content }) };
}

/** The data of a training and the profile of what its program drew, as objects of one version. */
function withProfile(used: DataUsed | undefined, profile: ProfileToStore | undefined): DataUsed | undefined {
  if (profile === undefined) return used;
  const { objects = [], bytes = 0, ...others } = used ?? {};
  return { ...others, objects: [...objects, ...profile.objects], bytes: bytes + profile.bytes };
}

/** Reports what of a training is not saved with its model. */
function reportLeftOut(
  { onEvent }: Pick<ExternalTrainingOptions, "onEvent">,
  model: string,
  {
    line,
    used,
    dropped,
  }: { readonly line: string; readonly used: DataUsed | undefined; readonly dropped: readonly string[] },
): void {
  if (used?.whyNot !== undefined)
    onEvent(
      "samples-kept",
      `the samples of ${model} are not sent with it, and stay on this device: ${used.whyNot}.`,
      line,
    );
  if (dropped.length > 0)
    onEvent(
      "attachments-dropped",
      `${model} is saved without ${dropped.join(", ").slice(0, 500)}: too large, too many, or not regular files.`,
      line,
    );
}

async function checkOutput(
  options: ExternalTrainingOptions,
  { line, trainer, workFolder, signal }: ExternalTraining,
  { folder, model }: { readonly folder: string; readonly model: ModelSource },
): Promise<CheckedModel | undefined> {
  const samples = await checkFileIn(folder, trainer.check !== undefined);
  if (samples === undefined) return undefined;
  const tolerance = trainer.check?.tolerance;
  return await checkModel(options, model, {
    line,
    samples,
    tolerance,
    workFolder: join(workFolder, "check"),
    signal,
  });
}

async function saveOutput(
  options: ExternalTrainingOptions,
  training: ExternalTraining,
  { folder, command, samples, recorded, durationMs }: Finished,
): Promise<TrainedExternally> {
  const { line, invocation, job, base, dataUsed } = training;
  const ofCommand = { "trainer.program": command.program, "trainer.command": command.sha256 };
  const output = await readOutput(folder, spaceBeside(recorded), await keptNameIn(base.folder));
  const { model: opened, metrics, attachments, dropped } = output;
  const { file, requireUnchanged, close, notes, path: where } = opened;
  try {
    const found = await modelOfLine(options.outbox, {
      file,
      where,
      line,
      base: base.versionId,
      holdBytes: heldBytes(options.profile),
    });
    await requireUnchanged();
    const { model } = found;
    const checked = await checkOutput(options, training, { folder, model });
    const { recording, libraries } = recorded?.watched ?? {};
    const profile = recording && profileToStore(recording.bytes, options.random);
    const others = profile === undefined ? 0 : profileObjects;
    const used = withProfile(recorded && samples && (await dataUsed(samples.hash, others)), profile);
    const stored = await storeModel(options, model, {
      line,
      base: base.versionId,
      metrics: {
        ...metrics,
        metadata: {
          ...metrics.metadata,
          ...checked?.metadata,
          ...ofCommand,
          "training.ms": durationMs,
          ...defined({ "training.samples": samples?.train }),
        },
      },
      attachments: attachmentsWithLayout([...attachments, ...programAttachments(recorded)], found),
      ...defined({ used }),
      samples: job.samples,
      invocation,
      ...defined({ data: samples && [samples.hash] }),
      provenance: {
        parameters: parametersWithOrigin(job.parameters, job.called ?? []),
        random: { seed: job.seed, invocation },
        ...defined({ data: samples && [describeSamples(job.dataset, samples, recorded !== undefined)] }),
        ...defined({ program: recorded && programOf(recorded, profile) }),
        course: { kind: "external trainer", command },
        times: { endedAtMs: Math.round(options.clock.now()), workMs: Math.round(durationMs) },
        by: job.by ?? null,
      },
      environment: { ...ofCommand, ...defined({ loadOrder: libraries && orderText(libraries) }) },
    });
    reportLeftOut(options, `model ${stored.sequence} of ${line}`, { line, used, dropped });
    for (const note of [...notes, ...found.notes, ...(checked ? [checked.note] : [])])
      options.log.info("trainer-model", { line, text: `${line}: ${note}` });
    logTrained(options.log, training, {
      stored,
      durationMs,
      text: `${command.program}${described(metrics.metric)}`,
    });
    return { ...stored, metric: metrics.metric };
  } finally {
    await close();
  }
}

interface LoggedTraining {
  readonly stored: StoredModel;
  readonly durationMs: number;
  /** The program, and its metric. */
  readonly text: string;
}

function logTrained(
  log: Log,
  { line, invocation, job }: ExternalTraining,
  { stored: { versionId, sequence, tensorBytes, newTensorBytes }, durationMs, text }: LoggedTraining,
): void {
  log.info("trained", {
    line,
    versionId,
    invocation,
    ...requestField(job),
    sequence,
    newBytes: newTensorBytes,
    tensorBytes,
    ms: durationMs,
    text: `${line} trained model ${sequence} with ${text}`,
  });
}

function described(metric: Metric | null): string {
  return metric === null
    ? ""
    : `: ${metric.name} ${metric.before.toFixed(2)} → ${metric.after.toFixed(2)} ${metric.unit}`.trimEnd();
}
