/** A recovered model as the files of its slot: what the device's software and the next fine-tuning read. */
import { encodeArchitecture } from "../model/architecture.js";
import { checkedFile, fileOfLayout } from "./file-of-layout.js";
import { keptFileOf } from "../model/kept-file.js";
import { keptFileChunks } from "../recover/kept-file-chunks.js";
import { safetensorsOfModel } from "../recover/recovered-file.js";
import type { RecoveredModel } from "../recover/recovery.js";
import { tensorByteLength } from "../tensor/dtype.js";
import { safetensorsChunks } from "../tensor/safetensors.js";
import type { TensorHeader, TensorSource } from "../tensor/tensor.js";
import { decodeLayout } from "./layout.js";

export interface SlotFile {
  readonly name: string;
  /** True for a file that is kept as it is, whose name says nothing of what it is. */
  readonly isKept?: true;
  readonly chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/** The model as the file from which it was imported with a layout, or that came in its base's layout. */
export const originalFileName = "original.safetensors";

/**
 * Returns a model's files: with an architecture, tensors named by their canonical paths ("layer/weight"), in
 * canonical order, which is the form that trainings read and write, and `names.json` with the names that
 * people use. Without: the file as it was imported. A file that is kept as it is: that file, under its name.
 * @param layout the version's own, its attachment's bytes: `original.safetensors` has the names and axes of its file
 * @throws NAMES_INVALID for such a file without a safe name, MODEL_FILE_MALFORMED for the layout; ROOT_MISMATCH at the
 * end of the original, where its tensors are not those that were saved
 */
export function slotFilesOf(
  model: Pick<RecoveredModel, "architecture" | "leaves" | "sources" | "names">,
  layout?: Uint8Array,
): readonly SlotFile[] {
  const kept = model.architecture === undefined ? keptFileOf(model) : undefined;
  if (kept !== undefined)
    return [
      { name: kept.name, isKept: true, chunks: keptFileChunks(kept, model.sources[0] as TensorSource) },
    ];
  if (model.architecture === undefined) {
    const { tensors, options } = safetensorsOfModel(model);
    return [{ name: "model.safetensors", chunks: safetensorsChunks(tensors, options) }];
  }
  const tensors = model.leaves.map((leaf, at) => ({
    name: leaf.path,
    source: model.sources[at] as TensorSource,
  }));
  const names = Object.fromEntries(
    model.leaves.map((leaf, at) => [leaf.path, model.names.leaves[at] ?? leaf.path]),
  );
  return [
    { name: "model.safetensors", chunks: safetensorsChunks(tensors) },
    { name: "architecture.json", chunks: [encodeArchitecture(model.architecture)] },
    { name: "names.json", chunks: [new TextEncoder().encode(`${JSON.stringify(names, null, 2)}\n`)] },
    ...(layout === undefined ? [] : [originalSlotFile(model, layout)]),
  ];
}

/**
 * Bytes of the tensors in `original.safetensors` of a model with these weights.
 * @throws MODEL_FILE_MALFORMED
 */
export function originalBytesOf(weights: readonly TensorHeader[], layout: Uint8Array): number {
  const { tensors } = decodeLayout(layout, weights);
  return tensors.reduce((sum, { dtype, shape }) => sum + tensorByteLength(dtype, shape), 0);
}

/** The file of a laid out model in its slot. @throws as slotFilesOf, at the end of its bytes */
export function originalSlotFile(model: Pick<RecoveredModel, "sources">, layout: Uint8Array): SlotFile {
  return { name: originalFileName, chunks: originalChunks(model, layout) };
}

async function* originalChunks(
  { sources }: Pick<RecoveredModel, "sources">,
  layout: Uint8Array,
): AsyncGenerator<Uint8Array> {
  const file = checkedFile(fileOfLayout(sources, layout));
  const { tensors, options } = safetensorsOfModel(file);
  yield* safetensorsChunks(tensors, options);
  file.check();
}
