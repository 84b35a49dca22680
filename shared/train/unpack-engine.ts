/** Engines between their folder and their archive: packs the files of a folder, and unpacks a stored engine. */
import { join } from "node:path";
import { StemmaError } from "../errors.js";
import type { Files } from "../ports.js";
import type { Hash } from "../tensor/tensor.js";
import {
  decodeEngineArchive,
  encodeEngineArchive,
  maxEngineBytes,
  type EngineArchive,
  type EngineFile,
} from "./engine-archive.js";
import { engineFiles, engineId } from "./engine-id.js";

/** The archive of the engine in a folder. @throws FILE_MISSING, ENGINE_INVALID */
export async function packEngine(files: Pick<Files, "read" | "stat">, folder: string): Promise<Uint8Array> {
  const packed: EngineFile[] = [];
  let left = maxEngineBytes;
  for (const name of engineFiles) {
    const path = join(folder, name);
    const stat = await files.stat(path);
    if (stat?.kind === "folder" || (stat !== undefined && stat.size > left))
      throw new StemmaError(
        "ENGINE_INVALID",
        `${path} is not a file of an engine, which has at most ${maxEngineBytes} bytes. Name a folder ` +
          "such as dist/engine of a build.",
        { path },
      );
    const bytes = await files.read(path);
    left -= bytes.length;
    packed.push({ name, bytes });
  }
  return encodeEngineArchive(packed);
}

/**
 * Unpacks an engine into a folder that does not exist yet, and reads every file back.
 * @param expected the engine id that the caller asked for
 * @throws ENGINE_INVALID, ENGINE_HASH_MISMATCH
 */
export async function unpackEngine(
  files: Pick<Files, "read" | "stat" | "makeFolder" | "open">,
  archive: Uint8Array,
  { folder, expected }: { readonly folder: string; readonly expected?: Hash | undefined },
): Promise<EngineArchive> {
  const engine = decodeEngineArchive(archive);
  requireEngine(engine.engine, expected ?? engine.engine);
  if ((await files.stat(folder)) !== undefined)
    throw new StemmaError(
      "ENGINE_INVALID",
      `${folder} exists already. Unpack the engine into a new folder.`,
      {
        folder,
      },
    );
  await files.makeFolder(folder);
  for (const { name, bytes } of engine.files) {
    // "create" refuses a name that exists, links included.
    const file = await files.open(join(folder, name), "create");
    try {
      await file.write(bytes, 0);
    } finally {
      await file.close();
    }
  }
  const written = await Promise.all(
    engine.files.map(async ({ name }) => ({ name, bytes: await files.read(join(folder, name)) })),
  );
  requireEngine(engineId(written), engine.engine);
  return engine;
}

/** @throws ENGINE_HASH_MISMATCH */
export function requireEngine(actual: Hash, expected: Hash): void {
  if (actual !== expected)
    throw new StemmaError(
      "ENGINE_HASH_MISMATCH",
      `The engine is ${actual}, but ${expected} was expected: its files are not those that this id ` +
        "stands for. Take it from the build that has this id.",
      { expected, actual },
    );
}
