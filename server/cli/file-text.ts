/** Texts about files that are kept as they are. Pure. */
import type { ModelDescription } from "../interface/api/models/version-schemas.js";
import type { ModelDiff } from "../storage/repository/answers/version-answers.js";

/** "model.tflite, a file of 1234 bytes, sha256 …, as stated by who saved it". */
export function fileText({ name, bytes, sha256 }: NonNullable<ModelDescription["file"]>): string {
  return `${name}, a file of ${bytes} bytes, sha256 ${sha256}, as stated by who saved it`;
}

/** "3 of 1234 bytes differ" of two files. */
export function filesText({ a, b, differing }: NonNullable<ModelDiff["files"]>): string {
  const lengths = a === b ? `${a} bytes` : `${a} and ${b} bytes`;
  if (differing === undefined) return `two files of ${lengths}, too large to count what differs`;
  if (differing === 0) return `two files of ${lengths}, the same in all`;
  return `two files of ${lengths}: ${differing === 1 ? "1 byte differs in its place" : `${differing} bytes differ in their places`}`;
}
