/**
 * The commands by which a server brings the recipes of a fleet's own to a device, and their answers. `recipes` asks
 * which of them the device's lines name; `recipe` brings one, deflated and in parts, or takes one back. The signature
 * of the envelope covers them. Both sides check what the other states before anything is allocated for it. Pure.
 */
import { deflateRawSync, inflateRawSync } from "node:zlib";
import * as z from "zod";
import { StemmaError } from "../errors.js";
import { isHash } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { bundleId, maxBundleBytes } from "../train/own-recipes/bundle.js";

/** The prefix of the name of a fleet's own recipe in the settings of a device. */
const ownPrefix = "own:";
const recipeName = z.string().regex(/^[a-z][a-z0-9-]{1,59}$/);
const recipeHash = z.custom<Hash>(isHash, "is not a hash");

/** Recipes of a fleet's own that one device may name. */
export const maxNamedRecipes = 64;
/** Characters of base64 in one part: it fits into a message with all else that is in it. */
const partCharacters = 40 * 1024;
/** Parts of a bundle that deflates to nothing smaller. */
const maxParts = Math.ceil((4 * (maxBundleBytes + 64 * 1024)) / 3 / partCharacters);

/** The name of a fleet's own recipe in `own:NAME`; undefined for a built-in recipe. */
export function ownRecipeName(recipe: string): string | undefined {
  return recipe.startsWith(ownPrefix) ? recipe.slice(ownPrefix.length) : undefined;
}

/** True if a text after `own:` can be the name of a recipe. */
export function isRecipeName(name: string): boolean {
  return recipeName.safeParse(name).success;
}

const namedSchema = z.object({
  recipes: z.array(z.object({ name: recipeName, recipe: recipeHash.nullable() })).max(maxNamedRecipes),
  /** A description of how the device confines their code; it runs none where it cannot. */
  confinement: z.string().max(500),
});
/** The answer to `recipes`: each recipe that a line names, and the bundle that the device has of it. */
export type NamedRecipes = z.infer<typeof namedSchema>;

const partSchema = z.strictObject({
  name: recipeName,
  recipe: recipeHash,
  version: z.number().int().min(0).max(Number.MAX_SAFE_INTEGER),
  part: z.number().int().min(0).max(maxParts),
  parts: z.number().int().min(1).max(maxParts),
  data: z.string().max(partCharacters),
});
const takenBackSchema = z.strictObject({
  name: recipeName,
  recipe: z.null(),
  because: z.string().max(1000),
});
const commandSchema = z.union([partSchema, takenBackSchema]);
/** A part of a bundle. */
export type RecipePart = z.infer<typeof partSchema>;
/** `recipe` with a bundle brings it; with null, the device may not run what it has under this name. */
export type RecipeCommandBody = z.infer<typeof commandSchema>;

/** @throws ENVELOPE_MALFORMED */
export function readNamedRecipes(value: unknown): NamedRecipes {
  return read(namedSchema, value, "The answer to the command recipes");
}

/** @throws ENVELOPE_MALFORMED */
export function readRecipeCommand(value: unknown): RecipeCommandBody {
  return read(commandSchema, value, "The command recipe");
}

function read<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw malformed(`${what} is malformed: ${issue?.path.join(".") ?? ""} ${issue?.message ?? ""}.`);
}

function malformed(problem: string, cause?: unknown): StemmaError {
  return new StemmaError("ENVELOPE_MALFORMED", `${problem} Update the older side.`, { cause });
}

/** A bundle as the commands that bring it. */
export function recipeParts(
  bundle: Uint8Array,
  { name, version }: Pick<RecipePart, "name" | "version">,
): readonly RecipePart[] {
  const text = deflateRawSync(bundle).toString("base64");
  const parts = Math.ceil(text.length / partCharacters);
  const recipe = bundleId(bundle);
  return Array.from({ length: parts }, (_, part) => ({
    name,
    recipe,
    version,
    part,
    parts,
    data: text.slice(part * partCharacters, (part + 1) * partCharacters),
  }));
}

/** Puts the parts of one bundle at a time together; they come in their order. */
export class RecipeCollector {
  #recipe: Hash | undefined;
  #texts: string[] = [];

  /**
   * The bundle, where this part completes it.
   * @throws ENVELOPE_MALFORMED for a part out of order; RECIPE_INVALID where the whole has another hash
   */
  take({ recipe, part, parts, data }: RecipePart): Uint8Array | undefined {
    if (part === 0) {
      this.#recipe = recipe;
      this.#texts = [];
    }
    if (recipe !== this.#recipe || part !== this.#texts.length)
      throw malformed(`Part ${part} of the recipe ${recipe.slice(0, 12)} came out of order.`);
    this.#texts.push(data);
    if (part + 1 < parts) return undefined;
    const bundle = inflate(this.#texts.join(""));
    this.#recipe = undefined;
    this.#texts = [];
    const actual = bundleId(bundle);
    if (actual === recipe) return bundle;
    throw new StemmaError(
      "RECIPE_INVALID",
      `The bundle that came for the recipe ${recipe.slice(0, 12)} is ${actual.slice(0, 12)}: it is not kept. ` +
        "Look at the server that sent it.",
      { expected: recipe, actual },
    );
  }
}

function inflate(text: string): Uint8Array {
  try {
    return inflateRawSync(Buffer.from(text, "base64"), { maxOutputLength: maxBundleBytes });
  } catch (cause) {
    throw malformed("A recipe that came cannot be inflated, or is too large.", cause);
  }
}
