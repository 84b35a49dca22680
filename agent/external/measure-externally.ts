/**
 * One measurement of a version by a program of the device's own, from its folder to the losses that it left. What the
 * program gets is in docs/own-models.md.
 *
 *     <work>/input/job.json
 *     <work>/input/model/          model.safetensors; where it has them architecture.json, names.json and
 *                                  original.safetensors
 *     <work>/input/samples/        held-out.safetensors
 */
import { fileError } from "../../shared/files/file-error.js";
import type { Clock, Files, Log, Random } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { SamplePart } from "../../shared/train/datasets/dataset.js";
import { endLeftProcess } from "../../shared/programs/left-process.js";
import { checkCommand } from "../../shared/programs/trusted-command.js";
import { judgeDisk, noDiskFor, type DiskUse } from "../resources/disk-budget.js";
import type { MeasureProgram } from "../settings/measure-program.js";
import type { Profile } from "../settings/profile.js";
import {
  copyModel,
  makeJobFolders,
  originalBytesIn,
  writeJob,
  writeSamples,
  type JobFolders,
  type JobLimits,
  type SampleForm,
} from "../../shared/programs/job-folder.js";
import { readMeasurement, type Measurement } from "./read-measurement.js";
import { measureKind } from "../../shared/programs/run-command.js";
import { runJob } from "../../shared/programs/run-job.js";

export interface ExternalMeasurementOptions {
  readonly files: Files;
  readonly random: Random;
  readonly clock: Clock;
  readonly log: Log;
  readonly profile: Profile;
  /** User id that owns agent.json; undefined where the system has no user ids. */
  readonly commandOwner: number | undefined;
  readonly diskUse: () => Promise<DiskUse>;
}

export interface ExternalMeasurement {
  readonly line: string;
  readonly program: MeasureProgram;
  /** The installed version. */
  readonly model: { readonly versionId: Hash; readonly folder: string; readonly bytes: number };
  readonly set: SampleForm;
  /** The held-out samples that it is measured on. */
  readonly part: SamplePart;
  /** A folder of its own; the caller removes it. */
  readonly workFolder: string;
  readonly signal: AbortSignal;
}

/**
 * @throws TRAINER_FAILED, TRAINER_TIMED_OUT, TRAINER_OUTPUT_INVALID, TRAINER_OUTPUT_TOO_LARGE, CONFIG_INVALID (the
 * command), DISK_BUDGET_EXHAUSTED, DISK_FULL; TRAINING_STOPPED when it was cut short
 */
export async function measureExternally(
  options: ExternalMeasurementOptions,
  measurement: ExternalMeasurement,
): Promise<Measurement> {
  const { line, program, part, workFolder, signal } = measurement;
  await endLeftProcess(workFolder);
  await checkCommand(program, { field: `lines.${line}.measure.exec`, owner: options.commandOwner });
  const limits = await limitsOf(options, measurement);
  const folders = await prepare(options, measurement, limits);
  await runJob(
    { line, kind: measureKind, program, workFolder, folders, limits },
    { clock: options.clock, log: options.log, signal, takesLine: () => false },
  );
  return await readMeasurement(folders.output, part.count);
}

async function limitsOf(
  { profile, diskUse }: ExternalMeasurementOptions,
  { line, program, model, part }: ExternalMeasurement,
): Promise<JobLimits> {
  const modelBytes = model.bytes + (await originalBytesIn(model.folder));
  const copied = modelBytes + part.inputs.byteLength + part.targets.byteLength;
  const verdict = judgeDisk(profile.disk, await diskUse(), "train", copied);
  if (!verdict.allowed)
    throw noDiskFor(`The models of ${line} cannot be measured now`, verdict, "Ask again later.", { line });
  return {
    memoryLimitMb: profile.training.memoryLimitMb,
    threads: profile.training.threads,
    timeoutSeconds: program.timeoutSeconds,
    maxOutputBytes: Math.min(program.maxOutputBytes, verdict.remainingBytes),
  };
}

async function prepare(
  { files, random }: ExternalMeasurementOptions,
  { line, model, set, part, workFolder }: ExternalMeasurement,
  limits: JobLimits,
): Promise<JobFolders> {
  try {
    const folders = await makeJobFolders(workFolder, random, ["model", "samples"]);
    const paths = await copyModel(model.folder, folders, "model");
    const { task, inputShape, targetSize, classes } = set;
    const given = { task, inputShape, targetSize, classes, heldOut: part };
    const samples = await writeSamples(files, folders, given);
    await writeJob(folders, { format: 1, line, versionId: model.versionId, ...paths, samples, ...limits });
    return folders;
  } catch (error) {
    throw fileError(error, "prepare", workFolder);
  }
}
