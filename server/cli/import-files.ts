/** Files of this machine as an import sends them: the model's, and before it checkpoints and the optimizer's state. */
import { realpath, stat } from "node:fs/promises";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import { regularFiles } from "../../shared/files/regular-files.js";
import { openFileAsItIs } from "../../shared/forms/file-as-it-is.js";
import { openModelFile, type ModelFile } from "../../shared/forms/model-file.js";
import type { LaidOutFile } from "../../shared/layouts/laid-out-file.js";
import { layoutName } from "../../shared/layouts/layout.js";
import { restOfFileName } from "../../shared/model/rest-of-file.js";
import { uninitializedBytes } from "../../shared/tensor/uninitialized-bytes.js";
import type { ImportStream, LocalFile } from "../interface/api/server-operations.js";

/** Bytes of one read. */
const chunkBytes = 4 * 1024 * 1024;

/** A checkpoint, or without iteration the optimizer's state. */
export interface NamedPart {
  readonly iteration?: number;
  readonly fileName: string;
}

export interface ImportedFiles {
  readonly file: string;
  readonly parts: readonly NamedPart[];
  /** True where the file is kept as it is. */
  readonly isKept: boolean;
  /** Makes of the model's file the weights of an architecture; absent: its tensors are saved as they are. */
  readonly layOut?: ((model: ModelFile) => Promise<LaidOutFile>) | undefined;
}

/** Files of any form, opened for an import. */
export interface OpenedImport {
  readonly stream: ImportStream;
  /** The parts with the bytes that they take in the stream. */
  readonly parts: readonly (NamedPart & { readonly byteLength: number })[];
  /** Text of a model.json, where the model's file describes its layers itself. */
  readonly architecture: string | undefined;
  /** Sentences about what of the model's file is not read. */
  readonly notes: readonly string[];
  /** The file's layout, and the rest of it besides its tensors, to be attached; none where that is not kept. */
  readonly rest: readonly { readonly name: string; readonly bytes: Uint8Array }[];
}

/**
 * Opens the files of an import, saves them as one stream, and closes them.
 * @throws NOT_FOUND, USAGE where one is not a file, what openModelFile and `save` throw
 */
export async function withImport<Result>(
  { file, parts: named, isKept, layOut }: ImportedFiles,
  save: (opened: OpenedImport) => Promise<Result>,
): Promise<Result> {
  const opened: ModelFile[] = [];
  const open = async (path: string, isKept = false): Promise<ModelFile> => {
    const each = await (isKept ? openFileAsItIs : openModelFile)(path);
    opened.push(each);
    return each;
  };
  try {
    const localFile = await describeFile(file);
    const parts: (NamedPart & { readonly byteLength: number })[] = [];
    for (const part of named) {
      await describeFile(part.fileName);
      parts.push({ ...part, byteLength: (await open(part.fileName)).size });
    }
    const model = await open(file, isKept);
    const { architecture, rest } = model;
    const laidOut = await layOut?.(model);
    if (laidOut !== undefined) opened[opened.length - 1] = { ...model, ...laidOut.part };
    const isPlain = model.isPlain && laidOut === undefined;
    const notes = [...model.notes, ...(laidOut?.notes ?? [])];
    const bytes = await rest();
    const stream = {
      byteLength: opened.reduce((sum, { size }) => sum + size, 0),
      chunks: readAll(opened),
      // With further files, or ones that are assembled here, the server receives all of them.
      ...(isPlain && parts.length === 0 ? { localFile } : {}),
    };
    const kept = [
      ...(bytes === undefined ? [] : [{ name: restOfFileName, bytes }]),
      ...(laidOut === undefined ? [] : [{ name: layoutName, bytes: laidOut.layout }]),
    ];
    return await save({ stream, parts, architecture, notes, rest: kept });
  } finally {
    for (const each of opened) await each.close();
  }
}

/** @throws NOT_FOUND, USAGE */
async function describeFile(path: string): Promise<LocalFile> {
  const found = await stat(path).catch((cause: unknown) => {
    throw missing(path, cause);
  });
  if (!found.isFile())
    throw new StemmaError(
      "USAGE",
      `${path} is not a file. Name one: model.safetensors, model.safetensors.index.json or model.json.`,
    );
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

async function* readAll(files: readonly ModelFile[]): AsyncIterable<Uint8Array> {
  for (const { file, size, requireUnchanged } of files) {
    for (let at = 0; at < size;) {
      const chunk = uninitializedBytes(Math.min(chunkBytes, size - at));
      const count = await file.read(chunk, at);
      // What is cut short meanwhile is refused for its length.
      if (count === 0) break;
      yield chunk.subarray(0, count);
      at += count;
    }
    await requireUnchanged();
  }
}
