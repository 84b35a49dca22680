/** The files that data were read from, as their registration keeps them, and in what they differ later. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { isUrl } from "../../../shared/data/data-url.js";
import type { RawFiles } from "../../../shared/journal/facts/fleet-facts.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import type { DatasetSummary } from "../../interface/api/models/dataset-schemas.js";
import { isGenerator } from "../../../shared/train/datasets/registry.js";
import type { DatasetReference } from "../../../shared/train/training.js";
import { checkDatasetAt, type CheckedDataset } from "../context/check-dataset.js";
import { withPlacedData } from "./place-data.js";

interface Registered {
  readonly kind: string;
  readonly location: string;
  readonly parameters: DatasetReference["parameters"];
}

export interface ReadFiles extends CheckedDataset {
  /** The files that the samples were read from; undefined where a reader makes them. */
  readonly files?: RawFiles;
}

/** Reads data with the files that they are in. @throws the errors of reading the data */
export async function readWithFiles(dataset: Registered, workFolder: string): Promise<ReadFiles> {
  return await withPlacedData(dataset, workFolder, async (placed) => {
    const found = await checkDatasetAt(placed);
    if (placed.location === "" || isGenerator(placed.kind)) return found;
    const { modifiedAtMs, ...files } = await filesAt(placed.location, found.description["sources"]);
    // A file that was fetched is as old as the request.
    return { ...found, files: isUrl(dataset.location) ? files : { ...files, modifiedAtMs } };
  });
}

/** @param sources files that the reader hashed itself; else all files at the location are read once more */
async function filesAt(location: string, sources: unknown): Promise<Required<RawFiles>> {
  const paths = await pathsBelow(location);
  let bytes = 0;
  let modifiedAtMs = 0;
  for (const path of paths) {
    const { size, mtimeMs } = await stat(path);
    bytes += size;
    modifiedAtMs = Math.max(modifiedAtMs, Math.floor(mtimeMs));
  }
  const [only, ...others] = (Array.isArray(sources) ? sources : []) as readonly Source[];
  if (typeof only?.sha256 !== "string")
    return { count: paths.length, bytes, sha256: await hashOf(location, paths), modifiedAtMs };
  if (others.length === 0)
    return { count: only.files ?? 1, bytes: only.bytes ?? bytes, sha256: only.sha256, modifiedAtMs };
  const all = [only, ...others];
  const list = all.map(({ sha256 = "", file = "" }) => `${sha256}  ${file}\n`).join("");
  const hash = createHash("sha256").update(list).digest("hex");
  const total = all.reduce((sum, source) => sum + (source.bytes ?? 0), 0);
  return { count: all.length, bytes: total, sha256: hash, modifiedAtMs };
}

interface Source {
  readonly file?: string;
  readonly files?: number;
  readonly bytes?: number;
  readonly sha256?: string;
}

/** The file itself; of a folder its files and those of its folders, sorted. */
async function pathsBelow(location: string): Promise<readonly string[]> {
  if (!(await stat(location)).isDirectory()) return [location];
  const paths: string[] = [];
  for (const entry of await readdir(location, { withFileTypes: true })) {
    const path = join(location, entry.name);
    if (entry.isFile()) paths.push(path);
    else if (entry.isDirectory())
      for (const inner of await readdir(path, { withFileTypes: true }))
        if (inner.isFile()) paths.push(join(path, inner.name));
  }
  return paths.sort();
}

/** SHA-256 of one file; of several that of the lines that `sha256sum` writes of them in their folder. */
async function hashOf(location: string, paths: readonly string[]): Promise<string> {
  const lines: string[] = [];
  for (const path of paths) {
    const hash = createHash("sha256");
    await pipeline(createReadStream(path), hash);
    const digest = hash.digest("hex");
    if (path === location) return digest;
    lines.push(`${digest}  ${path.slice(location.length + 1)}\n`);
  }
  return createHash("sha256").update(lines.join("")).digest("hex");
}

/** Says in what files differ from those that were registered, where reader and parameters are the registered ones. */
export function fileChange(
  registered: RawFiles | undefined,
  now: RawFiles | undefined,
  isSameSamples: boolean,
): string {
  if (registered === undefined || now === undefined) return "";
  if (registered.sha256 !== now.sha256)
    return (
      `The files have other bytes${isSameSamples ? ", which give the same samples" : ""}: ${fileText(now)}; ` +
      `registered were ${fileText(registered)}.`
    );
  if (!isSameSamples)
    return "The files have the registered bytes, and the settings are the registered ones: this build's engine reads them otherwise.";
  return registered.modifiedAtMs === now.modifiedAtMs
    ? ""
    : "The files have another time of change, and the same bytes.";
}

function fileText({ count, bytes, sha256, modifiedAtMs }: RawFiles): string {
  const changed = modifiedAtMs === undefined ? "" : `, of ${new Date(modifiedAtMs).toISOString()}`;
  return `${count === 1 ? "" : `${count} files, `}${bytes} bytes, SHA-256 ${sha256.slice(0, 16)}${changed}`;
}

/** The sentence for registered data whose samples are others now. */
export function changedText(
  { name, location, hash: registered, files: before }: DatasetSummary,
  { hash, files }: { readonly hash: string; readonly files?: RawFiles | undefined },
): string {
  const why = fileChange(before, files, false);
  const isSameFile = before !== undefined && before.sha256 === files?.sha256;
  return (
    `The samples of ${name} at ${location} are not the registered ones: their hash is ${hash.slice(0, 16)}, and ` +
    `${registered?.slice(0, 16) ?? "-"} was registered. ${why === "" ? "" : `${why} `}` +
    (isSameFile ? "Register" : "Restore the files to repeat earlier trainings, or register") +
    " them under a new name with `stemma data add`."
  );
}

/**
 * Reads data again whose samples an engine refused, and says what changed of them; any other error stays as it is.
 * @throws the error itself, or DATASET_MALFORMED with what differs
 */
export async function explainRefusedData(
  error: unknown,
  dataset: DatasetSummary | undefined,
  workFolder: string,
): Promise<never> {
  if (
    dataset === undefined ||
    !isStemmaError(error, "DATASET_MALFORMED") ||
    error.details["expected"] !== dataset.hash
  )
    throw error;
  const found = await readWithFiles(dataset, workFolder).catch(() => undefined);
  if (found === undefined || found.hash === dataset.hash) throw error;
  throw new StemmaError("DATASET_MALFORMED", changedText(dataset, found), {
    expected: dataset.hash,
    actual: found.hash,
    cause: error,
  });
}
