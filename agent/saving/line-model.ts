/**
 * Reads a model file that Stemma did not train as the next version of a line. It has the architecture and the names of
 * its base, or, where that is opaque, the same tensors. A file that does not fit is refused with the difference.
 */
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import { decodeArchitecture } from "../../shared/model/architecture.js";
import type { LeafTable, ModelSource, SaveRecord } from "../../shared/model/model.js";
import { isKeptFile, keptFileOf } from "../../shared/model/kept-file.js";
import { decodeNames } from "../../shared/model/names.js";
import { modelSourceOfSafetensors } from "../../shared/save/model-source.js";
import { hasSameHeader } from "../../shared/tensor/same-header.js";
import type { ByteFile } from "../../shared/tensor/safetensors-reader.js";
import type { Hash, TensorHeader } from "../../shared/tensor/tensor.js";
import type { Outbox } from "../outbox/outbox.js";
import { requireFinite } from "./finite-numbers.js";

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

/**
 * The model of a file. The file stays open until the model is saved.
 * @throws SAFETENSORS_MALFORMED, SAFETENSORS_TRUNCATED, ARCHITECTURE_MISMATCH naming what differs from the base,
 * NOT_A_NUMBER naming a tensor, NAMES_INVALID for a file without a safe name
 */
export async function modelOfLine(outbox: StoredVersions, lineFile: LineFile): Promise<ModelSource> {
  const { file, where, base, holdBytes } = lineFile;
  if (base === undefined) {
    const first = await modelSourceOfSafetensors(file, where, { holdBytes });
    keptFileOf(first);
    return first;
  }
  const { record } = await outbox.record(base);
  const leaves = await outbox.leaves(record);
  const model =
    record.objects.architecture === undefined
      ? await modelSourceOfSafetensors(file, where, { holdBytes })
      : await withArchitecture(outbox, lineFile, { record, leaves });
  const differences = differencesOf(leaves, model.leaves);
  if (differences.length > 0) throw misfit(lineFile, listed(differences));
  await requireFinite(model, leaves, { objects: outbox.objects, where });
  return model;
}

async function withArchitecture(
  { objects }: StoredVersions,
  lineFile: LineFile,
  { record, leaves }: { readonly record: SaveRecord; readonly leaves: LeafTable },
): Promise<ModelSource> {
  const architecture = decodeArchitecture(
    await objects.read("architecture", record.objects.architecture as Hash),
  );
  const names = decodeNames(await objects.read("names", record.objects.names), leaves.length);
  try {
    return await modelSourceOfSafetensors(lineFile.file, lineFile.where, {
      architecture: { architecture, names },
      holdBytes: lineFile.holdBytes,
    });
  } catch (error) {
    if (!isStemmaError(error, "ARCHITECTURE_MISMATCH")) throw error;
    throw misfit(lineFile, error.message, error);
  }
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
