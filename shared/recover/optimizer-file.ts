/**
 * Makes the file of an optimizer's state, as the engine reads it, from the version's tree. The tree has its
 * tensors, and its metadata as tensors of text (shared/save/result-uses.ts).
 */
import type { NamedSource } from "../tensor/safetensors-writer.js";
import { tensorOfSource } from "../tensor/tensor.js";
import type { RecoveredModel } from "./recovery.js";

/** Name of the file in a base's folder. */
export const optimizerFileName = "optimizer.safetensors";
/** Longest text that is read as metadata; the engine refuses others as tensors that do not belong there. */
const maxTextBytes = 4096;
/** The prefix of the paths of metadata. */
export const optimizerMetadataPrefix = "metadata/";

/** The arguments for `safetensorsChunks` and `writeSafetensors`. */
export async function safetensorsOfOptimizer({
  leaves,
  sources,
}: Pick<RecoveredModel, "leaves" | "sources">): Promise<{
  readonly tensors: readonly NamedSource[];
  readonly options: { readonly metadata: Readonly<Record<string, string>> };
}> {
  const tensors: NamedSource[] = [];
  const metadata: Record<string, string> = {};
  for (const [at, { path }] of leaves.entries()) {
    const source = sources[at];
    if (source === undefined) continue;
    const isText =
      path.startsWith(optimizerMetadataPrefix) && source.dtype === "U8" && source.byteLength <= maxTextBytes;
    if (!isText) tensors.push({ name: path, source });
    else
      metadata[path.slice(optimizerMetadataPrefix.length)] = new TextDecoder().decode(
        (await tensorOfSource(source)).bytes,
      );
  }
  return { tensors, options: { metadata } };
}
