/**
 * Passes of a model over a part of the samples, without training, in batches of a fixed size. A pass can be cut short
 * after any batch and continue in another process with the same bits.
 */
import { StemmaError } from "../errors.js";
import { outputsOf, sampleLength, type SamplePart, type SampleSet } from "./datasets/dataset.js";
import { outputShape } from "./datasets/target-form.js";
import type { Evaluation } from "./evaluation.js";
import type { FitPlan } from "./fit-plan.js";
import { batchOf, totalLoss, type BatchLoss } from "./loss.js";
import { centresOf, checkShapes, endsIn, lossTermsFor } from "./model-outputs.js";
import { Tally } from "./tally.js";
import type { TensorFlow } from "./tensorflow.js";
import type { Trainable } from "./trainable.js";
import type { PassProgress } from "./training-state.js";

/** Keeps how far a pass is. */
export interface PassState {
  /** Reads where an earlier process was cut short; undefined where the pass begins. */
  read(): Promise<PassProgress | undefined>;
  /** Called after each batch; saves the progress if it is time to. */
  save(progress: () => PassProgress): Promise<void>;
}

const batchSize = 64;

interface Pass {
  readonly part: SamplePart;
  readonly state: PassState | undefined;
  /** Continues from the running numbers of an earlier process; false where they are of another form. */
  readonly restore: (sums: Float64Array) => boolean;
  readonly sums: () => Float64Array;
  readonly add: (rows: { readonly from: number; readonly to: number }) => void;
}

async function overBatches({ part, state, restore, sums, add }: Pass): Promise<void> {
  const saved = await state?.read();
  const isUsable = saved !== undefined && saved.samples <= part.count && restore(saved.sums);
  for (let from = isUsable ? saved.samples : 0; from < part.count;) {
    const to = Math.min(from + batchSize, part.count);
    add({ from, to });
    from = to;
    await state?.save(() => ({ samples: to, sums: sums() }));
  }
}

function indicesOf({ from, to }: { readonly from: number; readonly to: number }): Uint32Array {
  return Uint32Array.from({ length: to - from }, (_, index) => from + index);
}

interface LossSettings {
  readonly tf: TensorFlow;
  readonly model: Trainable;
  readonly samples: SampleSet;
  readonly losses: BatchLoss;
}

/** The mean loss over the samples of a part. */
export async function meanLossOn(
  part: SamplePart,
  { tf, model, samples, losses }: LossSettings,
  state?: PassState,
): Promise<number> {
  let sum = 0;
  await overBatches({
    part,
    state,
    restore(sums) {
      [sum = 0] = sums;
      return true;
    },
    sums: () => Float64Array.of(sum),
    add(rows) {
      sum +=
        (rows.to - rows.from) *
        tf.tidy(() => {
          const { inputs, targets } = batchOf(tf, samples, part, { indices: indicesOf(rows) });
          return totalLoss(tf, losses, model.forward(inputs, false), { targets }).dataSync()[0] as number;
        });
    },
  });
  return sum / part.count;
}

export interface EvaluatedModel {
  readonly tf: TensorFlow;
  readonly model: Trainable;
  readonly samples: SampleSet;
  readonly loss: FitPlan["loss"];
}

export interface EvaluateOptions {
  /** The number of largest outputs among which a sample's class is counted too (classification). */
  readonly top?: number | undefined;
  readonly state?: PassState | undefined;
  /** Called with the outputs of each batch, for each output of the model its rows from `from` on. */
  readonly onOutputs?: ((outputs: readonly Float32Array[], from: number) => void) | undefined;
}

/**
 * Evaluates a model on a part of the samples.
 * @throws ARCHITECTURE_MISMATCH when the shape of the model's input or of an output does not fit the samples
 */
export async function evaluateModel(
  { tf, model, samples, loss }: EvaluatedModel,
  part: SamplePart,
  { top, state, onOutputs }: EvaluateOptions = {},
): Promise<Evaluation> {
  checkShapes(model, samples);
  const widths = outputsOf(samples).map((form) => outputShape(form).reduce((a, b) => a * b, 1));
  const losses = samples.task === "general" ? lossTermsFor(model, samples, loss) : undefined;
  const tally = new Tally(samples, {
    top,
    areProbabilities: losses && widths.map((_, index) => endsIn(model, index, "sigmoid")),
    centres: losses && widths.map((_, index) => centresOf(model, index)),
  });
  let lossSum = 0;
  await overBatches({
    part,
    state,
    restore(sums) {
      if (!tally.restore(sums.subarray(1))) return false;
      [lossSum = 0] = sums;
      return true;
    },
    sums: () => Float64Array.of(lossSum, ...tally.sums),
    add(rows) {
      const count = rows.to - rows.from;
      const { outputs, batchLoss } = tf.tidy(() => {
        const { inputs, targets } = batchOf(tf, samples, part, { indices: indicesOf(rows) });
        const found = model.forward(inputs, false);
        return {
          outputs: found.map((output) => output.dataSync<"float32">()),
          batchLoss:
            losses === undefined ? 0 : (totalLoss(tf, losses, found, { targets }).dataSync()[0] as number),
        };
      });
      requireWidths(outputs, widths, { count, inputLength: sampleLength(samples) });
      onOutputs?.(outputs, rows.from);
      tally.add(part, rows, outputs);
      lossSum += count * batchLoss;
    },
  });
  return tally.evaluation(part, lossSum / part.count);
}

/** @throws ARCHITECTURE_MISMATCH */
function requireWidths(
  outputs: readonly Float32Array[],
  widths: readonly number[],
  { count, inputLength }: { readonly count: number; readonly inputLength: number },
): void {
  widths.forEach((width, index) => {
    const found = outputs[index]?.length ?? 0;
    if (found !== count * width)
      throw new StemmaError(
        "ARCHITECTURE_MISMATCH",
        `The model outputs ${found / count} numbers for a sample of ${inputLength} numbers, the data needs ${width}. Choose data for this model's task.`,
      );
  });
}
