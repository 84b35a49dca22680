/**
 * Measures how long a model takes for one sample, as the software of a device would run it. Gets
 * TensorFlow.js and a clock.
 */
import type { SamplePart, SampleSet } from "./datasets/dataset.js";
import { batchOf } from "./loss.js";
import type { TensorFlow } from "./tensorflow.js";
import type { Trainable } from "./trainable.js";

/** The first passes compile and fill caches. */
const warmUps = 3;
const minPasses = 11;
const maxPasses = 401;
/** More than `minPasses` only within this time. */
const budgetMs = 300;

export interface InferenceSubject {
  readonly tf: TensorFlow;
  readonly model: Pick<Trainable, "forward">;
  readonly samples: SampleSet;
}

/** The median time of passes over single samples, in ms. @param part at least one sample */
export function inferenceTime(
  { tf, model, samples }: InferenceSubject,
  part: SamplePart,
  monotonic: () => number,
): number {
  const times: number[] = [];
  const startedMs = monotonic();
  for (let pass = 0; pass < warmUps + maxPasses; pass++) {
    const spentMs = tf.tidy(() => {
      const { inputs } = batchOf(tf, samples, part, { indices: Uint32Array.of(pass % part.count) });
      inputs.dataSync();
      const beganMs = monotonic();
      for (const output of model.forward(inputs, false)) output.dataSync();
      return monotonic() - beganMs;
    });
    if (pass >= warmUps) times.push(spentMs);
    if (times.length >= minPasses && monotonic() - startedMs > budgetMs) break;
  }
  times.sort((a, b) => a - b);
  return times[times.length >> 1] as number;
}
