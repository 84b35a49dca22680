/**
 * A file that is kept as it is: a model whose only tensor has the file's bytes, so that whatever stores, sends,
 * releases and recovers models does so with any file. Pure.
 */
import { StemmaError } from "../errors.js";
import { isHash } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import type { Leaf, Names } from "./model.js";

/** The path of the tensor, U8 [bytes], and the key of the file's name among the model's metadata. */
export const keptFileKey = "stemma.file";
/** Key of the file's SHA-256 among the metadata. */
const sha256Key = "stemma.file.sha256";

export interface KeptFile {
  readonly name: string;
  readonly byteLength: number;
  /** The hash that who saved it stated; compared whenever the file is recovered. */
  readonly sha256: Hash;
}

const maxNameLength = 100;
const plainName = /^[A-Za-z0-9_][A-Za-z0-9._+-]*$/;
/** Names that a model's folder on a device, or the folder that a trainer leaves, has for something else. */
const takenNames: ReadonlySet<string> = new Set([
  ...["manifest.json", "model.safetensors", "architecture.json", "names.json", "pipeline.json"],
  ...["optimizer.safetensors", "metrics.json", "measurement.json", "predictions.safetensors", "attachments"],
]);

/** Returns why a file may not have this name, as a part of a sentence; undefined where it may. */
function problemOfName(name: string): string | undefined {
  if (name.length > maxNameLength) return `has ${name.length} characters, more than ${maxNameLength}`;
  if (!plainName.test(name))
    return "has others than letters, digits, `.`, `_`, `-` and `+`, or begins with `.`, `-` or `+`";
  return takenNames.has(name.toLowerCase()) ? "is that of another file in a model's folder" : undefined;
}

/** True for a name that a file may have in every folder of a model. */
export function isKeptFileName(name: string): boolean {
  return problemOfName(name) === undefined;
}

/** @throws NAME_INVALID for a name that a device could not give the file in every folder */
export function requireKeptFileName(name: string): void {
  const problem = problemOfName(name);
  if (problem === undefined) return;
  throw new StemmaError(
    "NAME_INVALID",
    `The name ${JSON.stringify(name.slice(0, 80))} of a file to be kept as it is ${problem}. Rename the file.`,
  );
}

/** True for the tensors of a file that is kept as it is. */
export function isKeptFile(leaves: readonly Pick<Leaf, "path" | "dtype" | "shape">[]): boolean {
  const [leaf] = leaves;
  return leaves.length === 1 && leaf?.path === keptFileKey && leaf.dtype === "U8" && leaf.shape.length === 1;
}

/** The metadata of the model of a file. */
export function metadataOfKeptFile({ name, sha256 }: Omit<KeptFile, "byteLength">): Record<string, string> {
  return { [keptFileKey]: name, [sha256Key]: sha256 };
}

/**
 * The file that a model is; undefined for a model of tensors.
 * @throws NAMES_INVALID where it states no name that every folder can have, or no SHA-256: nothing is written then
 */
export function keptFileOf({
  leaves,
  names: { fileMetadata = {} },
}: {
  readonly leaves: readonly Pick<Leaf, "path" | "dtype" | "shape">[];
  readonly names: Pick<Names, "fileMetadata">;
}): KeptFile | undefined {
  if (!isKeptFile(leaves)) return undefined;
  const name = Object.hasOwn(fileMetadata, keptFileKey) ? fileMetadata[keptFileKey] : undefined;
  const sha256 = Object.hasOwn(fileMetadata, sha256Key) ? fileMetadata[sha256Key] : undefined;
  const problem = name === undefined ? "is missing" : problemOfName(name);
  if (problem !== undefined || name === undefined || !isHash(sha256))
    throw new StemmaError(
      "NAMES_INVALID",
      `This model is a file, whose ${problem === undefined ? "SHA-256 is missing" : `name ${problem}`}, so it is not ` +
        "written anywhere. Look where it comes from; save the file again with `--as file`.",
    );
  return { name, byteLength: leaves[0]?.shape[0] ?? 0, sha256 };
}

/** The ending of a file's name in lower case, with its dot; "" for none. */
export function endingOf(name: string): string {
  return /\.[A-Za-z0-9_+-]+$/.exec(name)?.[0].toLowerCase() ?? "";
}
