/**
 * Measures versions on the held-out samples of their line, which no training has seen, and compares two sample by
 * sample. The device must have the versions. Runs between trainings, so that both never need their memory at once.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { defined } from "../../shared/defined.js";
import type { Files } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { SampleSet } from "../../shared/train/datasets/dataset.js";
import { loadDataset } from "../../shared/train/datasets/registry.js";
import type { evaluateInChild } from "../../shared/train/evaluate-in-child.js";
import { firstSamples, metricValue, taskMetrics } from "../../shared/train/evaluation.js";
import { maxEvaluated, outputsFile, type InferenceCost } from "../../shared/train/evaluation-job.js";
import { outputChange } from "../../shared/train/output-change.js";
import { pairLosses, sampleLosses, type PairedLosses } from "../../shared/train/sample-losses.js";
import { jobFormat, type DatasetReference } from "../../shared/train/training.js";
import type { Activator } from "../lines/activator.js";
import type { Outbox } from "../outbox/outbox.js";
import { limitNotAllowed, modelNotKept, nothingToEvaluate } from "./trainer-errors.js";
import { datasetOf, type JobOptions } from "./training-job.js";
import { settingsOf } from "./training-settings.js";

export interface EvaluatorOptions extends Omit<JobOptions, "recipes"> {
  readonly files: Files;
  readonly home: string;
  readonly activator: Activator;
  readonly outbox: Pick<Outbox, "entry">;
  readonly evaluate: typeof evaluateInChild;
}

export interface EvaluationRequest {
  /** One or two versions on this device. Empty: the one that the line runs. */
  readonly versionIds: readonly Hash[];
  /** The number of held-out samples, the first ones. */
  readonly limit?: number | undefined;
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

export interface LineEvaluation {
  readonly line: string;
  readonly versions: readonly EvaluatedVersion[];
  readonly samples: { readonly evaluated: number; readonly heldOut: number };
  /** The hash over all samples of the line, by which two evaluations can be seen to have had the same. */
  readonly datasetHash: Hash;
  /** The first version beside the second; null for one version, and where their losses cannot be told by sample. */
  readonly paired: PairedLosses | null;
  /**
   * The distance of their outputs: the share of samples with another class, or the mean absolute difference
   * of numbers. Null as `paired`, but also told for several targets.
   */
  readonly change: number | null;
}

/** The part of the evaluator that measures versions of a line. */
export type LineEvaluator = Pick<Evaluator, "inUse" | "stop" | "evaluate">;

export class Evaluator {
  readonly #abort = new AbortController();
  /** Versions whose installed files are being read. */
  readonly #inUse = new Set<Hash>();

  constructor(private readonly options: EvaluatorOptions) {}

  get inUse(): ReadonlySet<Hash> {
    return this.#inUse;
  }

  stop(): void {
    this.#abort.abort();
  }

  /**
   * @throws MODEL_NOT_FOUND where the device does not have a version, DATASET_EMPTY without samples, what
   * evaluateInChild throws
   */
  async evaluate(line: string, { versionIds, limit }: EvaluationRequest): Promise<LineEvaluation> {
    const { activator } = this.options;
    const active = activator.base(line)?.versionId;
    const asked = versionIds.length > 0 ? versionIds : active === undefined ? [] : [active];
    if (asked.length === 0) throw nothingToEvaluate(line);
    for (const versionId of asked) this.#requireHere(line, versionId);
    if (limit !== undefined && !(Number.isSafeInteger(limit) && limit >= 1 && limit <= maxEvaluated))
      throw limitNotAllowed(maxEvaluated);
    const { dataset } = await datasetOf(this.options, line, this.options.config.lines[line]?.dataset);
    const measured: Measured[] = [];
    const inference = asked.length > 1;
    for (const versionId of asked)
      measured.push(await this.#measure(line, versionId, { dataset, limit, inference }));
    const [first, second] = measured as [Measured, Measured | undefined];
    return {
      line,
      versions: measured.map(({ version }) => version),
      samples: first.samples,
      datasetHash: first.datasetHash,
      ...(second === undefined
        ? { paired: null, change: null }
        : await this.#compare(first, second, dataset)),
    };
  }

  #requireHere(line: string, versionId: Hash): void {
    const entry = this.options.outbox.entry(versionId);
    if (entry?.lines.includes(line) !== true)
      throw modelNotKept(line, versionId, this.options.profile.disk.keepLast);
  }

  async #measure(
    line: string,
    versionId: Hash,
    { dataset, limit, inference }: Measurement,
  ): Promise<Measured> {
    const { activator, files, home, profile, evaluate } = this.options;
    const workFolder = join(home, "work", `evaluate-${line}`);
    this.#inUse.add(versionId);
    try {
      const { folder } = await activator.installBase(line, versionId);
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
        { workFolder, signal: this.#abort.signal, memoryLimitMb },
      );
      const metric = taskMetrics[result.evaluation.task];
      const value = metricValue(result.evaluation, metric.unit);
      return {
        version: {
          versionId,
          metric: { ...metric, value: Number.isFinite(value) ? value : null },
          durationMs: Math.round(result.durationMs),
          ...defined({ inference: result.inference }),
        },
        samples: result.samples,
        datasetHash: result.datasetHash,
        outputs: floatsOf(await readFile(join(workFolder, "result", outputsFile))),
      };
    } finally {
      this.#inUse.delete(versionId);
      await files.remove(workFolder);
    }
  }

  async #compare(
    first: Measured,
    second: Measured,
    dataset: DatasetReference,
  ): Promise<Pick<LineEvaluation, "paired" | "change">> {
    const { set } = await loadDataset({ ...dataset, hash: first.datasetHash }, this.options.files);
    const [a, b] = [first, second].map((each) => lossesOf(set, each));
    return {
      paired: a === undefined || b === undefined ? null : pairLosses(a, b),
      change: outputChange(set, first.samples.evaluated, [first.outputs, second.outputs]) ?? null,
    };
  }
}

interface Measurement {
  readonly dataset: DatasetReference;
  readonly limit: number | undefined;
  /** True if time and memory are measured. */
  readonly inference: boolean;
}

interface Measured {
  readonly version: EvaluatedVersion;
  readonly samples: { readonly evaluated: number; readonly heldOut: number };
  readonly datasetHash: Hash;
  readonly outputs: Float32Array;
}

function lossesOf(set: SampleSet, { outputs, samples }: Measured): Float64Array | undefined {
  return sampleLosses(set, firstSamples(set.heldOut, samples.evaluated), outputs);
}

/** Reads little-endian float32, on any machine. */
function floatsOf(bytes: Buffer): Float32Array {
  const floats = new Float32Array(bytes.length / 4);
  for (let i = 0; i < floats.length; i++) floats[i] = bytes.readFloatLE(4 * i);
  return floats;
}
