/**
 * Fine-tunes any model whose outputs the data declares: several outputs, numbers of any shape, sequences and masks,
 * labels, and autoencoders. Every output has a loss, by the kind of its target or as the parameters name it, and a
 * weight.
 */
import { StemmaError } from "../../errors.js";
import { outputsOf, type SampleSet } from "../datasets/dataset.js";
import { outputShape, type TargetForm, type TargetKind } from "../datasets/target-form.js";
import { lossNames, type LossName, type OutputLoss } from "../fit-plan.js";
import { lossOfKind } from "../default-losses.js";
import { defineRecipe } from "./define-recipe.js";
import { parameter, textOf, trainingParameters } from "./recipe-parameters.js";
import type { Parameters, Recipe } from "./recipe.js";
import * as z from "zod";

/** Losses that make sense for each kind of target. */
const lossesOfKind: Readonly<Record<TargetKind, readonly LossName[]>> = {
  numbers: ["mean-squared-error", "mean-absolute-error", "sigmoid-cross-entropy"],
  input: ["mean-squared-error", "mean-absolute-error", "sigmoid-cross-entropy"],
  class: ["softmax-cross-entropy", "sigmoid-cross-entropy", "mean-squared-error", "mean-absolute-error"],
  classes: ["softmax-cross-entropy", "sigmoid-cross-entropy", "mean-squared-error", "mean-absolute-error"],
  labels: ["sigmoid-cross-entropy", "mean-squared-error", "mean-absolute-error"],
};

const refuse = (problem: string, name: string): StemmaError =>
  new StemmaError(
    "RECIPE_PARAMETERS_INVALID",
    `The recipe fine-tune does not accept its parameter ${name}: ${problem}. Correct the parameter.`,
    { recipe: "fine-tune", parameter: name },
  );

/** "wear=0.5,mode=2" by target name. */
function byTarget(
  text: string,
  targets: readonly TargetForm[],
  parameterName: string,
): ReadonlyMap<string, string> {
  const entries = text === "" ? [] : text.split(",").map((entry) => entry.split("="));
  for (const [name = "", ...values] of entries) {
    if (values.length !== 1) throw refuse("it is written as TARGET=VALUE,TARGET=VALUE", parameterName);
    if (!targets.some((target) => target.name === name))
      throw refuse(
        `the data has no target "${name.slice(0, 64)}"; it has ${targets.map((target) => target.name).join(", ")}`,
        parameterName,
      );
  }
  return new Map(entries.map(([name = "", value = ""]) => [name, value]));
}

function lossesOf(parameters: Parameters, data: SampleSet): readonly OutputLoss[] {
  const targets = outputsOf(data);
  const names = byTarget(textOf(parameters, "losses"), targets, "losses");
  const weights = byTarget(textOf(parameters, "lossWeights"), targets, "lossWeights");
  return targets.map(({ name, kind, ...form }) => {
    const wanted = names.get(name) ?? lossOfKind[kind];
    const loss = lossNames.find((each) => each === wanted && lossesOfKind[kind].includes(each));
    if (loss === undefined)
      throw refuse(
        `the target ${name} (${kind}, outputs [${outputShape({ name, kind, ...form }).join(", ")}]) ` +
          `cannot have the loss "${wanted.slice(0, 60)}"; use one of ${lossesOfKind[kind].join(", ")}`,
        "losses",
      );
    const weight = Number(weights.get(name) ?? 1);
    if (!(weight >= 0 && weight <= 1e6))
      throw refuse(`the weight of ${name} must be a number from 0 to 1000000`, "lossWeights");
    return { loss, weight };
  });
}

export const fineTune: Recipe = defineRecipe({
  name: "fine-tune",
  version: 1,
  task: "any",
  loss: lossesOf,
  metric: { name: "loss", unit: "", lowerIsBetter: true },
  title:
    "fine-tuning of any model on declared targets (several outputs, shapes, masks, labels, autoencoders)",
  parameters: {
    ...trainingParameters,
    losses: parameter(
      z.string().max(2000),
      "",
      "",
      `loss of each target (TARGET=LOSS,…): ${lossNames.join(", ")}; by the kind of the target when absent`,
    ),
    lossWeights: parameter(
      z.string().max(2000),
      "",
      "",
      "weight of each target's loss in the sum (TARGET=NUMBER,…); 1 when absent",
    ),
  },
  initialModel() {
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      "The recipe fine-tune needs a base model, since it has no network of its own. Name one with " +
        "--base, imported with --arch.",
      { recipe: "fine-tune" },
    );
  },
  freezes: () => false,
});
