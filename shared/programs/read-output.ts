/**
 * Reads what an external trainer left: a model in any form that is read, metrics.json and files in attachments/. All of
 * it was written by another program: only regular files are read, never through links, and all within limits.
 */
import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "../error-text.js";
import { isStemmaError, StemmaError } from "../errors.js";
import { openFileAsItIs } from "../forms/file-as-it-is.js";
import { openModelFile, type ModelFile } from "../forms/model-file.js";
import { openRegularFile, type RegularFile } from "../files/regular-file.js";
import { maxAttachmentBytes } from "../save/attachment-limit.js";
import { parseMetrics, type Metrics } from "./metrics.js";

/** The names that a model may have: the first that is there is read. */
const modelNames = [
  "model.safetensors",
  "model.safetensors.index.json",
  "model.json",
  "model.pt",
  "model.pth",
  "pytorch_model.bin",
  "pytorch_model.bin.index.json",
  "model.keras",
  "model.h5",
] as const;
/** The names that the file with outputs of the model may have. */
const checkNames = ["check.safetensors", "check.npz"] as const;
const metricsName = "metrics.json";
const maxMetricsBytes = 2 * 1024 * 1024;
/** A save record names at most 256. */
const maxAttachments = 200;

/** A file that is kept with a version. */
export interface Attachment {
  readonly name: string;
  readonly bytes: Uint8Array;
}

export interface TrainerOutput {
  /** Open; the caller closes it. */
  readonly model: ModelFile & { readonly path: string };
  readonly metrics: Metrics;
  readonly attachments: readonly Attachment[];
  /** Names of files in attachments/ that are too large, too many, or not regular files. */
  readonly dropped: readonly string[];
}

/** The attachments that a version may have beside those that it has already. */
export interface AttachmentSpace {
  readonly maxBytes: number;
  /** Names that are taken. */
  readonly taken?: readonly string[];
}

/**
 * @throws TRAINER_OUTPUT_INVALID where a file is missing, is not a regular file or cannot be understood;
 * MODEL_FILE_MALFORMED, SAFETENSORS_MALFORMED, SAFETENSORS_TRUNCATED for the model
 */
export async function readOutput(
  folder: string,
  space: AttachmentSpace = { maxBytes: maxAttachmentBytes },
  kept?: string,
): Promise<TrainerOutput> {
  const metrics = await readMetrics(folder);
  const { attachments, dropped } = await readAttachments(join(folder, "attachments"), space);
  return { model: await openModel(folder, kept), metrics, attachments, dropped };
}

async function openModel(folder: string, kept: string | undefined): Promise<TrainerOutput["model"]> {
  const names = kept === undefined ? modelNames : [kept];
  for (const name of names) {
    const path = join(folder, name);
    if ((await lstat(path).catch(() => undefined)) === undefined) continue;
    try {
      const model = await (kept === undefined ? openModelFile : openFileAsItIs)(path, { followLinks: false });
      return { ...model, path };
    } catch (cause) {
      if (isStemmaError(cause) && /^(MODEL_FILE|SAFETENSORS)_/.test(cause.code)) throw cause;
      throw invalid(`left a ${name} that cannot be read (${messageOf(cause)})`, cause);
    }
  }
  throw invalid(
    kept === undefined
      ? `left no ${names.slice(0, -1).join(", ")} or ${names.at(-1)} in its current directory`
      : `left no ${kept} in its current directory, which is what the line delivers`,
  );
}

/**
 * The file with inputs and outputs of the model, for a check.
 * @returns undefined where there is none, and none is wanted
 * @throws TRAINER_OUTPUT_INVALID
 */
export async function checkFileIn(folder: string, isWanted: boolean): Promise<string | undefined> {
  for (const name of checkNames) {
    const found = await lstat(join(folder, name)).catch(() => undefined);
    if (found === undefined) continue;
    if (!found.isFile()) throw invalid(`left a ${name} that is not a regular file`);
    return join(folder, name);
  }
  if (!isWanted) return undefined;
  throw invalid(`left no ${checkNames.join(" or ")} in its current directory, which its settings demand`);
}

async function openOutput(folder: string, name: string): Promise<RegularFile> {
  try {
    return await openRegularFile(join(folder, name), { followLinks: false });
  } catch (cause) {
    throw invalid(
      isStemmaError(cause, "FILE_MISSING")
        ? `left no ${name} in its current directory`
        : `left a ${name} that cannot be read (${messageOf(cause)})`,
      cause,
    );
  }
}

async function readMetrics(folder: string): Promise<Metrics> {
  const bytes = await readWhole(await openOutput(folder, metricsName), maxMetricsBytes);
  if (bytes === undefined) throw invalid(`left a ${metricsName} of more than ${maxMetricsBytes} bytes`);
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf8", { fatal: true }).decode(bytes));
  } catch (cause) {
    throw invalid(`left a ${metricsName} that is not JSON (${messageOf(cause)})`, cause);
  }
  return parseMetrics(value, `The ${metricsName} of the external trainer`, "TRAINER_OUTPUT_INVALID");
}

/** undefined where the file is larger; closes it. */
async function readWhole({ file, size }: RegularFile, maxBytes: number): Promise<Uint8Array | undefined> {
  try {
    if (size > maxBytes) return undefined;
    const bytes = new Uint8Array(size);
    return bytes.subarray(0, await file.read(bytes, 0));
  } finally {
    await file.close();
  }
}

async function readAttachments(
  folder: string,
  { maxBytes, taken = [] }: AttachmentSpace,
): Promise<Pick<TrainerOutput, "attachments" | "dropped">> {
  const attachments: Attachment[] = [];
  const dropped: string[] = [];
  // Not through a link either: it could point at a folder with secrets.
  if ((await lstat(folder).catch(() => undefined))?.isDirectory() !== true) return { attachments, dropped };
  let left = maxBytes;
  for (const name of (await readdir(folder)).sort()) {
    const bytes =
      attachments.length < maxAttachments && !taken.includes(name)
        ? await readAttachment(join(folder, name), left)
        : undefined;
    if (bytes === undefined) dropped.push(name);
    else {
      attachments.push({ name, bytes });
      left -= bytes.length;
    }
  }
  return { attachments, dropped };
}

/** undefined where it is larger, or not a regular file. */
async function readAttachment(path: string, maxBytes: number): Promise<Uint8Array | undefined> {
  try {
    return await readWhole(await openRegularFile(path, { followLinks: false }), maxBytes);
  } catch (error) {
    if (isStemmaError(error)) return undefined;
    throw error;
  }
}

function invalid(problem: string, cause?: unknown): StemmaError {
  return new StemmaError(
    "TRAINER_OUTPUT_INVALID",
    `The external trainer ended well but ${problem}. Nothing was saved; docs/own-models.md describes ` +
      "what it has to leave.",
    { cause },
  );
}
