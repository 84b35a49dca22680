/** The folder of the engine bundle: where it is, and the id of what is in it. */
import { readFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { StemmaError } from "../errors.js";
import type { Hash } from "../tensor/tensor.js";
import { engineFiles, engineId } from "./engine-id.js";

/** The engine of this build: dist/engine. */
export function builtInEngineFolder(): string {
  return resolve(dirname(fileURLToPath(import.meta.url)), "../../engine");
}

/**
 * The id of the engine in a folder.
 * @throws BACKEND_UNAVAILABLE when one of its files is missing
 */
export async function engineIdOfFolder(folder: string): Promise<Hash> {
  try {
    return engineId(
      await Promise.all(
        engineFiles.map(async (name) => ({ name, bytes: await readFile(join(folder, name)) })),
      ),
    );
  } catch (cause) {
    throw new StemmaError(
      "BACKEND_UNAVAILABLE",
      `The training engine in ${folder} is missing or incomplete. Build it with \`npm run build\`.`,
      { cause, folder },
    );
  }
}

/**
 * Checks the engine in a folder.
 * @throws ENGINE_HASH_MISMATCH when it is not the expected one, BACKEND_UNAVAILABLE when it is incomplete
 */
export async function checkEngine(expected: Hash, folder = builtInEngineFolder()): Promise<void> {
  const actual = await engineIdOfFolder(folder);
  if (actual !== expected)
    throw new StemmaError(
      "ENGINE_HASH_MISMATCH",
      `The engine in ${folder} is ${actual.slice(0, 12)}, but this training needs ${expected.slice(0, 12)}. Fetch that engine from the store.`,
      { expected, actual },
    );
}
