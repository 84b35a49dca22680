/**
 * Saves checkpoints and the optimizer's state that a training left as files, as trees of the saved version.
 * As many are kept as the saver's limits allow, the optimizer's state first, then the newest checkpoints.
 */
import type { Architecture, Names } from "../model/model.js";
import { maxCheckpoints } from "../model/record-uses.js";
import type { Files, OpenFile } from "../ports.js";
import type { ByteFile } from "../tensor/safetensors.js";
import { readSafetensors } from "../tensor/safetensors.js";
import { tensorOfSource, type Tensor } from "../tensor/tensor.js";
import { optimizerMetadataPrefix } from "../recover/optimizer-file.js";
import { modelSourceOfSafetensors, opaqueModelSource } from "./model-source.js";
import { bytesOfSources, type SaveUses, type TreeSource } from "./save-uses.js";

export interface TrainingFiles {
  /** Oldest first; paths of safetensors files with the tensors of the model. */
  readonly checkpoints: readonly { readonly iteration: number; readonly file: string }[];
  readonly optimizerFile?: string | undefined;
}

export interface TrainingStateLimits {
  /** Max checkpoints of a version. */
  readonly checkpoints: number;
  readonly optimizer: boolean;
  /** Max bytes of all tensors of checkpoints and optimizer state together. */
  readonly bytes: number;
}

export interface ResultUses {
  readonly uses: Pick<SaveUses, "checkpoints" | "optimizer">;
  /** Names of what the limits left out. */
  readonly dropped: readonly string[];
  /** Closes the files; call it after the save. */
  readonly close: () => Promise<void>;
}

interface Model {
  readonly architecture: Architecture;
  readonly names?: Names;
}

/** @throws FILE_FAILED, SAFETENSORS_MALFORMED, ARCHITECTURE_MISMATCH */
export async function usesOfResult(
  files: Pick<Files, "open">,
  model: Model,
  { checkpoints, optimizerFile }: TrainingFiles,
  limits: TrainingStateLimits,
): Promise<ResultUses> {
  const opened: OpenFile[] = [];
  const close = async (): Promise<void> => {
    for (const file of opened) await file.close();
  };
  const open = async (path: string): Promise<OpenFile> => {
    const file = await files.open(path, "read");
    opened.push(file);
    return file;
  };
  const dropped: string[] = [];
  let left = limits.bytes;
  /** True if the tree is kept; it then takes its bytes from the budget. */
  const fits = ({ sources }: TreeSource): boolean => {
    const bytes = bytesOfSources(sources);
    if (bytes > left) return false;
    left -= bytes;
    return true;
  };
  try {
    let optimizer: TreeSource | undefined;
    if (optimizerFile !== undefined) {
      const tree = limits.optimizer
        ? await optimizerTree(await open(optimizerFile), optimizerFile)
        : undefined;
      if (tree !== undefined && fits(tree)) optimizer = tree;
      else dropped.push("the optimizer's state");
    }
    const kept: { readonly iteration: number; readonly model: TreeSource }[] = [];
    for (const { iteration, file } of [...checkpoints].reverse()) {
      const mayKeep = kept.length < Math.min(limits.checkpoints, maxCheckpoints);
      const tree = mayKeep
        ? await modelSourceOfSafetensors(await open(file), file, { architecture: model })
        : undefined;
      if (tree !== undefined && fits(tree)) kept.unshift({ iteration, model: tree });
      else dropped.push(`the checkpoint after iteration ${iteration}`);
    }
    return {
      uses: { ...(optimizer && { optimizer }), ...(kept.length > 0 && { checkpoints: kept }) },
      dropped,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The tensors of the file, and its metadata as tensors of text, so that the file can be written again. */
async function optimizerTree(file: ByteFile, path: string): Promise<TreeSource> {
  const opened = await readSafetensors(file, path);
  const { tensors, metadata = {} } = opened;
  const texts = Object.entries(metadata).map(([key, text]) => {
    const bytes = new TextEncoder().encode(text);
    return { name: `${optimizerMetadataPrefix}${key}`, dtype: "U8" as const, shape: [bytes.length], bytes };
  });
  const values = await Promise.all(
    tensors.map(async (entry): Promise<Tensor & { readonly name: string }> => {
      const { dtype, shape, bytes } = await tensorOfSource(opened.source(entry));
      return { name: entry.name, dtype, shape, bytes };
    }),
  );
  return opaqueModelSource([...values, ...texts]);
}
