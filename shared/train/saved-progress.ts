/** How far the saved state of a training goes, without reading all of it. */
import { join } from "node:path";
import type { Files } from "../ports.js";
import { stateFileName, stateMagic } from "./training-state.js";

/**
 * The steps that are done in the saved state of a training; 0 without one. Not verified: only the engine checks the
 * state's hash, so use it for messages and pauses.
 * @param workFolder the folder that the training was given (ChildOptions)
 */
export async function savedIterations(files: Files, workFolder: string): Promise<number> {
  const path = join(workFolder, "state", stateFileName);
  if ((await files.stat(path)) === undefined) return 0;
  const file = await files.open(path, "read");
  try {
    const prefix = Buffer.alloc(12);
    const isState = (await file.read(prefix, 0)) === 12 && prefix.toString("latin1", 0, 8) === stateMagic;
    return isState ? prefix.readUInt32LE(8) : 0;
  } finally {
    await file.close();
  }
}
