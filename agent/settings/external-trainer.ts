/**
 * The settings of an external trainer: a program of the device's own that trains a line in place of the engine.
 * Which program runs is written in agent.json alone; a request may only choose parameters within the limits that
 * are set there, and nothing of a request reaches the command line. (docs/own-models.md)
 */
import * as z from "zod";
import { commandHash, recordSettings, trainerSettings } from "../../shared/programs/command-settings.js";
import { parameterRefused } from "./settings-errors.js";

const scalar = z.union([z.string().max(4096), z.number(), z.boolean()]);

export const externalTrainerSchema = z.strictObject({
  ...trainerSettings,
  /** Demands outputs of its model, which the engine has to give too; absent: they are compared where it left some. */
  check: z.strictObject({ tolerance: z.number().min(0).optional() }).optional(),
  /**
   * The program's own files, which go to the server with each model, so that it may run the program again; absent:
   * nothing of it does.
   */
  record: z
    .strictObject({
      ...recordSettings,
      /** True to keep what it draws: a replay is given the same. A secret, which goes to the server with each model. */
      randomness: z.boolean().default(false),
    })
    .optional(),
  /** Parameters that a request may set, each with its bounds or its allowed values. */
  allow: z
    .record(
      z.string().regex(/^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/),
      z.union([
        z.strictObject({ min: z.number(), max: z.number(), whole: z.boolean().default(false) }),
        z.array(scalar).min(1).max(256),
      ]),
    )
    .default({}),
});

export type ExternalTrainer = z.infer<typeof externalTrainerSchema>;
export type TrainerParameters = Readonly<Record<string, string | number | boolean>>;

const prefix = "exec:";

/** Returns the text in the place of a recipe's name: a training goes on only by the command that began it. */
export function externalRecipe(trainer: Pick<ExternalTrainer, "exec">): string {
  return `${prefix}${commandHash(trainer).slice(0, 16)}`;
}

/** True if a training was begun by an external trainer. */
export function isExternalRecipe(recipe: string): boolean {
  return recipe.startsWith(prefix);
}

/**
 * Checks the parameters of a request against what agent.json allows.
 * @param requested as it came, from a person or over the wire
 * @throws RECIPE_PARAMETERS_INVALID naming the parameter
 */
export function requestedParameters(
  line: string,
  { allow }: Pick<ExternalTrainer, "allow">,
  requested: unknown,
): TrainerParameters {
  if (requested === undefined || requested === null) return {};
  if (typeof requested !== "object" || Array.isArray(requested))
    throw parameterRefused(line, "The parameters are not an object of names and values.");
  const names = Object.keys(allow);
  return Object.fromEntries(
    Object.entries(requested).map(([name, value]: [string, unknown]) => {
      const limits = Object.hasOwn(allow, name) ? allow[name] : undefined;
      if (limits === undefined)
        throw parameterRefused(
          line,
          `A request may not set the parameter "${name.slice(0, 64)}"; it may ` +
            `set ${names.length === 0 ? "none" : names.join(", ")} (lines.${line}.trainer.allow in ` +
            "agent.json).",
        );
      return [name, valueWithin(line, { name, limits, value })];
    }),
  );
}

interface RequestedValue {
  readonly name: string;
  readonly limits: ExternalTrainer["allow"][string];
  readonly value: unknown;
}

function valueWithin(line: string, { name, limits, value }: RequestedValue): string | number | boolean {
  if (Array.isArray(limits)) {
    const found = limits.find((allowed) => allowed === value);
    if (found !== undefined) return found;
    throw parameterRefused(
      line,
      `The parameter "${name}" may be ${limits.map((one) => JSON.stringify(one)).join(", ")}.`,
    );
  }
  const { min, max, whole } = limits;
  if (typeof value === "number" && value >= min && value <= max && (!whole || Number.isInteger(value)))
    return value;
  throw parameterRefused(
    line,
    `The parameter "${name}" may be a ${whole ? "whole " : ""}number from ${min} to ${max}.`,
  );
}
