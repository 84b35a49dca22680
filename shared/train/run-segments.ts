/**
 * Runs segments of a training inside the engine: each begins from a given state, or before the first step, and stops
 * after a given step. Gives the leaves on the way and no model, so that what somebody committed to can be compared
 * without the whole training. A state that is not one of this training is a result, not an error.
 */
import { messageOf } from "../error-text.js";
import { isStemmaError } from "../errors.js";
import type { Hash } from "../tensor/tensor.js";
import { loadDataset } from "./datasets/registry.js";
import type { FitPoint } from "./fit.js";
import { fit } from "./fit.js";
import { beginTraining, type TrainingBase, type TrainingPorts } from "./run-training.js";
import { trainsWithoutLeaves } from "./leaf-collector.js";
import { leafOf, leafParts, maxLeaves } from "./state-leaf.js";
import type { FitPosition, FitSnapshot, FitState } from "./training-state.js";
import type { JobSegment, SegmentRun, TrainingJob } from "./training.js";

/** Errors of a step that say something of the training, not of this machine. */
const stepErrors = ["NOT_A_NUMBER"] as const;

/**
 * @param readState gives the state of a segment's file
 * @throws what a training throws before its first step
 */
export async function runSegments(
  job: TrainingJob & { readonly segments: readonly JobSegment[] },
  base: TrainingBase | undefined,
  ports: TrainingPorts,
  readState: (file: string) => Promise<FitState>,
): Promise<readonly SegmentRun[]> {
  await ports.onProgress?.({ phase: "reading data" });
  const loaded = await loadDataset(job.dataset, ports.files);
  const runs: SegmentRun[] = [];
  for (const segment of job.segments) {
    const begun = await beginTraining(job, base, ports, loaded);
    const { model, set, plan, streams, resume } = begun;
    const whyNot = trainsWithoutLeaves(plan);
    const points = new SegmentPoints(
      segment,
      { batchSize: plan.batchSize, samples: set.train.count },
      (iteration) => ports.onProgress?.({ phase: "training", iteration, iterations: segment.toStep }),
    );
    try {
      if (whyNot !== undefined) runs.push({ leaves: [], unusable: `${whyNot} has no states between steps` });
      else {
        const continueFrom = segment.file === undefined ? undefined : await readState(segment.file);
        await fit({
          tf: ports.tf,
          model,
          samples: set,
          plan,
          streams,
          resumeFrom: resume?.state,
          continueFrom,
          hooks: { onPoint: (point, iteration, snapshot) => points.at(point, iteration, snapshot) },
        });
        runs.push(points.result);
      }
    } catch (error) {
      runs.push(points.failed(error));
    } finally {
      model.dispose();
    }
  }
  return runs;
}

interface EpochSize {
  readonly batchSize: number;
  readonly samples: number;
}

/** True if a training of such epochs is there after so many steps, before the end of the epoch. */
function isPlaceAfter(
  { epoch, iteration, order }: FitPosition,
  steps: number,
  { batchSize, samples }: EpochSize,
): boolean {
  if (iteration !== steps) return false;
  if (steps === 0) return epoch === 0 && order === null;
  const inEpoch = Math.ceil(samples / batchSize);
  const used = Math.min(samples, (((steps - 1) % inEpoch) + 1) * batchSize);
  return epoch === Math.ceil(steps / inEpoch) && order?.used === used;
}

class SegmentPoints {
  #begin: Hash | undefined;
  #failed: string | undefined;
  readonly #leaves: { readonly step: number; readonly leaf: Hash }[] = [];

  constructor(
    private readonly segment: JobSegment,
    private readonly epoch: EpochSize,
    private readonly onStep: (iteration: number) => Promise<void> | void,
  ) {}

  async at(point: FitPoint, iteration: number, snapshot: () => FitSnapshot): Promise<boolean> {
    const { fromStep, toStep, isLast, everySteps } = this.segment;
    const leaf = (): Hash => leafOf(leafParts(snapshot()));
    if (point === "begin") {
      this.#begin = leaf();
      // Whoever made the state may have written another place into it, to have more or fewer steps run, or none.
      if (isPlaceAfter(snapshot().position, fromStep, this.epoch)) return toStep === fromStep && !isLast;
      this.#failed = `no training is there after ${fromStep} steps`;
      return true;
    }
    await this.onStep(iteration);
    const isAtEnd = point === "end" || iteration > toStep || (!isLast && iteration === toStep);
    const isAsked = everySteps !== undefined && (iteration - fromStep) % everySteps === 0;
    if ((isAtEnd || isAsked) && this.#leaves.length < maxLeaves) {
      // The end comes after the last step's own point.
      if (this.#leaves.at(-1)?.step === iteration) this.#leaves.pop();
      this.#leaves.push({ step: iteration, leaf: leaf() });
    }
    return isAtEnd;
  }

  get result(): SegmentRun {
    const failed = this.#failed === undefined ? {} : { failed: this.#failed };
    return { begin: this.#begin, leaves: this.#leaves, ...failed };
  }

  /** Judges an error: before the first step the state cannot be used, after it the training cannot go on so. */
  failed(error: unknown): SegmentRun {
    if (stepErrors.some((code) => isStemmaError(error, code)))
      return { ...this.result, failed: messageOf(error) };
    if (this.#begin !== undefined || this.segment.file === undefined) throw error;
    return { leaves: [], unusable: messageOf(error) };
  }
}
