/** The change of training samples that a fleet's own recipe gives as an expression, drawn anew whenever one is used. */
import { StemmaError } from "../../errors.js";
import type { Stream } from "../../random/streams.js";
import { allFinite } from "../kernels/optimizer-step.js";
import type { TensorFlow, TfTensor } from "../tensorflow.js";
import type { Expression } from "./check-expression.js";
import { evaluateExpression } from "./evaluate-expression.js";

/**
 * The changed samples; those that are given are disposed.
 * @param samples [batch, …input shape]
 * @throws NOT_A_NUMBER where one is not finite
 */
export function augmentedSamples(
  tf: TensorFlow,
  expression: Expression,
  samples: TfTensor,
  stream: Stream,
): TfTensor {
  const [batch = 0] = samples.shape;
  let changed: TfTensor;
  try {
    // A clone, because the result may be the samples themselves.
    changed = tf.tidy(() =>
      tf.clone(evaluateExpression(tf, expression, { tensors: [samples], batch, stream })),
    );
  } finally {
    samples.dispose();
  }
  if (allFinite(tf, changed)) return changed;
  changed.dispose();
  throw new StemmaError(
    "NOT_A_NUMBER",
    "The recipe's augment() made a sample with a number that is not finite. Correct it and run " +
      "`stemma recipe check`.",
  );
}
