/**
 * Measures versions on the held-out samples of their line, which no training has seen, and compares two sample by
 * sample. The device must have the versions. Runs between trainings, so that both never need their memory at once.
 */
import { join } from "node:path";
import type { Hash } from "../../shared/tensor/tensor.js";
import { loadDataset } from "../../shared/train/datasets/registry.js";
import { maxEvaluated } from "../../shared/train/evaluation-job.js";
import { outputChange } from "../../shared/train/output-change.js";
import { pairLosses, type PairedLosses } from "../../shared/train/sample-losses.js";
import type { DatasetReference } from "../../shared/train/training.js";
import type { MeasuredBy } from "../../shared/wire/gate-answers.js";
import type { Activator } from "../lines/activator.js";
import type { Outbox } from "../outbox/outbox.js";
import {
  measureByEngine,
  measureByProgram,
  type EvaluatedVersion,
  type Measured,
  type MeasureOptions,
  type VersionMeasurement,
} from "./measure-version.js";
import { limitNotAllowed, modelNotKept, notMeasurable, nothingToEvaluate } from "./trainer-errors.js";
import { datasetOf, type JobOptions } from "./training-job.js";

export interface EvaluatorOptions extends Omit<JobOptions, "recipes">, MeasureOptions {
  readonly home: string;
  readonly activator: Activator;
  readonly outbox: Pick<Outbox, "entry" | "record">;
}

export interface EvaluationRequest {
  /** One or two versions on this device. Empty: the one that the line runs. */
  readonly versionIds: readonly Hash[];
  /** The number of held-out samples, the first ones. */
  readonly limit?: number | undefined;
}

export interface LineEvaluation {
  readonly line: string;
  readonly measuredBy?: Exclude<MeasuredBy, "nothing">;
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
   * @throws MODEL_NOT_FOUND where the device does not have a version, MODEL_OPAQUE where it has nothing that can run
   * one, DATASET_EMPTY without samples, what measureByEngine and measureByProgram throw
   */
  async evaluate(line: string, { versionIds, limit }: EvaluationRequest): Promise<LineEvaluation> {
    const { activator, config } = this.options;
    const active = activator.base(line)?.versionId;
    const asked = versionIds.length > 0 ? versionIds : active === undefined ? [] : [active];
    if (asked.length === 0) throw nothingToEvaluate(line);
    for (const versionId of asked) this.#requireHere(line, versionId);
    if (limit !== undefined && !(Number.isSafeInteger(limit) && limit >= 1 && limit <= maxEvaluated))
      throw limitNotAllowed(maxEvaluated);
    for (const versionId of asked) await this.#requireMeasurable(line, versionId);
    const { dataset } = await datasetOf(this.options, line, config.lines[line]?.dataset);
    const inference = asked.length > 1;
    const [versionId, other] = asked as [Hash, Hash | undefined];
    const first = await this.#measure({ line, versionId, dataset, limit, inference });
    // The second gets the same samples as the first, or is refused.
    const same = { ...dataset, hash: first.datasetHash };
    const second =
      other === undefined
        ? undefined
        : await this.#measure({ line, versionId: other, dataset: same, limit, inference });
    return {
      line,
      measuredBy: config.lines[line]?.measure === undefined ? "engine" : "program",
      versions: [first, ...(second === undefined ? [] : [second])].map(({ version }) => version),
      samples: first.samples,
      datasetHash: first.datasetHash,
      ...(second === undefined ? { paired: null, change: null } : await this.#compare(first, second, same)),
    };
  }

  #requireHere(line: string, versionId: Hash): void {
    const entry = this.options.outbox.entry(versionId);
    if (entry?.lines.includes(line) !== true)
      throw modelNotKept(line, versionId, this.options.profile.disk.keepLast);
  }

  /** @throws MODEL_OPAQUE */
  async #requireMeasurable(line: string, versionId: Hash): Promise<void> {
    const { outbox, config } = this.options;
    if (config.lines[line]?.measure !== undefined) return;
    if ((await outbox.record(versionId)).record.kind === "opaque") throw notMeasurable(line, versionId);
  }

  async #measure(
    asked: Pick<VersionMeasurement, "line" | "versionId" | "dataset" | "limit" | "inference">,
  ): Promise<Measured> {
    const { activator, files, home, config, outbox } = this.options;
    const { line, versionId } = asked;
    const workFolder = join(home, "work", `evaluate-${line}`);
    this.#inUse.add(versionId);
    try {
      const { folder } = await activator.installBase(line, versionId);
      const bytes = outbox.entry(versionId)?.tensorBytes ?? 0;
      const measurement = { ...asked, folder, bytes, workFolder, signal: this.#abort.signal };
      const program = config.lines[line]?.measure;
      return program === undefined
        ? await measureByEngine(this.options, measurement)
        : await measureByProgram(this.options, program, measurement);
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
    const { set } = await loadDataset(dataset, this.options.files);
    const [a, b] = [first.lossesOn(set), second.lossesOn(set)];
    const change =
      first.outputs === undefined || second.outputs === undefined
        ? undefined
        : outputChange(set, first.samples.evaluated, [first.outputs, second.outputs]);
    return {
      paired: a === undefined || b === undefined ? null : pairLosses(a, b),
      change: change ?? null,
    };
  }
}
