/**
 * One training by an external trainer, from its folder to the version in the outbox. A failure saves nothing and
 * has a code.
 */
import * as z from "zod";
import { defined } from "../../shared/defined.js";
import type { Clock, Files, Random } from "../../shared/ports.js";
import type { DataDescription } from "../../shared/provenance/provenance.js";
import { parametersWithOrigin } from "../../shared/provenance/training-provenance.js";
import { requestField } from "../../shared/request-id.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { TrainingProgress } from "../../shared/train/training.js";
import type { BegunJob, Metric } from "../outbox/outbox-state.js";
import { judgeDisk, noDiskFor } from "../resources/disk-budget.js";
import { heldBytes } from "../resources/held-bytes.js";
import { modelOfLine } from "../saving/line-model.js";
import { storeModel, type StoredModel, type StoreModelOptions } from "../saving/store-model.js";
import type { ExternalTrainer } from "../settings/external-trainer.js";
import { prepareJobFolder, type ExternalJob, type GivenSamples } from "./job-folder.js";
import { readOutput } from "./read-output.js";
import { trainerKind } from "./run-command.js";
import { runJob } from "./run-job.js";
import { endLeftProcess } from "../programs/left-process.js";
import { checkCommand, identifyCommand, type CommandIdentity } from "../programs/trusted-command.js";

export interface ExternalTrainingOptions extends StoreModelOptions {
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
}

export type TrainedExternally = StoredModel & { readonly metric: Metric | null };

/** The bytes that a trainer may write without a setting, in addition to twice its base. */
const defaultOutputBytes = 256 * 1024 * 1024;

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
  await checkCommand(trainer, { field: `lines.${line}.trainer.exec`, owner: options.commandOwner });
  const command = await identifyCommand(trainer);
  const job = await jobOf(options, training);
  const { folders, samples } = await prepareJobFolder(workFolder, job, options);
  await runJob(
    { line, kind: trainerKind, program: trainer, workFolder, folders, limits: job },
    {
      clock,
      log: options.log,
      signal,
      takesLine: (text) => {
        const progress = progressOf(text);
        if (progress !== undefined) onProgress(progress);
        return progress !== undefined;
      },
    },
  );
  return await saveOutput(options, training, {
    folder: folders.output,
    command,
    samples,
    durationMs: Math.round(clock.monotonic() - startedMs),
  });
}

async function jobOf(
  { profile, outbox, diskUse }: ExternalTrainingOptions,
  { line, invocation, job, trainer, base }: ExternalTraining,
): Promise<ExternalJob> {
  const baseBytes = outbox.entry(base.versionId)?.tensorBytes ?? 0;
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
      trainer.maxOutputBytes ?? 2 * baseBytes + defaultOutputBytes,
      verdict.remainingBytes,
    ),
  };
}

const count = z.number().int().min(0).optional();
const progressSchema = z.object({
  type: z.literal("progress"),
  iteration: count,
  iterations: count,
  epoch: count,
  epochs: count,
  loss: z.number().optional(),
});

/** A line of its output as a report of progress; undefined for any other line. */
function progressOf(text: string): TrainingProgress | undefined {
  if (!text.startsWith("{")) return undefined;
  try {
    const { type: _, ...numbers } = progressSchema.parse(JSON.parse(text));
    const known = Object.fromEntries(Object.entries(numbers).filter(([, value]) => value !== undefined));
    return { phase: "training", ...known };
  } catch {
    return undefined;
  }
}

interface Finished {
  readonly folder: string;
  readonly command: CommandIdentity;
  readonly samples: GivenSamples | undefined;
  readonly durationMs: number;
}

function describeSamples(
  reader: string,
  { train, validation, heldOut }: NonNullable<Finished["samples"]>,
): DataDescription {
  return { reader, samples: { train, validation, heldOut } };
}

async function saveOutput(
  options: ExternalTrainingOptions,
  { line, invocation, job, base }: ExternalTraining,
  { folder, command, samples, durationMs }: Finished,
): Promise<TrainedExternally> {
  const { model: opened, metrics, attachments, dropped } = await readOutput(folder);
  const { file, requireUnchanged, close, notes, path: where } = opened;
  try {
    const model = await modelOfLine(options.outbox, {
      file,
      where,
      line,
      base: base.versionId,
      holdBytes: heldBytes(options.profile),
    });
    await requireUnchanged();
    const stored = await storeModel(options, model, {
      line,
      base: base.versionId,
      metrics: {
        ...metrics,
        metadata: {
          ...metrics.metadata,
          "trainer.program": command.program,
          "trainer.command": command.sha256,
          "training.ms": durationMs,
          ...defined({ "training.samples": samples?.train }),
        },
      },
      attachments,
      samples: job.samples,
      invocation,
      ...defined({ data: samples && [samples.hash] }),
      provenance: {
        parameters: parametersWithOrigin(job.parameters, job.called ?? []),
        random: { seed: job.seed, invocation },
        ...defined({ data: samples && [describeSamples(job.dataset.reader, samples)] }),
        course: { kind: "external trainer", command },
        times: { endedAtMs: Math.round(options.clock.now()), workMs: Math.round(durationMs) },
        by: job.by ?? null,
      },
      environment: { "trainer.program": command.program, "trainer.command": command.sha256 },
    });
    if (dropped.length > 0)
      options.onEvent(
        "attachments-dropped",
        `model ${stored.sequence} of ${line} is saved without ${dropped.join(", ").slice(0, 500)}: too ` +
          "large, too many, or not regular files.",
        line,
      );
    for (const note of notes) options.log.info("trainer-model", { line, text: `${line}: ${note}` });
    const { versionId, sequence, tensorBytes, newTensorBytes } = stored;
    options.log.info("trained", {
      line,
      versionId,
      invocation,
      ...requestField(job),
      sequence,
      newBytes: newTensorBytes,
      tensorBytes,
      ms: durationMs,
      text: `${line} trained model ${sequence} with ${command.program}${described(metrics.metric)}`,
    });
    return { ...stored, metric: metrics.metric };
  } finally {
    await close();
  }
}

function described(metric: Metric | null): string {
  return metric === null
    ? ""
    : `: ${metric.name} ${metric.before.toFixed(2)} → ${metric.after.toFixed(2)} ${metric.unit}`.trimEnd();
}
