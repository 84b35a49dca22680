/** A recipe of the fleet's own as a device keeps it: one file for each name, whole or absent after any crash. */
import { join } from "node:path";
import * as z from "zod";
import { messageOf } from "../../shared/error-text.js";
import { StemmaError } from "../../shared/errors.js";
import { writeDurably } from "../../shared/files/durable-write.js";
import { makeFolderDurably } from "../../shared/files/make-folder.js";
import type { Files } from "../../shared/ports.js";
import { isHash } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { bundleId, maxBundleBytes } from "../../shared/train/own-recipes/bundle.js";

export interface HeldRecipe {
  readonly name: string;
  /** The recipe's own number. */
  readonly version: number;
  readonly recipe: Hash;
  readonly bundle: Uint8Array;
}

const fileSchema = z.strictObject({
  format: z.literal(1),
  name: z.string(),
  version: z.number().int().min(0),
  recipe: z.custom<Hash>(isHash),
  bundle: z.base64(),
});
/** The bundle in base64, and the other members. */
const maxFileBytes = 2 * maxBundleBytes;

const pathOf = (folder: string, name: string): string => join(folder, `${name}.json`);

/**
 * Reads a recipe; undefined where the name has none.
 * @throws RECIPE_INVALID for a file that is damaged or of other bytes than it states
 */
export async function readHeldRecipe(
  files: Files,
  folder: string,
  name: string,
): Promise<HeldRecipe | undefined> {
  const path = pathOf(folder, name);
  const stat = await files.stat(path);
  if (stat === undefined) return undefined;
  const damaged = (why: string): StemmaError =>
    new StemmaError(
      "RECIPE_INVALID",
      `${path} is damaged (${why}), so the recipe ${name} is not run; the server brings it again.`,
      { path },
    );
  if (stat.size > maxFileBytes) throw damaged(`it has ${stat.size} bytes`);
  let file: z.infer<typeof fileSchema>;
  try {
    file = fileSchema.parse(JSON.parse(new TextDecoder().decode(await files.read(path))));
  } catch (error) {
    throw damaged(messageOf(error).split("\n")[0] ?? "");
  }
  const bundle = new Uint8Array(Buffer.from(file.bundle, "base64"));
  if (file.name !== name || bundleId(bundle) !== file.recipe) throw damaged("its bytes were changed");
  return { name, version: file.version, recipe: file.recipe, bundle };
}

export async function writeHeldRecipe(files: Files, folder: string, held: HeldRecipe): Promise<void> {
  const { name, version, recipe, bundle } = held;
  await makeFolderDurably(files, folder);
  const file = { format: 1, name, version, recipe, bundle: Buffer.from(bundle).toString("base64") };
  await writeDurably(files, pathOf(folder, name), new TextEncoder().encode(`${JSON.stringify(file)}\n`));
}

/** Removes what is kept under other names than these. */
export async function removeOthers(files: Files, folder: string, names: ReadonlySet<string>): Promise<void> {
  for (const file of await files.list(folder))
    if (!names.has(file.replace(/\.json$/, ""))) await files.remove(join(folder, file));
}

export async function removeHeldRecipe(files: Files, folder: string, name: string): Promise<void> {
  await files.remove(pathOf(folder, name));
}
