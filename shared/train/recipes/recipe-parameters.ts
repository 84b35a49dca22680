/**
 * Parameters of recipes: one table a recipe says name, check, default for base training, default for
 * fine-tuning, help. Defaults are filled in here and kept apart from what was passed in the provenance.
 */
import { z } from "zod";
import { StemmaError } from "../../errors.js";
import { scheduleNames, type Schedule } from "../learning-rate.js";
import { checkOptimizerName, type OptimizerSettings } from "../optimizers.js";
import type { ParameterInfo, Parameters, ParameterValue } from "./recipe.js";

export interface ParameterRow {
  readonly check: z.ZodType<ParameterValue>;
  readonly base: ParameterValue;
  readonly fineTune: ParameterValue;
  readonly help: string;
}
export type ParameterTable = Readonly<Record<string, ParameterRow>>;

export const whole = (low: number, high: number): z.ZodType<number> => z.number().int().min(low).max(high);
export const real = (low: number, high: number): z.ZodType<number> => z.number().min(low).max(high);
export const choice = <const T extends readonly [string, ...string[]]>(...names: T): z.ZodType<T[number]> =>
  z.enum(names);
const row = (
  check: z.ZodType<ParameterValue>,
  base: ParameterValue,
  fineTune: ParameterValue,
  help: string,
): ParameterRow => ({ check, base, fineTune, help });
export { row as parameter };

/** What every recipe takes; a recipe overrides defaults by rows of the same name. */
export const trainingParameters = {
  epochs: row(whole(1, 10_000), 50, 50, "passes over the training samples, at most"),
  patience: row(
    whole(0, 10_000),
    5,
    5,
    "stop when the validation loss has not improved for so many epochs and keep the best; 0 trains all epochs",
  ),
  batchSize: row(whole(1, 4096), 16, 16, "samples a step"),
  learningRate: row(real(0, 10), 0.003, 0.001, "learning rate of the first step"),
  schedule: row(
    choice(...scheduleNames),
    "constant",
    "constant",
    `how the learning rate changes: ${scheduleNames.join(", ")}`,
  ),
  scheduleFactor: row(
    real(0, 1000),
    1,
    1,
    "linear: last rate as a part of the first; step: factor; inverse-time: strength an epoch",
  ),
  scheduleEpochs: row(whole(1, 10_000), 10, 10, "step: epochs between two changes"),
  warmupIterations: row(whole(0, 1_000_000), 0, 0, "steps over which the rate rises at first"),
  optimizer: row(z.string().max(40), "adam", "adam", "sgd, momentum, rmsprop, adagrad or adam"),
  momentum: row(real(0, 0.9999), 0.9, 0.9, "momentum (momentum, rmsprop)"),
  clipNorm: row(real(0, 1e6), 1, 1, "scale gradients down to this norm; 0 leaves them"),
  checkpointEveryEpochs: row(
    whole(0, 10_000),
    0,
    0,
    "keep a checkpoint after every so many epochs; 0 for none",
  ),
  keepOptimizer: row(z.boolean(), false, false, "keep the optimizer's state with the result"),
  resumeOptimizer: row(
    z.boolean(),
    false,
    false,
    "go on from the optimizer's state that was kept with the base",
  ),
} as const satisfies ParameterTable;

export function infoOf(table: ParameterTable, fineTuning: boolean): readonly ParameterInfo[] {
  return Object.entries(table).map(([name, { base, fineTune, help }]) => ({
    name,
    default: fineTuning ? fineTune : base,
    help,
  }));
}

/** @throws RECIPE_PARAMETERS_INVALID naming recipe, parameter and what it takes */
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
      `The recipe ${recipe} knows no parameter "${unknown.slice(0, 60)}". It takes ${Object.keys(table).join(", ")}.`,
      { recipe, parameter: unknown },
    );
  return Object.fromEntries(
    Object.entries(table).map(([name, { check, base, fineTune, help }]) => {
      if (!Object.hasOwn(passed, name)) return [name, fineTuning ? fineTune : base];
      const checked = check.safeParse(passed[name]);
      if (!checked.success)
        throw new StemmaError(
          "RECIPE_PARAMETERS_INVALID",
          `The recipe ${recipe} does not take ${JSON.stringify(passed[name])} as ${name} (${help}): ${checked.error.issues[0]?.message ?? "it is invalid"}.`,
          { recipe, parameter: name },
        );
      return [name, checked.data];
    }),
  );
}

/** Reads resolved parameters by type; resolving has checked them. */
export const numberOf = (parameters: Parameters, name: string): number => Number(parameters[name]);
export const textOf = (parameters: Parameters, name: string): string => String(parameters[name]);

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

/** @throws OPTIMIZER_REFUSED */
export function optimizerOf(parameters: Parameters): OptimizerSettings {
  const name = checkOptimizerName(textOf(parameters, "optimizer"));
  return {
    name,
    ...(name === "momentum" || name === "rmsprop" ? { momentum: numberOf(parameters, "momentum") } : {}),
  };
}
