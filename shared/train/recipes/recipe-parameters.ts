/**
 * Defines and checks the parameters of recipes. Each recipe has a table with the check, the defaults for base
 * training and for fine-tuning, and the help text of each parameter. This file checks the passed parameters
 * and adds the defaults.
 */
import * as z from "zod";
import { StemmaError } from "../../errors.js";
import { scheduleNames, type Schedule } from "../learning-rate.js";
import { checkOptimizerName, type OptimizerSettings } from "../optimizers.js";
import type { ParameterInfo, Parameters, ParameterValue } from "./recipe.js";

interface ParameterRow {
  readonly check: z.ZodType<ParameterValue>;
  /** Default for base training. */
  readonly base: ParameterValue;
  /** Default for fine-tuning. */
  readonly fineTune: ParameterValue;
  readonly help: string;
}
export type ParameterTable = Readonly<Record<string, ParameterRow>>;

/** A check for integers. */
export const whole = (low: number, high: number): z.ZodType<number> => z.number().int().min(low).max(high);
/** A check for finite numbers. */
export const real = (low: number, high: number): z.ZodType<number> => z.number().min(low).max(high);
/** A check for one of several names. */
export const choice = <const T extends readonly [string, ...string[]]>(...names: T): z.ZodType<T[number]> =>
  z.enum(names);
/** One row of a recipe's parameter table. */
export const parameter = (
  check: z.ZodType<ParameterValue>,
  base: ParameterValue,
  fineTune: ParameterValue,
  help: string,
): ParameterRow => ({ check, base, fineTune, help });

/** The parameters of every recipe; a recipe changes defaults by rows of the same name. */
export const trainingParameters = {
  epochs: parameter(whole(1, 10_000), 50, 50, "maximum number of passes over the training samples"),
  patience: parameter(
    whole(0, 10_000),
    5,
    5,
    "stop when the validation loss has not improved for this many epochs and keep the best one; 0 trains all epochs",
  ),
  batchSize: parameter(whole(1, 4096), 16, 16, "samples per step"),
  learningRate: parameter(real(0, 10), 0.003, 0.001, "learning rate of the first step"),
  schedule: parameter(
    choice(...scheduleNames),
    "constant",
    "constant",
    `how the learning rate changes: ${scheduleNames.join(", ")}`,
  ),
  scheduleFactor: parameter(
    real(0, 1000),
    1,
    1,
    "linear: last rate as a fraction of the first; step: factor of each change; inverse-time: decay per epoch",
  ),
  scheduleEpochs: parameter(whole(1, 10_000), 10, 10, "step: epochs between two changes"),
  warmupIterations: parameter(
    whole(0, 1_000_000),
    0,
    0,
    "number of steps over which the rate rises at first",
  ),
  optimizer: parameter(z.string().max(40), "adam", "adam", "sgd, momentum, rmsprop, adagrad or adam"),
  momentum: parameter(
    real(0, 0.9999),
    0.9,
    0.9,
    "fraction of the last step that is kept (momentum, rmsprop)",
  ),
  nesterov: parameter(z.boolean(), false, false, "look ahead by the momentum (momentum)"),
  decay: parameter(
    real(0, 0.9999),
    0.9,
    0.9,
    "fraction of the mean of squared gradients that is kept (rmsprop)",
  ),
  centered: parameter(z.boolean(), false, false, "subtract the square of the gradients' mean (rmsprop)"),
  beta1: parameter(real(0, 0.9999), 0.9, 0.9, "fraction of the mean gradient that is kept (adam)"),
  beta2: parameter(
    real(0, 0.999999),
    0.999,
    0.999,
    "fraction of the mean squared gradient that is kept (adam)",
  ),
  epsilon: parameter(
    real(0, 1),
    0,
    0,
    "keeps a divisor above 0 (rmsprop, adagrad, adam); 0 takes the optimizer's own: 1e-8 for adam, else 1e-7",
  ),
  initialAccumulator: parameter(
    real(0, 1e6),
    0.1,
    0.1,
    "what the sums of squared gradients begin with (adagrad)",
  ),
  clipNorm: parameter(real(0, 1e6), 1, 1, "scale gradients down to this norm; 0 does not scale them"),
  checkpointEveryEpochs: parameter(
    whole(0, 10_000),
    0,
    0,
    "keep a checkpoint after every this many epochs; 0 keeps none",
  ),
  keepOptimizer: parameter(z.boolean(), false, false, "keep the optimizer's state with the result"),
  resumeOptimizer: parameter(
    z.boolean(),
    false,
    false,
    "continue from the optimizer's state that was kept with the base",
  ),
} as const satisfies ParameterTable;

/** The parameters with their defaults and help texts. */
export function infoOf(table: ParameterTable, fineTuning: boolean): readonly ParameterInfo[] {
  return Object.entries(table).map(([name, { base, fineTune, help }]) => ({
    name,
    default: fineTuning ? fineTune : base,
    help,
  }));
}

/**
 * Checks the passed parameters and adds the defaults.
 * @throws RECIPE_PARAMETERS_INVALID naming recipe, parameter and accepted values
 */
export function resolveParameters(
  recipe: string,
  table: ParameterTable,
  passed: Parameters,
  fineTuning: boolean,
): Parameters {
  const unknown = Object.keys(passed).find((name) => !Object.hasOwn(table, name));
  if (unknown !== undefined)
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `The recipe ${recipe} has no parameter "${unknown.slice(0, 60)}". Use ${Object.keys(table).join(", ")}.`,
      { recipe, parameter: unknown },
    );
  return Object.fromEntries(
    Object.entries(table).map(([name, { check, base, fineTune, help }]) => {
      if (!Object.hasOwn(passed, name)) return [name, fineTuning ? fineTune : base];
      const checked = check.safeParse(passed[name]);
      if (!checked.success)
        throw new StemmaError(
          "RECIPE_PARAMETERS_INVALID",
          `The recipe ${recipe} does not accept ${JSON.stringify(passed[name])} as ${name} (${help}): ${checked.error.issues[0]?.message ?? "it is invalid"}. Correct the parameter.`,
          { recipe, parameter: name },
        );
      return [name, checked.data];
    }),
  );
}

/** A resolved parameter as a number; resolveParameters has checked its type. */
export const numberOf = (parameters: Parameters, name: string): number => Number(parameters[name]);
/** A resolved parameter as text. */
export const textOf = (parameters: Parameters, name: string): string => String(parameters[name]);

/** The learning-rate schedule of resolved parameters. */
export function scheduleOf(parameters: Parameters): Schedule {
  const name = scheduleNames.find((each) => each === parameters["schedule"]) ?? "constant";
  return {
    name,
    rate: numberOf(parameters, "learningRate"),
    factor: numberOf(parameters, "scheduleFactor"),
    everyEpochs: numberOf(parameters, "scheduleEpochs"),
    warmupIterations: numberOf(parameters, "warmupIterations"),
  };
}

/** The parameters that each optimiser takes, besides its learning rate. */
const optimizerParameters: Readonly<Record<OptimizerSettings["name"], readonly string[]>> = {
  sgd: [],
  momentum: ["momentum", "nesterov"],
  rmsprop: ["momentum", "decay", "centered", "epsilon"],
  adagrad: ["epsilon", "initialAccumulator"],
  adam: ["beta1", "beta2", "epsilon"],
};

/**
 * The optimiser of resolved parameters.
 * @throws OPTIMIZER_REFUSED
 */
export function optimizerOf(parameters: Parameters): OptimizerSettings {
  const name = checkOptimizerName(textOf(parameters, "optimizer"));
  const taken = optimizerParameters[name].filter(
    (each) => Object.hasOwn(parameters, each) && !(each === "epsilon" && parameters[each] === 0),
  );
  return { name, ...Object.fromEntries(taken.map((each) => [each, parameters[each]])) };
}

/** A parameter that names layers by their index in the architecture; for recipes that offer it. */
export const frozenLayersParameter = parameter(
  z.string().regex(/^(\d{1,5}(,\d{1,5})*)?$/, "write indices of layers as 1,2,5"),
  "",
  "",
  "layers that are not changed, by their index in the architecture, as 1,2,5",
);

/** The layers that the parameter `frozenLayers` names. @throws RECIPE_PARAMETERS_INVALID */
export function namedLayersOf(
  recipe: string,
  { frozenLayers = "" }: Parameters,
  architecture: { readonly layers: readonly unknown[] },
): ReadonlySet<number> {
  const named = frozenLayers === "" ? [] : String(frozenLayers).split(",").map(Number);
  const beyond = named.find((layer) => layer >= architecture.layers.length);
  if (beyond !== undefined)
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `The recipe ${recipe} cannot freeze layer ${beyond}: the model has the layers 0 to ` +
        `${architecture.layers.length - 1}. Correct the parameter frozenLayers.`,
      { recipe, parameter: "frozenLayers" },
    );
  return new Set(named);
}
