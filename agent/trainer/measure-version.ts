/** Measures one installed version on held-out samples: with the engine, or with the line's own program. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { defined } from "../../shared/defined.js";
import type { Files } from "../../shared/ports.js";
import { littleEndianFloats } from "../../shared/tensor/little-endian-floats.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { SampleSet } from "../../shared/train/datasets/dataset.js";
import { loadDataset } from "../../shared/train/datasets/registry.js";
import type { evaluateInChild } from "../../shared/train/evaluate-in-child.js";
import { firstSamples, metricValue, taskMetrics } from "../../shared/train/evaluation.js";
import { maxEvaluated, outputsFile, type InferenceCost } from "../../shared/train/evaluation-job.js";
import { sampleLosses } from "../../shared/train/sample-losses.js";
import { jobFormat, type DatasetReference } from "../../shared/train/training.js";
import { measureExternally, type ExternalMeasurementOptions } from "../external/measure-externally.js";
import type { MeasureProgram } from "../settings/measure-program.js";
import { noHeldOut } from "./trainer-errors.js";
import { settingsOf } from "./training-settings.js";

export interface MeasureOptions extends ExternalMeasurementOptions {
  readonly files: Files;
  readonly evaluate: typeof evaluateInChild;
}

export interface VersionMeasurement {
  readonly line: string;
  readonly versionId: Hash;
  /** The folder of the installed version, and its tensors' bytes. */
  readonly folder: string;
  readonly bytes: number;
  readonly dataset: DatasetReference;
  /** The number of held-out samples, the first ones. */
  readonly limit: number | undefined;
  /** True if time and memory are measured, which only the engine does. */
  readonly inference: boolean;
  readonly workFolder: string;
  readonly signal: AbortSignal;
}

export interface EvaluatedVersion {
  readonly versionId: Hash;
  readonly metric: {
    readonly name: string;
    readonly unit: string;
    readonly lowerIsBetter: boolean;
    /** Null where it is not finite. */
    readonly value: number | null;
  };
  readonly durationMs: number;
  /** Time of one sample and memory of the process; only beside another version. */
  readonly inference?: InferenceCost | undefined;
}

export interface Measured {
  readonly version: EvaluatedVersion;
  readonly samples: { readonly evaluated: number; readonly heldOut: number };
  readonly datasetHash: Hash;
  /** The model's outputs; undefined where a program left none. */
  readonly outputs: Float32Array | undefined;
  /** The loss of each of these samples; undefined where it cannot be told. */
  readonly lossesOn: (set: SampleSet) => Float64Array | undefined;
}

/** @throws what evaluateInChild throws */
export async function measureByEngine(
  { files, profile, evaluate }: MeasureOptions,
  { versionId, folder, dataset, limit, inference, workFolder, signal }: VersionMeasurement,
): Promise<Measured> {
  await files.remove(workFolder);
  await files.makeFolder(workFolder);
  const { memoryLimitMb, threads } = settingsOf(profile);
  const result = await evaluate(
    {
      format: jobFormat,
      evaluate: { ...defined({ limit }), outputs: true, inference },
      dataset,
      base: { folder, versionId },
      memoryLimitMb,
      threads,
    },
    { workFolder, signal, memoryLimitMb },
  );
  const metric = taskMetrics[result.evaluation.task];
  const value = metricValue(result.evaluation, metric.unit);
  const outputs = littleEndianFloats(await readFile(join(workFolder, "result", outputsFile)));
  const { samples, datasetHash } = result;
  return {
    version: {
      versionId,
      metric: { ...metric, value: Number.isFinite(value) ? value : null },
      durationMs: Math.round(result.durationMs),
      ...defined({ inference: result.inference }),
    },
    samples,
    datasetHash,
    outputs,
    lossesOn: (set) => sampleLosses(set, firstSamples(set.heldOut, samples.evaluated), outputs),
  };
}

/** @throws DATASET_EMPTY without held-out samples, the readers' errors, what measureExternally throws */
export async function measureByProgram(
  options: MeasureOptions,
  program: MeasureProgram,
  { line, versionId, folder, bytes, dataset, limit, workFolder, signal }: VersionMeasurement,
): Promise<Measured> {
  const { clock, files } = options;
  const startedMs = clock.monotonic();
  const { set, hash } = await loadDataset(dataset, files);
  if (set.heldOut.count === 0) throw noHeldOut(line);
  const part = firstSamples(set.heldOut, limit ?? maxEvaluated);
  const model = { versionId, folder, bytes };
  const { loss, losses, outputs } = await measureExternally(options, {
    line,
    program,
    model,
    set,
    part,
    workFolder,
    signal,
  });
  return {
    version: {
      versionId,
      metric: { ...taskMetrics.general, value: loss },
      durationMs: Math.round(clock.monotonic() - startedMs),
    },
    samples: { evaluated: part.count, heldOut: set.heldOut.count },
    datasetHash: hash,
    outputs,
    lossesOn: () => losses,
  };
}
