/** Reads how far a training that was cut short had come, without reading all of its saved state. */
import { join } from "node:path";
import { defined } from "../defined.js";
import type { Files } from "../ports.js";
import { passFileName, passMagic, stateFileName, stateMagic, type PassId } from "./training-state.js";

export interface SavedProgress {
  /** Steps that are done in the saved state of the training; 0 without one. */
  readonly iteration: number;
  /** The newest pass over samples: the steps before it, and the samples that passes after that step have done. */
  readonly pass?: { readonly iteration: number; readonly samples: number } | undefined;
}

/** True if a training came further than it was, in its steps or in a pass. */
export function isFurther(now: SavedProgress, before: SavedProgress): boolean {
  if (now.iteration > before.iteration) return true;
  if (now.pass === undefined) return false;
  if (before.pass === undefined) return true;
  const { iteration, samples } = now.pass;
  return (
    iteration > before.pass.iteration ||
    (iteration === before.pass.iteration && samples > before.pass.samples)
  );
}

/**
 * Reads the saved progress of a training. Not verified: only the engine checks the hashes, so use it for
 * messages and pauses.
 * @param workFolder the folder that the training was given (ChildOptions)
 */
export async function savedProgress(files: Files, workFolder: string): Promise<SavedProgress> {
  const folder = join(workFolder, "state");
  const iteration = (await prefixOf(files, join(folder, stateFileName), stateMagic)) ?? 0;
  const pass = await savedPass(files, join(folder, passFileName)).catch(() => undefined);
  return { iteration, ...defined({ pass }) };
}

/** The number after the magic bytes of a file; undefined where it does not begin with them. */
async function prefixOf(files: Files, path: string, magic: string): Promise<number | undefined> {
  if ((await files.stat(path)) === undefined) return undefined;
  const file = await files.open(path, "read");
  try {
    const prefix = Buffer.alloc(12);
    const isOurs = (await file.read(prefix, 0)) === 12 && prefix.toString("latin1", 0, 8) === magic;
    return isOurs ? prefix.readUInt32LE(8) : undefined;
  } finally {
    await file.close();
  }
}

const maxHeaderBytes = 4096;

async function savedPass(files: Files, path: string): Promise<SavedProgress["pass"]> {
  const headerBytes = await prefixOf(files, path, passMagic);
  if (headerBytes === undefined || headerBytes > maxHeaderBytes) return undefined;
  const file = await files.open(path, "read");
  try {
    const bytes = Buffer.alloc(headerBytes);
    await file.read(bytes, 12);
    const { iteration, samples, samplesBefore } = JSON.parse(bytes.toString("utf8")) as PassId & {
      readonly samples: number;
    };
    return Number.isSafeInteger(iteration) && Number.isSafeInteger(samples + samplesBefore)
      ? { iteration, samples: samples + samplesBefore }
      : undefined;
  } finally {
    await file.close();
  }
}
