/**
 * Restores the file that a recovered model came from: the same tensors, order and metadata, and the same
 * bytes where its header was kept.
 */
import { defined } from "../defined.js";
import type { RecoveredModel } from "./recovery.js";
import type { NamedSource, SafetensorsOptions } from "../tensor/safetensors-writer.js";
import { leafOrderOfFile } from "../model/names.js";

/** The arguments for `safetensorsChunks` and `writeSafetensors`. */
export function safetensorsOfModel(model: Pick<RecoveredModel, "names" | "sources">): {
  readonly tensors: readonly NamedSource[];
  readonly options: SafetensorsOptions;
} {
  const { names, sources } = model;
  return {
    tensors: leafOrderOfFile(names).map((leaf) => ({
      name: names.leaves[leaf] as string,
      source: sources[leaf] as NamedSource["source"],
    })),
    options: defined({ metadata: names.fileMetadata, headerText: names.fileHeader }),
  };
}
