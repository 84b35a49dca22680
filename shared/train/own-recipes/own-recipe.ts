/**
 * Runs a fleet's own recipe as a Recipe of the training loop. Its code decides network and plan, and writes down loss
 * and change of samples, in a process of its own; the loop, all arithmetic and the optimizers are the engine's. Part of
 * the engine.
 */
import { StemmaError } from "../../errors.js";
import type { Streams } from "../../random/streams.js";
import type { Hash } from "../../tensor/tensor.js";
import { outputsOf, type SampleSet } from "../datasets/dataset.js";
import { sizeOf } from "../expressions/check-expression.js";
import { defineRecipe } from "../recipes/define-recipe.js";
import { resolveParameters } from "../recipes/recipe-parameters.js";
import type { Parameters, RunnableRecipe } from "../recipes/recipe.js";
import { buildNetwork } from "./build-network.js";
import { bundleId, bundleText } from "./bundle.js";
import { parameterTable, type RecipeDescription, type RecipePlan } from "./description.js";
import { ownExpressions } from "./own-expressions.js";
import { callRecipe, type Counts, type RecipeCommand, type RecipeRequest } from "./recipe-process.js";

export interface OwnRecipe {
  readonly bundle: Uint8Array;
  readonly expected: Hash;
  readonly command: RecipeCommand;
}

/** The largest number of steps of a training; each sample and weight costs beside it. */
const maxSteps = 10_000_000;
/** The most work of a training: numbers of weights × samples × epochs. About a month of one core. */
const maxWork = 2 ** 52;

/**
 * @throws RECIPE_INVALID where the bundle is not the one that is named, or not a recipe; RECIPE_FAILED,
 * CONFINEMENT_FAILED
 */
export async function openOwnRecipe(own: OwnRecipe, streams: Streams): Promise<RunnableRecipe> {
  const { bundle, expected, command } = own;
  if (bundleId(bundle) !== expected)
    throw new StemmaError(
      "RECIPE_INVALID",
      `The bundle of the recipe is not ${expected.slice(0, 12)}, which is to be trained with: its bytes were ` +
        "changed. Approve or fetch it again.",
      { expected, actual: bundleId(bundle) },
    );
  const source = bundleText(bundle);
  const ask = caller(command, source, streams);
  const described = await ask("describe", null);
  const table = parameterTable(described);
  const { name, version, title, task, metric, loss } = described;
  const base = { name, version, title, task, metric, parameters: table };
  const basic = defineRecipe({
    ...base,
    // The plan replaces that of a recipe with an own one.
    loss: loss === "own" ? () => [] : loss,
    initialModel: () => {
      throw new Error("own recipes build their models themselves");
    },
    freezes: () => false,
  });
  return {
    ...basic,
    async initialModel(parameters, data, all) {
      const network = await ask("model", { parameters, data: summaryOf(data) });
      return buildNetwork(network, data.inputShape, all);
    },
    async plan(parameters, architecture, data) {
      const layers = architecture.layers.map(({ className, config, weights }) => ({
        className,
        config,
        weights: weights.map((weight) => ({ name: weight.name, shape: weight.shape })),
      }));
      const summary = summaryOf(data);
      const own = await ask("plan", { parameters, data: summary, layers });
      const set = resolveParameters(name, table, own.set, false);
      const changed: Parameters = { ...parameters, ...only(set, Object.keys(own.set)) };
      const planned = basic.plan(changed, architecture, data);
      const frozenLayers = [...new Set([...planned.frozenLayers, ...own.frozenLayers])].sort((a, b) => a - b);
      checkPlan(described, { ...own, frozenLayers }, { data, layers: layers.length });
      const expressions = await ownExpressions(described, {
        data,
        batchSize: planned.batchSize,
        given: { parameters: changed, data: summary, layers },
        ask,
      });
      const weights = architecture.layers.flatMap((layer) => layer.weights);
      requireAffordable(name, planned, {
        samples: data.train.count,
        numbers: weights.reduce((sum, { shape }) => sum + sizeOf(shape), expressions.work),
      });
      const { classWeights } = own;
      const { augmentation } = expressions;
      return {
        ...planned,
        frozenLayers,
        loss: expressions.loss ?? own.loss ?? planned.loss,
        ...(augmentation && { augmentation }),
        ...(classWeights && { classWeights }),
      };
    },
  };
}

/** @throws RECIPE_INVALID where the plan does not fit the model or the data */
function checkPlan(
  { name, loss }: RecipeDescription,
  { frozenLayers, classWeights, loss: planned }: RecipePlan,
  { data, layers }: { readonly data: SampleSet; readonly layers: number },
): void {
  const beyond = frozenLayers.find((layer) => layer >= layers);
  if (beyond !== undefined) throw unusable(name, `it freezes layer ${beyond} of ${layers}`);
  if (classWeights !== undefined && classWeights.length !== data.classes)
    throw unusable(name, `it weighs ${classWeights.length} classes, and the data has ${data.classes}`);
  if (planned === undefined) return;
  if (loss === "own") throw unusable(name, "its plan names a loss, and the recipe has a function for it");
  const { length } = outputsOf(data);
  if (typeof planned !== "string" && planned.length !== length)
    throw unusable(name, `its plan names ${planned.length} losses, and the data has ${length} targets`);
}

type Ask = <Call extends RecipeRequest["call"]>(
  call: Call,
  input: unknown,
) => Promise<Awaited<ReturnType<typeof callRecipe<Call>>>["answer"]>;

/** Calls the recipe; what it draws counts in the streams of the training. */
function caller(command: RecipeCommand, source: string, streams: Streams): Ask {
  const { seed, invocation } = streams;
  let counts: Counts = {};
  return async (call, input) => {
    const answered = await callRecipe(command, { source, call, input, seed, invocation, counts });
    counts = answered.counts;
    streams.restore(counts);
    return answered.answer;
  };
}

/** Returns what a recipe learns of the data: sizes, and the means and counts of its targets. */
function summaryOf(data: SampleSet): Readonly<Record<string, unknown>> {
  const { task, inputShape, targetSize, classes, train } = data;
  return {
    task,
    inputShape,
    targetSize,
    classes,
    outputs: outputsOf(data).map(({ kind, shape, classes: count }) => ({ kind, shape, classes: count })),
    samples: train.count,
    classCounts: task === "classification" ? classCounts(train.targets, classes) : [],
    targetMeans: task === "regression" ? targetMeans(train, targetSize) : [],
  };
}

function classCounts(targets: Float32Array, classes: number): readonly number[] {
  const counts = new Array<number>(classes).fill(0);
  for (const target of targets) counts[target] = (counts[target] ?? 0) + 1;
  return counts;
}

function targetMeans({ targets, count }: SampleSet["train"], size: number): readonly number[] {
  const sums = new Float64Array(size);
  targets.forEach((target, index) => {
    sums[index % size] = (sums[index % size] as number) + target;
  });
  return Array.from(sums, (sum) => Math.fround(sum / Math.max(1, count)));
}

const only = (parameters: Parameters, names: readonly string[]): Parameters =>
  Object.fromEntries(Object.entries(parameters).filter(([name]) => names.includes(name)));

function requireAffordable(
  name: string,
  { epochs, batchSize }: { readonly epochs: number; readonly batchSize: number },
  { samples, numbers }: { readonly samples: number; readonly numbers: number },
): void {
  const steps = epochs * Math.ceil(samples / batchSize);
  if (steps > maxSteps || samples * epochs * numbers > maxWork)
    throw unusable(
      name,
      `its training would take ${steps} steps over ${numbers} weights and numbers of loss() and ` +
        "augment(), more than a recipe may",
    );
}

function unusable(name: string, why: string): StemmaError {
  return new StemmaError(
    "RECIPE_INVALID",
    `The recipe ${name} cannot be trained: ${why}. Correct it and run \`stemma recipe check\`.`,
    { recipe: name },
  );
}
