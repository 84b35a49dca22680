/** A model as the tensors of the other tool's file from which it, or a version before it, was imported. */
import { checkedFile, fileOfLayout, type LaidOut } from "../../../shared/layouts/file-of-layout.js";
import { layoutIdOf } from "../../../shared/layouts/base-layout.js";
import type { RecoveredModel } from "../../../shared/recover/recovery.js";
import { safetensorsOfModel } from "../../../shared/recover/recovered-file.js";
import { safetensorsByteLength, safetensorsChunks } from "../../../shared/tensor/safetensors.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { versionWithLayout } from "../../services/context/inherited-layout.js";
import { noLayout } from "./model-errors.js";

type Store = Pick<FleetRepository, "objects" | "get">;

/** A file in a layout, and the version that has this layout. */
export interface FileInLayout {
  /** Numbers of its biases that do not add up to the model's, as those were trained since and rounded. */
  readonly inexact: number;
  readonly from: VersionSummary;
  readonly byteLength: number;
  readonly chunks: AsyncIterable<Uint8Array>;
}

/**
 * @param summary a version with an architecture
 * @throws MODEL_PART_MISSING, MODEL_FILE_MALFORMED; at the end ROOT_MISMATCH, where it is the version that was imported
 * and its tensors are not those of its file
 */
export async function fileInLayout(
  store: Store,
  summary: VersionSummary,
  model: RecoveredModel,
): Promise<FileInLayout> {
  const found = versionWithLayout(store, summary);
  if (found === undefined) throw noLayout(summary);
  const { from, layout } = found;
  const file = fileOfLayout(model.sources, await store.objects.read("attachment", layout));
  const isOwn = from.versionId === summary.versionId;
  const checked = isOwn ? checkedFile(file) : undefined;
  const { tensors, options } = safetensorsOfModel(checked ?? file);
  return {
    from,
    inexact: await file.countInexact(),
    byteLength: safetensorsByteLength(tensors, options),
    chunks: thenCheck(safetensorsChunks(tensors, options), checked?.check),
  };
}

async function* thenCheck(
  chunks: AsyncIterable<Uint8Array>,
  check: (() => void) | undefined,
): AsyncGenerator<Uint8Array> {
  yield* chunks;
  check?.();
}

/** The tensors of an imported version's own file, undefined where it was not imported with a layout. */
export async function ownLayout(
  { objects }: Pick<Store, "objects">,
  { record, sources }: Pick<RecoveredModel, "record" | "sources">,
): Promise<LaidOut | undefined> {
  const own = layoutIdOf(record);
  return own === undefined ? undefined : fileOfLayout(sources, await objects.read("attachment", own));
}
