/** The folder of the engine bundle: where it is, and the id of what is in it. */
import { readFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { StemmaError } from "../errors.js";
import type { Hash } from "../tensor/tensor.js";
import { engineFiles, engineId } from "./engine-id.js";
import { jobFormat } from "./training.js";

/** The engine of this build: dist/engine. */
export function builtInEngineFolder(): string {
  return resolve(dirname(fileURLToPath(import.meta.url)), "../../engine");
}

/** The native runner of this build, dist/native: bundle, sources of the binding, headers of Node-API. */
export function builtInRunnerFolder(): string {
  return resolve(dirname(fileURLToPath(import.meta.url)), "../../native");
}

/** The probe's bundle of this build, dist/probe. */
export function builtInProbeFolder(): string {
  return resolve(dirname(fileURLToPath(import.meta.url)), "../../probe");
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
 * Checks that the engine in a folder reads the form in which this release writes jobs. Engines of other releases
 * name theirs in engine.json, so that they can be given their own.
 * @throws BACKEND_UNAVAILABLE
 */
export async function requireJobForm(folder = builtInEngineFolder()): Promise<void> {
  const incomplete = (cause: unknown): StemmaError =>
    new StemmaError(
      "BACKEND_UNAVAILABLE",
      `The training engine in ${folder} is missing or incomplete. Build it with \`npm run build\`.`,
      { cause, folder },
    );
  let form: unknown;
  try {
    ({ job: form } = JSON.parse(await readFile(join(folder, "engine.json"), "utf8")) as { job?: unknown });
  } catch (cause) {
    throw incomplete(cause);
  }
  if (form !== jobFormat)
    throw new StemmaError(
      "BACKEND_UNAVAILABLE",
      `The training engine in ${folder} reads jobs of the form ${String(form)}, and this release of ` +
        `Stemma writes the form ${jobFormat}. Use the engine of this release.`,
      { folder, form },
    );
}

/**
 * Reads what this build's engine computes on a machine that computes exactly (known-answer.ts). @throws FILE_MISSING
 */
export async function expectedKnownAnswer(): Promise<unknown> {
  const manifest = await readFile(join(builtInEngineFolder(), "engine.json"), "utf8");
  return (JSON.parse(manifest) as { knownAnswer?: unknown }).knownAnswer;
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
