/**
 * Checks the answers of a recipe's own code by schemas. Everything that comes out of it is hostile until it
 * has passed here.
 */
import * as z from "zod";
import { expressionSchema } from "../expressions/operations.js";
import { lossNames } from "../fit-plan.js";
import {
  choice,
  frozenLayersParameter,
  parameter,
  real,
  trainingParameters,
  whole,
  type ParameterTable,
} from "../recipes/recipe-parameters.js";
import { invalidRecipe } from "./bundle.js";

const shortText = z.string().min(1).max(200);
const scalar = z.union([z.string().max(200), z.number(), z.boolean()]);
const defaults = { default: scalar, fineTune: scalar.optional(), help: z.string().max(400).default("") };
const ownParameter = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("integer"), min: z.number().int(), max: z.number().int(), ...defaults }),
  z.strictObject({ type: z.literal("number"), min: z.number(), max: z.number(), ...defaults }),
  z.strictObject({ type: z.literal("boolean"), ...defaults }),
  z.strictObject({ type: z.literal("choice"), choices: z.array(shortText).min(1).max(64), ...defaults }),
]);
const parameterName = z.string().regex(/^[a-z][A-Za-z0-9]{0,39}$/);

const description = z.strictObject({
  name: z.string().regex(/^[a-z][a-z0-9-]{1,59}$/),
  version: z.number().int().min(1).max(1_000_000),
  title: shortText,
  task: z.enum(["regression", "classification", "general", "any"]),
  metric: z.strictObject({ name: shortText, unit: z.string().max(20), lowerIsBetter: z.boolean() }),
  /** `own`: the recipe has a function that gives it. */
  loss: z.enum([...lossNames, "own"]),
  /** True where the recipe has a function that changes training samples. */
  augments: z.boolean().default(false),
  parameters: z.record(parameterName, z.union([ownParameter, z.strictObject(defaults)])).default({}),
});
export type RecipeDescription = z.infer<typeof description>;

const layer = z.number().int().min(0).max(4095);
const size = z.number().int().min(1).max(1_000_000);
const activation = z.enum(["linear", "relu", "tanh", "sigmoid", "softmax"]);
const maxValues = 2 ** 20;
const values = z.union([z.number(), z.array(z.number()).max(maxValues)]);
const one = { from: layer };
const operation = z.discriminatedUnion("op", [
  z.strictObject({ op: z.literal("dense"), ...one, units: size, activation: activation.default("linear") }),
  z.strictObject({ op: z.literal("linear"), ...one, units: size, start: values.default(0) }),
  z.strictObject({
    op: z.literal("convolution"),
    ...one,
    filters: size,
    kernel: z.number().int().min(1).max(31),
    strides: z.number().int().min(1).max(16).default(1),
    activation: activation.default("linear"),
    bias: z.boolean().default(true),
    padding: z.enum(["same", "valid"]).default("same"),
  }),
  z.strictObject({ op: z.literal("recurrent"), ...one, kind: z.enum(["LSTM", "GRU"]), units: size }),
  z.strictObject({ op: z.literal("dropout"), ...one, rate: z.number().min(0).max(0.99) }),
  z.strictObject({ op: z.literal("reshape"), ...one, shape: z.array(size).min(1).max(6) }),
  z.strictObject({
    op: z.enum(["batchNorm", "relu6", "maxPool", "averagePool", "globalAverage", "flatten", "sigmoid"]),
    ...one,
  }),
  z.strictObject({ op: z.enum(["sum", "product"]), from: z.tuple([layer, layer]) }),
  z.strictObject({ op: z.literal("concatenate"), from: z.array(layer).min(1).max(256) }),
]);
export type NetworkOperation = z.infer<typeof operation>;

const network = z.strictObject({
  operations: z.array(operation).min(1).max(1000),
  outputs: z.array(layer).min(1).max(64),
});
export type NetworkAnswer = z.infer<typeof network>;

const plan = z.strictObject({
  loss: z
    .union([
      z.enum(lossNames),
      z.array(z.strictObject({ loss: z.enum(lossNames), weight: z.number().min(0) })).max(64),
    ])
    .optional(),
  /** Training parameters that the recipe sets itself, such as a rate that depends on the data. */
  set: z.record(parameterName, scalar).default({}),
  frozenLayers: z.array(layer).max(4096).default([]),
  classWeights: z.array(z.number().min(0).max(1e6)).max(100_000).optional(),
});

export type RecipePlan = z.infer<typeof plan>;

const schemas = {
  describe: description,
  model: network,
  plan,
  loss: expressionSchema,
  augment: expressionSchema,
};
export type RecipeCall = keyof typeof schemas;

/** @throws RECIPE_INVALID naming the field */
export function checkAnswer<Call extends RecipeCall>(
  call: Call,
  value: unknown,
): z.infer<(typeof schemas)[Call]> {
  const checked = schemas[call].safeParse(value);
  if (checked.success) return checked.data as z.infer<(typeof schemas)[Call]>;
  const [issue] = checked.error.issues;
  const where = [callTexts[call], ...placeOf(value, issue?.path ?? [])].join(".").slice(0, 200);
  throw invalidRecipe(`${where}: ${issue?.message ?? "is not valid"}`);
}

/** Returns the path of what is wrong, with the operation's name where it is in one. */
function placeOf(value: unknown, [list, index, ...inner]: readonly PropertyKey[]): readonly string[] {
  if (list !== "operations" || typeof index !== "number") return [list, index, ...inner].flatMap(textOf);
  const { op } = ((value as { readonly operations: readonly unknown[] }).operations[index] ?? {}) as {
    readonly op?: unknown;
  };
  return [
    `operation ${index + 1} (${typeof op === "string" ? op.slice(0, 40) : "none"})`,
    ...inner.flatMap(textOf),
  ];
}

const textOf = (key: PropertyKey | undefined): readonly string[] => (key === undefined ? [] : [String(key)]);

const callTexts = {
  describe: "recipe",
  model: "recipe.model()",
  plan: "recipe.plan()",
  loss: "recipe.loss()",
  augment: "recipe.augment()",
} as const;

/**
 * The parameters of a recipe: all of the training loop, with the recipe's own defaults, and its own.
 * @throws RECIPE_INVALID where a default is not allowed by its own parameter
 */
export function parameterTable({ parameters }: RecipeDescription): ParameterTable {
  const table: Record<string, ParameterTable[string]> = {
    ...trainingParameters,
    frozenLayers: frozenLayersParameter,
  };
  for (const [name, own] of Object.entries(parameters)) {
    const { default: base, fineTune = base, help } = own;
    const known = Object.hasOwn(table, name) ? table[name] : undefined;
    if ("type" in own === (known !== undefined))
      throw invalidRecipe(
        known === undefined
          ? `the parameter ${name} has no type, and the training loop has none of this name`
          : `the parameter ${name} belongs to the training loop, so it can have another default but no type`,
      );
    const check = "type" in own ? checkOf(own) : known?.check;
    if (check === undefined || !check.safeParse(base).success || !check.safeParse(fineTune).success)
      throw invalidRecipe(`the default of the parameter ${name} is not one of its values`);
    table[name] = parameter(check, base, fineTune, help === "" ? (known?.help ?? "") : help);
  }
  return table;
}

function checkOf(own: z.infer<typeof ownParameter>): ParameterTable[string]["check"] {
  switch (own.type) {
    case "integer":
      return whole(own.min, own.max);
    case "number":
      return real(own.min, own.max);
    case "boolean":
      return z.boolean();
    case "choice":
      return choice(...(own.choices as [string, ...string[]]));
  }
}
