/** The training engine of this installation. Devices run no other. */
import { nodeFiles } from "../files/node-files.js";
import type { Hash } from "../tensor/tensor.js";
import { decodeEngineArchive, engineObjectId } from "./engine-archive.js";
import { builtInEngineFolder } from "./engine-folder.js";
import { packEngine } from "./unpack-engine.js";

export interface OwnEngine {
  /** Id of its archive, as save records name it. */
  readonly object: Hash;
  /** The id that trainings with it report. */
  readonly engineId: Hash;
}

let known: Promise<OwnEngine> | undefined;

/** @throws FILE_MISSING where it is not built */
export function ownEngine(): Promise<OwnEngine> {
  // The files of an installation do not change while it runs. A failure is tried again.
  known ??= packOwnEngine().then((archive) => ({
    object: engineObjectId(archive),
    engineId: decodeEngineArchive(archive).engine,
  }));
  known.catch(() => (known = undefined));
  return known;
}

export function packOwnEngine(): Promise<Uint8Array> {
  return packEngine(nodeFiles(), builtInEngineFolder());
}

/** The engine that a training ran, as its version names it; undefined where it was not this installation's. */
export async function usedEngine(engineId: Hash): Promise<{ readonly id: Hash } | undefined> {
  const own = await ownEngine().catch(() => undefined);
  return own?.engineId === engineId ? { id: own.object } : undefined;
}
