/**
 * Asks a recipe's own code for its loss and its change of samples, once for a training, and checks both for the samples
 * that they will be computed on.
 */
import { outputsOf, type SampleSet } from "../datasets/dataset.js";
import { outputShape } from "../datasets/target-form.js";
import {
  checkExpression,
  numbersOf,
  workOf,
  type Expression,
  type WantedExpression,
} from "../expressions/check-expression.js";
import type { ExpressionAnswer } from "../expressions/operations.js";
import type { OwnLoss } from "../expressions/own-loss.js";
import { invalidRecipe } from "./bundle.js";
import type { RecipeDescription } from "./description.js";

/** The most numbers that all tensors of an expression may have for a batch: 1 GiB. */
const maxBatchNumbers = 2 ** 28;
/** Samples of a batch that is only evaluated. */
const evaluatedBatch = 64;

interface Asked {
  readonly data: SampleSet;
  readonly batchSize: number;
  /** The input of both functions beside their tensors. */
  readonly given: Readonly<Record<string, unknown>>;
  readonly ask: (call: "loss" | "augment", input: unknown) => Promise<ExpressionAnswer>;
}

export interface OwnExpressions {
  readonly loss?: OwnLoss | undefined;
  readonly augmentation?: Expression | undefined;
  /** Multiplications of both for each sample. */
  readonly work: number;
}

/** @throws RECIPE_INVALID naming the operation; RECIPE_FAILED, CONFINEMENT_FAILED */
export async function ownExpressions(
  { loss, augments }: Pick<RecipeDescription, "loss" | "augments">,
  { data, batchSize, given, ask }: Asked,
): Promise<OwnExpressions> {
  const checked = (
    call: "loss" | "augment",
    answer: ExpressionAnswer,
    wanted: WantedExpression,
  ): Expression => {
    const fail = (why: string): never => {
      throw invalidRecipe(`recipe.${call}(): ${why}`);
    };
    const expression = checkExpression(answer, wanted, fail);
    const numbers = numbersOf(expression) * Math.max(evaluatedBatch, Math.min(batchSize, data.train.count));
    if (numbers > maxBatchNumbers)
      fail(`its tensors have ${numbers} numbers for a batch, and ${maxBatchNumbers} are the most`);
    return expression;
  };
  const shapes = outputsOf(data).map(outputShape);
  const own =
    loss === "own"
      ? checked("loss", await ask("loss", { count: shapes.length, ...given }), {
          inputs: [...shapes, ...shapes],
          output: [],
          isOfSamples: false,
          needs: shapes.map((_, index) => shapes.length + index),
        })
      : undefined;
  const augmentation = augments
    ? checked("augment", await ask("augment", given), {
        inputs: [data.inputShape],
        output: data.inputShape,
        isOfSamples: true,
        needs: [],
      })
    : undefined;
  return {
    loss: own && { own },
    augmentation,
    work: [own, augmentation].reduce((sum, each) => sum + (each === undefined ? 0 : workOf(each)), 0),
  };
}
