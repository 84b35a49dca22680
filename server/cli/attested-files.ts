/** The files of an exported model, a file or a folder of files, and how they differ from those that were attested. */
import { opendir } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { StemmaError } from "../../shared/errors.js";
import { fileError } from "../../shared/files/file-error.js";
import { regularFiles } from "../../shared/files/regular-files.js";
import { printable } from "../../shared/printable.js";
import { hashFile } from "../../shared/programs/hash-file.js";
import { aloneName, type AttestedFile } from "../../shared/trust/attestations/statement.js";

/** Files of a folder, at most. */
const maxFiles = 1000;

export interface ExportedFiles {
  /** Absolute path. */
  readonly path: string;
  readonly isFolder: boolean;
  readonly name: string;
  /** The files of the folder; of a file alone, one with the name ".". */
  readonly files: readonly AttestedFile[];
}

/**
 * @param attestation the path of its attestation, which may be in the folder and is not one of its files
 * @throws FILE_MISSING, FILE_NOT_REGULAR, FILE_FAILED
 */
export async function exportedFiles(given: string, attestation: string): Promise<ExportedFiles> {
  const path = resolve(given);
  const found = await regularFiles().stat(path);
  const refuse = (code: "FILE_MISSING" | "FILE_NOT_REGULAR", what: string): StemmaError =>
    new StemmaError(
      code,
      `${given} ${what}. Name what stemma model recover wrote: a file, or a folder of files.`,
      {
        path,
      },
    );
  if (found === undefined) throw refuse("FILE_MISSING", "is not there");
  const exported = { path, name: basename(path), isFolder: found.kind === "folder" };
  if (found.kind === "file") return { ...exported, files: [await attestedFile(path, aloneName)] };
  if (found.kind !== "folder") throw refuse("FILE_NOT_REGULAR", "is neither a file nor a folder");
  const names: string[] = [];
  for await (const entry of await opendir(path)) {
    const shown = printable(entry.name.slice(0, 200));
    if (!entry.isFile()) throw refuse("FILE_NOT_REGULAR", `has ${shown} in it, which is not a file`);
    if (join(path, entry.name) === resolve(attestation)) continue;
    if (names.push(entry.name) > maxFiles)
      throw refuse("FILE_NOT_REGULAR", `has more than ${maxFiles} files`);
  }
  const files: AttestedFile[] = [];
  for (const name of names) files.push(await attestedFile(join(path, name), name));
  return { ...exported, files };
}

/** @throws FILE_MISSING, FILE_FAILED */
async function attestedFile(path: string, name: string): Promise<AttestedFile> {
  try {
    return { name, sha256: await hashFile(path) };
  } catch (error) {
    throw fileError(error, "read", printable(path));
  }
}

/** Says how files differ from those that were attested; undefined where they are the same. Pure. */
export function differenceFrom(
  attested: readonly AttestedFile[],
  found: readonly AttestedFile[],
): string | undefined {
  const hashes = new Map(found.map(({ name, sha256 }) => [name, sha256]));
  for (const { name, sha256 } of attested) {
    const here = hashes.get(name);
    const what = name === aloneName ? "the file" : printable(name.slice(0, 200));
    if (here === undefined) return `${what} was signed, and is not there`;
    if (here !== sha256)
      return `${what} has the SHA-256 ${here.slice(0, 16)}…, and ${sha256.slice(0, 16)}… was signed`;
    hashes.delete(name);
  }
  const [added] = hashes.keys();
  if (added === undefined) return undefined;
  return `${added === aloneName ? "the file" : printable(added.slice(0, 200))} was not signed`;
}
