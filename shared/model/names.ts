/**
 * The names object: what a file or framework called the leaves, its order and metadata. Names are not part of
 * the identity.
 */
import { StemmaError } from "../errors.js";
import { decodeCanonical, encodeCanonical } from "./canonical-json.js";
import type { Names } from "./model.js";

/** A names object may hold one file header verbatim, which has a limit of its own. */
export const maxNamesBytes = 64 * 1024 * 1024;
const limits = { maxBytes: maxNamesBytes, maxDepth: 4 };

function invalid(reason: string): never {
  throw new StemmaError(
    "NAMES_INVALID",
    `This is not a list of a model's names: ${reason}. Fetch it again from where it was saved.`,
  );
}

/** @throws NAMES_INVALID */
export function encodeNames(names: Names): Uint8Array {
  checkNames(names, names.leaves.length);
  return encodeCanonical({ format: 1, ...names }, limits);
}

/** @param leafCount leaves of the tree it belongs to. @throws NAMES_INVALID, CANONICAL_JSON_INVALID */
export function decodeNames(bytes: Uint8Array, leafCount: number): Names {
  const value = decodeCanonical(bytes, limits);
  if (typeof value !== "object" || value === null || Array.isArray(value)) invalid("it is not an object");
  const { format, ...names } = value as Record<string, unknown>;
  if (format !== 1) invalid("its format is not 1");
  return checkNames(names, leafCount);
}

function isTextList(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}
function isIndexList(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((item) => Number.isSafeInteger(item) && (item as number) >= 0);
}

function checkNames(names: object, leafCount: number): Names {
  const { leaves, fileOrder, fileMetadata, fileHeader, layers, frozenLayers, ...rest } = names as Record<
    string,
    unknown
  >;
  if (Object.keys(rest).length > 0)
    invalid(`it has the unknown member ${JSON.stringify(Object.keys(rest)[0])}`);
  if (!isTextList(leaves) || leaves.length !== leafCount) invalid(`it does not name ${leafCount} leaves`);
  if (
    fileOrder !== undefined &&
    !(
      isIndexList(fileOrder) &&
      fileOrder.length === leafCount &&
      new Set(fileOrder).size === leafCount &&
      fileOrder.every((i) => i < leafCount)
    )
  )
    invalid("its file order does not list every leaf once");
  if (
    fileMetadata !== undefined &&
    !(typeof fileMetadata === "object" && fileMetadata !== null && isTextList(Object.values(fileMetadata)))
  )
    invalid("its file metadata are not all texts");
  if (fileHeader !== undefined && typeof fileHeader !== "string") invalid("its file header is not a text");
  if (layers !== undefined && !isTextList(layers)) invalid("its layer names are not all texts");
  if (frozenLayers !== undefined && !isIndexList(frozenLayers)) invalid("its frozen layers are not indices");
  return names as unknown as Names;
}

/** Leaf indices in the order of the file the model came from. */
export function leafOrderOfFile(names: Names): readonly number[] {
  return names.fileOrder ?? names.leaves.map((_, i) => i);
}
