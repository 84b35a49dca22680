/** Checks `evaluate`: its settings, each combination of them, and its rule. Pure. */
import { defined } from "../../../../shared/defined.js";
import { isStemmaError } from "../../../../shared/errors.js";
import type { Recipe } from "../../../../shared/train/recipes/recipe.js";
import { selectorPattern, type Pattern } from "../patterns.js";
import { failIn, queryTooLarge, type FailAt } from "../query-errors.js";
import type { Dimension, Evaluate, Literal, KeepRule as WrittenRule } from "../syntax.js";
import type { KeepRule } from "./keep-rule.js";
import {
  autoSettings,
  drawnValues,
  gridOf,
  parameterOf,
  poolSize,
  rateOfAll,
  rateOfFrozen,
  type Settings,
  type SettingValue,
} from "./settings.js";

export const maxCandidates = 1000;
/** Steps after which a rule may judge. */
const maxIteration = 1_000_000;

/** A setting in which candidates differ. */
export interface CompiledDimension {
  /** The name that is written after `config.`. */
  readonly name: string;
  readonly parameter: string;
  /** The layers that a rate is for; absent: a setting of the whole training. */
  readonly layers?: Pattern;
  readonly values: readonly SettingValue[];
  /** True if the seed decides the values. */
  readonly isDrawn: boolean;
  readonly at: number;
}

/** One combination of settings, as a training takes it. */
export interface Combination {
  /** The settings that vary, by their names. */
  readonly varied: Settings;
  /** The recipe; absent: a program of the user's own trains, here or on devices. */
  readonly recipe?: string;
  /** The name of registered data; absent: that program has data of its own. */
  readonly data?: string;
  readonly parameters: Settings;
  /** The layers that have rates of their own, each selection with its setting's name; 0: they stay as they are. */
  readonly layerRates: readonly { readonly name: string; readonly layers: Pattern; readonly rate: number }[];
}

export interface CompiledEvaluation {
  readonly dimensions: readonly CompiledDimension[];
  /** All combinations, in the order in which the settings are written, the last one changing first. */
  readonly combinations: readonly Combination[];
  readonly figure: string;
  readonly rule: KeepRule;
  /** The rule as it is written, on one line. */
  readonly ruleText: string;
}

export interface EvaluationInputs {
  /** The configuration in the file that the query names. */
  readonly config: Settings;
  /** Decides drawn values. */
  readonly seed: string;
  /** The built-in recipe of a name; undefined: it may be one of the fleet's own. */
  readonly recipeOf: (name: string) => Recipe | undefined;
  /** The facts that are known of the user's own program; undefined: none, or engines train. */
  readonly program?: OwnProgram | undefined;
}

/** The settings of a user's own program that an evaluation depends on. */
export interface OwnProgram {
  /** True if it gets samples. */
  readonly samples: boolean;
  /** The metric that it measures when a training has ended. */
  readonly metric?: Measured | undefined;
}

/** @throws QUERY_INVALID, QUERY_TOO_LARGE */
export function compileEvaluation(
  { variable, config, vary, rule, isHalving }: Evaluate,
  text: string,
  inputs: EvaluationInputs,
): CompiledEvaluation {
  const fail = failIn(text);
  // A program decides itself what it does with a rate.
  const isOwn =
    Object.keys(inputs.config).every((name) => parameterOf(name) !== "recipe") &&
    vary.every(({ path, layers }) => layers !== undefined || parameterOf(path) !== "recipe");
  const dimensions = vary.map((dimension) => compileDimension(dimension, { ...inputs, isOwn }, fail));
  for (const [index, { name, parameter, layers, at }] of dimensions.entries()) {
    const same = (other: CompiledDimension): boolean =>
      layers === undefined && other.layers === undefined
        ? other.parameter === parameter
        : other.name === name;
    if (dimensions.slice(0, index).some(same)) fail(at, "this setting is varied twice");
  }
  const count = dimensions.reduce((product, { values }) => product * values.length, 1);
  if (count > maxCandidates) throw tooManyCandidates(count);
  const combinations = combinationsOf(dimensions).map((values) =>
    combine(values, { config, dimensions, fail, isOwn, ...{ inputs } }),
  );
  if (rule.variable.name !== variable.name)
    fail(rule.variable.at, `the candidates are called ${variable.name}`);
  const metrics = combinations.map(({ recipe, parameters }) =>
    recipe === undefined ? inputs.program?.metric : metricOf(inputs.recipeOf(recipe), parameters),
  );
  return {
    dimensions,
    combinations,
    figure: String(rule.figure.value),
    rule: compileRule(rule, isHalving, { metrics, isOwn, fail }),
    ruleText: `${text.slice(rule.at, rule.end).replace(/\s+/g, " ")}${isHalving ? " halving" : ""}`,
  };
}

export function tooManyCandidates(count: number): Error {
  return queryTooLarge(
    `has ${count} candidates, more than ${maxCandidates}`,
    "Vary fewer settings, give them fewer values, or select fewer models.",
  );
}

function compileDimension(
  { path, layers, member, values, at }: Dimension,
  { seed, isOwn }: Pick<EvaluationInputs, "seed"> & { readonly isOwn: boolean },
  fail: FailAt,
): CompiledDimension {
  const isOfLayers = layers !== undefined;
  const name = isOfLayers ? `${path}[${JSON.stringify(layers.value)}].${member ?? ""}` : path;
  const parameter = parameterOf(member ?? path);
  if (isOfLayers && (path !== "net" || parameter !== "learningRate"))
    fail(at, 'layers have a rate of their own alone: config.net["conv*"].lr');
  if (parameter === "frozenLayers") fail(at, 'name layers by config.net["conv*"].lr in [0]');
  const of = { name, parameter, at, ...(isOfLayers && { layers: patternOf(layers, fail) }) };
  if (!("random" in values) && Array.isArray(values)) {
    const written = values as readonly Literal[];
    for (const [index, { value, at: valueAt }] of written.entries()) {
      if (isOfLayers) checkRate(value, { at: valueAt, isOwn, fail });
      if (written.slice(0, index).some((other) => other.value === value))
        fail(valueAt, "this value is there twice");
    }
    return { ...of, values: written.map(({ value }) => value), isDrawn: false };
  }
  const { random, at: autoAt } = values as { readonly random?: number; readonly at: number };
  const grid = isOfLayers ? [rateOfAll, rateOfFrozen] : gridOf(parameter);
  if (grid === undefined)
    return fail(
      autoAt,
      `auto has values for ${autoSettings.join(", ")} and rates of layers alone; write in […]`,
    );
  if (random === undefined) return { ...of, values: grid, isDrawn: false };
  const most = isOfLayers ? 0 : poolSize(parameter);
  if (random < 1 || random > most)
    fail(
      autoAt,
      most === 0 ? "these values are not drawn; write auto" : `1 to ${most} values can be drawn here`,
    );
  return { ...of, values: drawnValues({ name, parameter, count: random }, seed), isDrawn: true };
}

function patternOf({ value, at }: Literal, fail: FailAt): Pattern {
  return selectorPattern(String(value), (reason) => fail(at + 1, reason));
}

/** Engines train all layers at one rate, or leave them as they are; a user's own program may do more. */
function checkRate(
  value: SettingValue,
  { at, isOwn, fail }: { readonly at: number; readonly isOwn: boolean; readonly fail: FailAt },
): void {
  if (value === rateOfFrozen || value === rateOfAll) return;
  if (isOwn && typeof value === "number" && value > 0) return;
  if (isOwn) fail(at, `a layer's rate is a number from 0, or "${rateOfAll}", the rate of all layers`);
  fail(
    at,
    `the engine trains all layers at one rate; a layer's own is "${rateOfAll}", that rate, or ${rateOfFrozen}, ` +
      "which leaves it as it is",
  );
}

function combinationsOf(dimensions: readonly CompiledDimension[]): readonly (readonly SettingValue[])[] {
  return dimensions.reduce<readonly (readonly SettingValue[])[]>(
    (before, { values }) => before.flatMap((some) => values.map((value) => [...some, value])),
    [[]],
  );
}

interface Combining {
  readonly config: Literal;
  readonly dimensions: readonly CompiledDimension[];
  readonly inputs: EvaluationInputs;
  /** True if a program of the user's own trains. */
  readonly isOwn: boolean;
  readonly fail: FailAt;
}

function combine(
  values: readonly SettingValue[],
  { config, dimensions, inputs, isOwn, fail }: Combining,
): Combination {
  const settings = new Map<string, SettingValue>();
  for (const [name, value] of Object.entries(inputs.config)) {
    const parameter = parameterOf(name);
    if (settings.has(parameter)) fail(config.at, `the configuration has ${parameter} twice, by two names`);
    settings.set(parameter, value);
  }
  for (const [at, { parameter, layers }] of dimensions.entries())
    if (layers === undefined) settings.set(parameter, values[at] as SettingValue);
  const needed = (parameter: string, names: string): string => {
    const value = settings.get(parameter);
    if (typeof value !== "string" || value === "")
      return fail(config.at, `the configuration has no ${names}`);
    return value;
  };
  const recipe = isOwn ? undefined : needed("recipe", "recipe");
  const hasNoData = inputs.program?.samples === false;
  if (hasNoData && settings.has("data"))
    fail(config.at, "the settings of the program give it no samples; leave input_data away");
  const data = hasNoData ? undefined : needed("data", "input_data, the name of registered data");
  const parameters = Object.fromEntries(
    [...settings].filter(([name]) => name !== "recipe" && name !== "data"),
  );
  const layerRates = dimensions.flatMap(({ name, layers }, at) => {
    const rate = values[at];
    return layers !== undefined && typeof rate === "number" ? [{ name, layers, rate }] : [];
  });
  const builtIn = recipe === undefined ? undefined : inputs.recipeOf(recipe);
  if (builtIn !== undefined) checkParameters(builtIn, { parameters, dimensions, config, fail });
  const first = dimensions.find(({ name }) => layerRates.some((each) => each.name === name));
  if (first !== undefined && builtIn?.parameterInfo(true).every(({ name }) => name !== "frozenLayers"))
    fail(first.at, `the recipe ${recipe ?? ""} trains all layers; image-classify can leave some as they are`);
  const varied = Object.fromEntries(dimensions.map(({ name }, at) => [name, values[at] as SettingValue]));
  return { varied, parameters, layerRates, ...defined({ recipe, data }) };
}

/** Has the recipe look at what it gets, so that no training begins that it would refuse. */
function checkParameters(
  recipe: Recipe,
  {
    parameters,
    dimensions,
    config,
    fail,
  }: Pick<Combining, "dimensions" | "config" | "fail"> & { readonly parameters: Settings },
): void {
  try {
    recipe.resolve(parameters, true);
  } catch (error) {
    if (!isStemmaError(error, "RECIPE_PARAMETERS_INVALID")) throw error;
    const dimension = dimensions.find(({ parameter }) => parameter === error.details["parameter"]);
    fail(
      dimension?.at ?? config.at,
      error.message.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, "?").replace(/\.$/, ""),
    );
  }
}

const otherMetric = (name: string, known: string | undefined): string =>
  known === undefined
    ? `a program tells loss and validation; for ${name} name it, and its direction, in the program's settings: ` +
      `"metric": {"name": ${JSON.stringify(name)}, "lowerIsBetter": false}`
    : `the program's settings name the metric ${known}`;

interface Measured {
  readonly name: string;
  readonly lowerIsBetter: boolean;
}

function metricOf(recipe: Recipe | undefined, parameters: Settings): Measured | undefined {
  return recipe && (recipe.metricOf?.(recipe.resolve(parameters, true)) ?? recipe.metric);
}

/** Figures of each step, by the names that conditions use. */
const figuresOfSteps: ReadonlySet<string> = new Set(["loss", "validation", "validation loss"]);

function compileRule(
  rule: WrittenRule,
  isHalving: boolean,
  {
    metrics,
    isOwn,
    fail,
  }: {
    readonly metrics: readonly (Measured | undefined)[];
    readonly isOwn: boolean;
    readonly fail: FailAt;
  },
): KeepRule {
  const { figure, iteration } = rule;
  const name = String(figure.value);
  const isOfSteps = figuresOfSteps.has(name);
  const metric = metrics.every((each) => each?.name === name) ? metrics[0] : undefined;
  if (!isOfSteps && metric === undefined) {
    const known = [...new Set(metrics.flatMap((each) => each?.name ?? []))].filter(
      (each) => !figuresOfSteps.has(each),
    );
    if (isOwn) fail(figure.at, otherMetric(name, known[0]));
    fail(
      figure.at,
      `a training measures loss and validation${known.length === 1 ? `, and ${known[0] ?? ""} when it has ended` : ""}`,
    );
  }
  const lowerIsBetter = isOfSteps || metric?.lowerIsBetter === true;
  if (!isOfSteps && iteration !== undefined)
    fail(figure.at, `${name} is measured when a training has ended; leave the number of steps away`);
  if (iteration !== undefined && (iteration < 1 || iteration > maxIteration))
    fail(rule.at, `candidates are judged after 1 to ${maxIteration} steps`);
  if (isHalving && (rule.kind !== "top" || iteration === undefined))
    fail(rule.at, 'halving needs a number of steps, as in top(5, m["loss"], 100) halving');
  if (rule.kind === "top") {
    if (rule.count < 1) fail(rule.at, "at least one candidate is kept");
    return { kind: "top", count: rule.count, lowerIsBetter, iteration, isHalving };
  }
  if (lowerIsBetter)
    fail(figure.at, `the lower ${name}, the better; above is for figures that are to be high`);
  return { kind: "above", bound: Number(rule.bound.value), lowerIsBetter, iteration, isHalving };
}
