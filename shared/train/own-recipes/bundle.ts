/** The bundle of a fleet's own recipe: one ES module in UTF-8, named by the hash of its bytes. Pure. */
import { StemmaError } from "../../errors.js";
import { objectId } from "../../tensor/hash.js";
import type { Hash } from "../../tensor/tensor.js";

/** The only module that a bundle may import. */
export const recipeModule = "stemma:recipe";
export const maxBundleBytes = 1024 * 1024;

/** The id of a bundle in a store, as save records name it. */
export function bundleId(bytes: Uint8Array): Hash {
  return objectId("recipe", bytes);
}

/** @throws RECIPE_INVALID for more bytes than a bundle may have, or text that is not UTF-8 */
export function bundleText(bytes: Uint8Array): string {
  if (bytes.length > maxBundleBytes)
    throw invalidRecipe(`it has ${bytes.length} bytes, and may have ${maxBundleBytes}`);
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw invalidRecipe("it is not text in UTF-8", cause);
  }
}

export function invalidRecipe(reason: string, cause?: unknown): StemmaError<"RECIPE_INVALID"> {
  return new StemmaError(
    "RECIPE_INVALID",
    `This is not a recipe that Stemma can run: ${reason}. Correct it and run \`stemma recipe check\`.`,
    { cause },
  );
}
