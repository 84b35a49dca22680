/**
 * Chooses what of a training is attached to its version: the optimizer's state and checkpoints, as far as they fit
 * what a device may report with one version. Pure but for the reading of the chosen files.
 */
import type { TrainingOutcome } from "./train-in-child.js";

/**
 * Bytes of all attachments of a trained version. A server takes 64 MiB of small objects with one announcement
 * (limits.maxObjectBytes); the rest is for tree, names and measurements.
 */
export const maxAttachmentBytes = 48 * 2 ** 20;
/** Attachments of a trained version; a save record names at most 256. */
const maxAttachments = 200;

/** Name of the attachment, and of the file in a base's folder, with the optimizer's state. */
export const optimizerFileName = "optimizer.safetensors";

export interface ResultAttachments {
  readonly attachments: readonly { readonly name: string; readonly bytes: Uint8Array }[];
  /** Names of what did not fit. */
  readonly dropped: readonly string[];
}

/** A file's size in bytes and its content. */
export interface ResultFileReader {
  size(path: string): Promise<number>;
  read(path: string): Promise<Uint8Array>;
}

/** The optimizer's state first, then the newest checkpoints that fit; each in one piece. */
export async function attachmentsOf(
  { checkpoints, optimizerFile }: Pick<TrainingOutcome, "checkpoints" | "optimizerFile">,
  files: ResultFileReader,
): Promise<ResultAttachments> {
  const chosen: string[] = [];
  const dropped: string[] = [];
  let left = maxAttachmentBytes;
  for (const path of [
    ...(optimizerFile === undefined ? [] : [optimizerFile]),
    ...checkpoints.map(({ file }) => file).reverse(),
  ]) {
    const bytes = await files.size(path);
    const fits = bytes <= left && chosen.length < maxAttachments;
    (fits ? chosen : dropped).push(path);
    if (fits) left -= bytes;
  }
  return {
    attachments: await Promise.all(
      chosen.map(async (path) => ({ name: nameOf(path), bytes: await files.read(path) })),
    ),
    dropped: dropped.map(nameOf),
  };
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
