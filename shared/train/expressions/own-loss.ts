/** The loss that a fleet's own recipe gives as an expression: a number for each sample of a batch. */
import { StemmaError } from "../../errors.js";
import { allFinite } from "../kernels/optimizer-step.js";
import type { TensorFlow, TfTensor } from "../tensorflow.js";
import type { Expression } from "./check-expression.js";
import { evaluateExpression } from "./evaluate-expression.js";

/** An expression whose inputs are the targets of all outputs, then the outputs, and whose result is one number. */
export interface OwnLoss {
  readonly own: Expression;
}

/**
 * The losses of a batch, [batch].
 * @param outputs [batch, …output shape] for each output of the model
 * @param targets of the same shapes
 * @throws ARCHITECTURE_MISMATCH where an output has another shape than its target; NOT_A_NUMBER where an output is not
 * finite, because a comparison could hide that from the loss
 */
export function ownLosses(
  tf: TensorFlow,
  { own }: OwnLoss,
  outputs: readonly TfTensor[],
  targets: readonly TfTensor[],
): TfTensor {
  outputs.forEach((output, index) => {
    const wanted = targets[index]?.shape ?? [];
    if (output.shape.join() !== wanted.join())
      throw new StemmaError(
        "ARCHITECTURE_MISMATCH",
        `The output ${index} of the model has the shape [${output.shape.slice(1).join(", ")}], and the recipe's ` +
          `loss() compares it with one of [${wanted.slice(1).join(", ")}]. Choose a model for this data.`,
        { output: index },
      );
    if (!allFinite(tf, output))
      throw new StemmaError(
        "NOT_A_NUMBER",
        `The output ${index} of the model has a number that is not finite, so the recipe's loss() cannot be ` +
          "computed. Lower the learning rate, or clip the gradients (clipNorm), and train again.",
        { output: index },
      );
  });
  const batch = outputs[0]?.shape[0] ?? 0;
  return evaluateExpression(tf, own, { tensors: [...targets, ...outputs], batch });
}
