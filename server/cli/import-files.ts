/** Files of this machine as an import sends them: the model's, and before it checkpoints and the optimizer's state. */
import { createReadStream } from "node:fs";
import { realpath, stat } from "node:fs/promises";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import { regularFiles } from "../../shared/files/regular-files.js";
import { maxChunkBytes } from "../../shared/tensor/tensor.js";
import type { ImportStream, LocalFile } from "../interface/api/server-operations.js";

/** A checkpoint, or without iteration the optimizer's state. */
export interface ImportFilePart {
  readonly iteration?: number;
  readonly byteLength: number;
  readonly fileName: string;
}

/** @throws NOT_FOUND, USAGE where it is not a file */
export async function streamOfFiles(file: string, parts: readonly ImportFilePart[]): Promise<ImportStream> {
  const localFile = await describeFile(file);
  const partBytes = parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
  return {
    byteLength: partBytes + localFile.size,
    chunks: readAll([...parts.map(({ fileName }) => fileName), file]),
    // With further files, the server receives all of them.
    ...(parts.length === 0 ? { localFile } : {}),
  };
}

export async function describeFile(path: string): Promise<LocalFile> {
  const found = await stat(path).catch((cause: unknown) => {
    throw missing(path, cause);
  });
  if (!found.isFile()) throw new StemmaError("USAGE", `${path} is not a file. Name one .safetensors file.`);
  return { path: await realpath(path), size: found.size, modifiedMs: found.mtimeMs };
}
export async function readText(path: string): Promise<string> {
  return new TextDecoder().decode(await readBytes(path));
}
export async function readBytes(path: string): Promise<Uint8Array> {
  return regularFiles()
    .read(path)
    .catch((cause: unknown) => {
      throw isStemmaError(cause, "FILE_NOT_REGULAR") ? cause : missing(path, cause);
    });
}
function missing(path: string, cause: unknown): StemmaError {
  return new StemmaError("NOT_FOUND", `${path} cannot be read. Check the path and its permissions.`, {
    cause,
  });
}

async function* readAll(paths: readonly string[]): AsyncIterable<Uint8Array> {
  for (const path of paths) yield* readChunks(path);
}

async function* readChunks(path: string): AsyncIterable<Uint8Array> {
  for await (const chunk of createReadStream(path, {
    highWaterMark: Math.min(maxChunkBytes, 4 * 1024 * 1024),
  }))
    yield chunk as Uint8Array;
}
