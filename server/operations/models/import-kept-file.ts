/** Checks a file that is imported to be kept as it is: what it states of itself is so before it is recorded. */
import type { ModelSource, UnhashedModel } from "../../../shared/model/model.js";
import { keptFileOf } from "../../../shared/model/kept-file.js";
import { keptFileChunks } from "../../../shared/recover/kept-file-chunks.js";
import type { TensorSource } from "../../../shared/tensor/tensor.js";

/**
 * @returns whether it is one
 * @throws NAMES_INVALID for a file without a safe name, ROOT_MISMATCH where its bytes have another SHA-256
 */
export async function checkKeptFile(model: ModelSource | UnhashedModel): Promise<boolean> {
  const leaves = "unhashedLeaves" in model ? model.unhashedLeaves : model.leaves;
  const kept = keptFileOf({ leaves, names: model.names });
  if (kept === undefined) return false;
  for await (const _ of keptFileChunks(kept, model.sources[0] as TensorSource));
  return true;
}
