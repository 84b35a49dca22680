/**
 * Reads a model file that Stemma did not train as the next version of a line. It has the architecture and the names of
 * its base, or those of the file from which that was imported with a layout, or, where the base is opaque, the same
 * tensors. A file that does not fit is refused with the difference.
 */
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import { decodeArchitecture } from "../../shared/model/architecture.js";
import type { LeafTable, ModelSource, SaveRecord } from "../../shared/model/model.js";
import { isKeptFile, keptFileOf } from "../../shared/model/kept-file.js";
import { decodeNames } from "../../shared/model/names.js";
import { inheritedLayout, layoutIdOf, layOutAsBase } from "../../shared/layouts/base-layout.js";
import { decodeLayout, layoutName } from "../../shared/layouts/layout.js";
import type { Attachment } from "../../shared/programs/read-output.js";
import { maxAttachmentBytes } from "../../shared/save/attachment-limit.js";
import { modelSourceOfSafetensors } from "../../shared/save/model-source.js";
import { hasSameHeader } from "../../shared/tensor/same-header.js";
import type { ByteFile } from "../../shared/tensor/safetensors-reader.js";
import type { Hash, TensorHeader } from "../../shared/tensor/tensor.js";
import type { Outbox } from "../outbox/outbox.js";
import { requireFinite, requireFiniteBeside } from "../../shared/save/finite-numbers.js";

type StoredVersions = Pick<Outbox, "record" | "leaves" | "objects">;

export interface LineFile {
  readonly file: ByteFile;
  /** The file's path, for messages. */
  readonly where: string;
  readonly line: string;
  /** The version that the model was trained from; undefined: the line has none. */
  readonly base: Hash | undefined;
  /** Larger models are not held in memory (ImportOptions). */
  readonly holdBytes: number;
}

/** A file's model, and what is kept with it. */
export interface LineModel {
  readonly model: ModelSource;
  /** The layout of its file, where its base has one. */
  readonly layout: Uint8Array | undefined;
  /** Sentences about what of the file is kept beside the weights. */
  readonly notes: readonly string[];
}

/**
 * The model of a file. The file stays open until the model is saved.
 * @throws SAFETENSORS_MALFORMED, SAFETENSORS_TRUNCATED, ARCHITECTURE_MISMATCH naming what differs from the base,
 * NOT_A_NUMBER naming a tensor, NAMES_INVALID for a file without a safe name, MODEL_FILE_MALFORMED for a base's layout
 */
export async function modelOfLine(outbox: StoredVersions, lineFile: LineFile): Promise<LineModel> {
  const { file, where, base, holdBytes } = lineFile;
  if (base === undefined) {
    const first = await modelSourceOfSafetensors(file, where, { holdBytes });
    keptFileOf(first);
    return alone(first);
  }
  const { record } = await outbox.record(base);
  const leaves = await outbox.leaves(record);
  const found =
    record.objects.architecture === undefined
      ? alone(await modelSourceOfSafetensors(file, where, { holdBytes }))
      : await withArchitecture(outbox, lineFile, { record, leaves });
  const differences = differencesOf(leaves, found.model.leaves);
  if (differences.length > 0) throw misfit(lineFile, listed(differences));
  await requireFinite(found.model, leaves, { objects: outbox.objects, where });
  return found;
}

function alone(model: ModelSource): LineModel {
  return { model, layout: undefined, notes: [] };
}

async function withArchitecture(
  { objects }: StoredVersions,
  lineFile: LineFile,
  { record, leaves }: { readonly record: SaveRecord; readonly leaves: LeafTable },
): Promise<LineModel> {
  const architecture = decodeArchitecture(
    await objects.read("architecture", record.objects.architecture as Hash),
  );
  const names = decodeNames(await objects.read("names", record.objects.names), leaves.length);
  const described = { architecture, names };
  const { file, where, holdBytes } = lineFile;
  const layoutId = layoutIdOf(record);
  try {
    const layout = layoutId && (await objects.read("attachment", layoutId));
    const laidOut = layout && (await layOutAsBase(file, where, { described, layout }));
    const model = await modelSourceOfSafetensors(laidOut?.part.file ?? file, where, {
      architecture: described,
      holdBytes,
    });
    if (layout === undefined) return alone(model);
    if (laidOut === undefined) return { model, layout: await inheritedLayout(model, layout), notes: [] };
    await requireFiniteBeside([decodeLayout(laidOut.layout, leaves), decodeLayout(layout, leaves)], where);
    return { model, layout: laidOut.layout, notes: laidOut.notes };
  } catch (error) {
    if (!isStemmaError(error, "ARCHITECTURE_MISMATCH")) throw error;
    throw misfit(lineFile, error.message, error);
  }
}

/**
 * The files that are kept with a version, with the layout of its own.
 * @throws SIZE_OVER_LIMIT where they are too large together
 */
export function attachmentsWithLayout(
  attachments: readonly Attachment[],
  { layout }: Pick<LineModel, "layout">,
): readonly Attachment[] {
  if (layout === undefined) return attachments;
  const all = [...attachments, { name: layoutName, bytes: layout }];
  const bytes = all.reduce((sum, one) => sum + one.bytes.length, 0);
  if (bytes <= maxAttachmentBytes) return all;
  throw new StemmaError(
    "SIZE_OVER_LIMIT",
    `The files attached to the version have ${bytes} bytes with the layout of its model file; all together may have ` +
      `${maxAttachmentBytes}. Attach less.`,
  );
}

function misfit({ where, line, base }: LineFile, difference: string, cause?: unknown): StemmaError {
  return new StemmaError(
    "ARCHITECTURE_MISMATCH",
    `${where} does not fit ${line}, whose model ${base?.slice(0, 12) ?? ""} it was compared ` +
      `with: ${difference} Save a model of the same network, or assign another model to the line on the ` +
      "server.",
    { line, base, cause },
  );
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
  for (const path of left.keys()) differences.push(`the line's model has no tensor ${quoted(path)}`);
  return differences;
}

function quoted(path: string): string {
  return JSON.stringify(path.slice(0, 80));
}

function header({ dtype, shape }: TensorHeader): string {
  return `${dtype} [${shape.join(", ")}]`;
}
