/**
 * Reads a model file that Stemma did not train as a model of its base. It has the architecture and the names of the
 * base, or those of the file from which that was imported with a layout, or, where the base is opaque, the same
 * tensors. A file that does not fit is refused with the difference.
 */
import { isStemmaError } from "../errors.js";
import type { DescribedModel } from "../model/model-json.js";
import type { LeafTable, ModelSource } from "../model/model.js";
import { isKeptFile } from "../model/kept-file.js";
import { modelSourceOfSafetensors } from "../save/model-source.js";
import { hasSameHeader } from "../tensor/same-header.js";
import type { ByteFile } from "../tensor/safetensors-reader.js";
import type { TensorHeader } from "../tensor/tensor.js";
import { inheritedLayout, layOutAsBase } from "./base-layout.js";
import { requireFinite, requireFiniteBeside, type TensorOpener } from "./finite-numbers.js";
import { decodeLayout } from "./layout.js";

export interface BaseModel {
  /** undefined: the base is opaque. */
  readonly described: Pick<DescribedModel, "architecture" | "names"> | undefined;
  /** The base's layout: the attachment's bytes. */
  readonly layout: Uint8Array | undefined;
  readonly leaves: LeafTable;
  readonly objects: TensorOpener;
}

/** A file's model, and what is kept with it. */
export interface ModelOfBase {
  readonly model: ModelSource;
  /** The layout of its file, where its base has one. */
  readonly layout: Uint8Array | undefined;
  /** Sentences about what of the file is kept beside the weights. */
  readonly notes: readonly string[];
}

export interface FileOfBase {
  readonly file: ByteFile;
  /** The file's path, for messages. */
  readonly where: string;
  /** Larger models are not held in memory (ImportOptions). */
  readonly holdBytes?: number;
  /** Makes the error of a file that does not fit. */
  readonly misfit: (difference: string, cause?: unknown) => Error;
}

/**
 * The model of a file, which stays open until the model is saved.
 * @throws what `misfit` makes; SAFETENSORS_MALFORMED, SAFETENSORS_TRUNCATED, NOT_A_NUMBER naming a tensor,
 * MODEL_FILE_MALFORMED for a base's layout
 */
export async function modelOfBase(of: FileOfBase, base: BaseModel): Promise<ModelOfBase> {
  const { file, where, holdBytes, misfit } = of;
  const { described } = base;
  const found =
    described === undefined
      ? alone(await modelSourceOfSafetensors(file, where, holding(holdBytes)))
      : await withArchitecture(of, { ...base, described });
  const differences = differencesOf(base.leaves, found.model.leaves);
  if (differences.length > 0) throw misfit(listed(differences));
  await requireFinite(found.model, base.leaves, { objects: base.objects, where });
  return found;
}

export function alone(model: ModelSource): ModelOfBase {
  return { model, layout: undefined, notes: [] };
}

const holding = (holdBytes: number | undefined): { readonly holdBytes?: number } =>
  holdBytes === undefined ? {} : { holdBytes };

async function withArchitecture(
  { file, where, holdBytes, misfit }: FileOfBase,
  { described, layout, leaves }: BaseModel & { readonly described: NonNullable<BaseModel["described"]> },
): Promise<ModelOfBase> {
  try {
    const laidOut = layout && (await layOutAsBase(file, where, { described, layout }));
    const model = await modelSourceOfSafetensors(laidOut?.part.file ?? file, where, {
      architecture: described,
      ...holding(holdBytes),
    });
    if (layout === undefined) return alone(model);
    if (laidOut === undefined) return { model, layout: await inheritedLayout(model, layout), notes: [] };
    await requireFiniteBeside([decodeLayout(laidOut.layout, leaves), decodeLayout(layout, leaves)], where);
    return { model, layout: laidOut.layout, notes: laidOut.notes };
  } catch (error) {
    if (!isStemmaError(error, "ARCHITECTURE_MISMATCH")) throw error;
    throw misfit(error.message, error);
  }
}

/** The largest number of differences that a message lists. */
const shownDifferences = 3;

function listed(differences: readonly string[]): string {
  const more = differences.length - shownDifferences;
  return `${differences.slice(0, shownDifferences).join("; ")}${more > 0 ? `; and ${more} more` : ""}.`;
}

/**
 * Describes the differences between two tables of tensors in names, types and shapes; both are in the order
 * of their names.
 */
function differencesOf(wanted: LeafTable, found: LeafTable): readonly string[] {
  const differences: string[] = [];
  // A file may have another length.
  const areFiles = isKeptFile(wanted) && isKeptFile(found);
  const left = new Map(found.map((leaf) => [leaf.path, leaf]));
  for (const leaf of wanted) {
    const other = left.get(leaf.path);
    left.delete(leaf.path);
    if (other === undefined) differences.push(`the tensor ${quoted(leaf.path)} is missing`);
    else if (!areFiles && !hasSameHeader(leaf, other))
      differences.push(`${quoted(leaf.path)} is ${header(other)} instead of ${header(leaf)}`);
  }
  for (const path of left.keys()) differences.push(`the base has no tensor ${quoted(path)}`);
  return differences;
}

function quoted(path: string): string {
  return JSON.stringify(path.slice(0, 80));
}

function header({ dtype, shape }: TensorHeader): string {
  return `${dtype} [${shape.join(", ")}]`;
}
