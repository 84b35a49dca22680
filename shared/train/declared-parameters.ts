/**
 * Parameters that people typed, with the types that a recipe declares for them: a number that was written as 1e-4 is a
 * number where one is wanted, and a text of digits stays a text where text is wanted.
 */
import { numberOfText } from "../cli/command-line.js";
import type { ParameterInfo, Parameters, ParameterValue } from "./recipes/recipe.js";
import { listRecipes } from "./recipes/registry.js";

/** Values of parameters whose types count, such as their defaults. */
export type ParameterExamples = Readonly<Record<string, unknown>>;

/** Parameters of a built-in recipe; those of others, and unknown ones, stay as they are. */
export function declaredParameters(recipe: string, passed: Parameters): Parameters {
  const known = listRecipes().find(({ name }) => name === recipe);
  return known === undefined ? passed : parametersLike(known.parameters, passed);
}

/** The parameters, each with the type that its example has; without an example as it is. */
export function parametersLike(examples: ParameterExamples, passed: Parameters): Parameters {
  return Object.fromEntries(
    Object.entries(passed).map(([name, value]) => [
      name,
      Object.hasOwn(examples, name) ? valueLike(examples[name], value) : value,
    ]),
  );
}

function valueLike(example: unknown, value: ParameterValue): ParameterValue {
  if (typeof example === "number" && typeof value === "string") return numberOfText(value) ?? value;
  // What is a number here was typed as JavaScript writes it, so that this gives the text that was typed.
  return typeof example === "string" && typeof value !== "string" ? String(value) : value;
}

/** Defaults by name. */
export function defaultsOf(infos: readonly ParameterInfo[]): Parameters {
  return Object.fromEntries(infos.map((info) => [info.name, info.default]));
}
