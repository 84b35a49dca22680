/** Files in a folder for each class, as data sets of pictures and texts are handed on. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { StemmaError } from "../../errors.js";
import { classesAlike } from "./csv-columns.js";
import { maxSamples, type DatasetFiles } from "./dataset.js";

/** A file of a class. */
export interface ClassFile {
  /** The path "CLASS/NAME". */
  readonly path: string;
  /** Index of its class. */
  readonly label: number;
}

export interface ClassFolders {
  readonly classes: readonly string[];
  /** The files by class, then by name. */
  readonly files: readonly ClassFile[];
}

const maxClasses = 10_000;
const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

interface FolderOptions {
  readonly reader: string;
  /** Names of the folders in the order of their class numbers; all, sorted, where undefined. */
  readonly classNames: readonly string[] | undefined;
  /** True for files that are samples; others are an error, but for hidden ones. */
  readonly fits: (name: string) => boolean;
}

/**
 * Lists the files of a folder that has a folder for each class. Names are compared as sequences of UTF-16 units, which
 * is the same everywhere.
 * @throws DATASET_MALFORMED, DATASET_EMPTY, RECIPE_PARAMETERS_INVALID
 */
export async function listClassFolders(
  folder: string,
  files: DatasetFiles,
  { reader, classNames, fits }: FolderOptions,
): Promise<ClassFolders> {
  const isHidden = (name: string): boolean => name.startsWith(".");
  const classes = classNames ?? (await files.list(folder)).filter((name) => !isHidden(name)).sort(byText);
  if (classes.length < 2 || classes.length > maxClasses)
    throw new StemmaError(
      "DATASET_MALFORMED",
      `${folder} has ${classes.length} folders of classes, and 2 to ${maxClasses} are needed. Put the files of each ` +
        `class into a folder of its own (reader ${reader}).`,
      { folder },
    );
  const alike = classNames === undefined ? classesAlike(classes) : undefined;
  if (alike !== undefined)
    throw new StemmaError(
      "DATASET_MALFORMED",
      `${folder} has the folders ${alike.map((name) => JSON.stringify(name.slice(0, 60))).join(" and ")}, which differ ` +
        "only in white space, letter case or invisible characters. Put their files into one, or name both (classNames).",
      { folder },
    );
  const found: ClassFile[] = [];
  for (const [label, name] of classes.entries()) {
    const path = join(folder, name);
    if ((await files.stat(path))?.kind !== "folder")
      throw new StemmaError(
        "DATASET_MALFORMED",
        `${path} is not a folder of a class. Move it, or name the classes (classNames).`,
        { path },
      );
    for (const file of (await files.list(path)).filter((each) => !isHidden(each)).sort(byText)) {
      if (!fits(file))
        throw new StemmaError(
          "DATASET_MALFORMED",
          `${join(path, file)} is not a file that the reader ${reader} reads. Remove it from the folder.`,
          { path: join(path, file) },
        );
      found.push({ path: `${name}/${file}`, label });
      if (found.length > maxSamples)
        throw new StemmaError(
          "DATASET_MALFORMED",
          `${folder} has more than ${maxSamples} files. Divide it.`,
          { folder },
        );
    }
  }
  if (found.length === 0)
    throw new StemmaError("DATASET_EMPTY", `${folder} has no files. Choose a folder with samples.`, {
      folder,
    });
  return { classes, files: found };
}

/** Reads a file of at most so many bytes. @throws DATASET_MALFORMED, FILE_MISSING */
export async function readBounded(path: string, files: DatasetFiles, maxBytes: number): Promise<Uint8Array> {
  const size = (await files.stat(path))?.size ?? 0;
  if (size > maxBytes)
    throw new StemmaError(
      "DATASET_MALFORMED",
      `${path} has ${size} bytes, and at most ${maxBytes} are read. Make it smaller, or remove it.`,
      { path },
    );
  return files.read(path);
}

/** One hash over the paths and contents of many files, for the record. */
export class FilesHash {
  readonly #hash = createHash("sha256");
  #count = 0;
  #bytes = 0;

  add(path: string, bytes: Uint8Array): void {
    this.#hash.update(`${path}\0${createHash("sha256").update(bytes).digest("hex")}\n`);
    this.#count++;
    this.#bytes += bytes.length;
  }

  summary(): Readonly<Record<string, unknown>> {
    return { files: this.#count, bytes: this.#bytes, sha256: this.#hash.digest("hex") };
  }
}
