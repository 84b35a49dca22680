/** Finds by looking how data are read, where nobody says it. What is not clear is refused, with what it could be. */
import { open, readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { gunzipSync } from "node:zlib";
import { isUrl } from "../../../shared/data/data-url.js";
import { StemmaError } from "../../../shared/errors.js";
import { requireRegular } from "../../../shared/files/not-regular.js";
import { kindUnclear, unreadable } from "./data-errors.js";

const headBytes = 64 * 1024;
const maxLooked = 200;
const canonicalMagic = /^stemma-dataset-[123]\0/;

/** True for a file in canonical form, as `stemma data fetch` writes it; false also where nothing can be read. */
export async function isCanonicalFile(path: string): Promise<boolean> {
  return canonicalMagic.test((await headOf(path).catch(() => Buffer.alloc(0))).toString("latin1", 0, 32));
}

/**
 * Returns the reader's name.
 * @throws DATASET_KIND_UNCLEAR naming the readers that it could be, and what to write; FILE_MISSING
 */
export async function kindOfData(location: string): Promise<string> {
  if (location === "" || isUrl(location))
    throw kindUnclear(
      location === "" ? "-" : location,
      location === "" ? ["battery-simulated", "images-generated"] : ["csv", "libsvm", "samples", "canonical"],
    );
  try {
    return (await stat(location)).isDirectory() ? await kindOfFolder(location) : await kindOfFile(location);
  } catch (cause) {
    if (cause instanceof StemmaError) throw cause;
    throw unreadable(location, cause);
  }
}

/** @throws FILE_NOT_REGULAR for a pipe, which would make the reader wait for ever */
async function headOf(path: string): Promise<Buffer> {
  requireRegular(await stat(path), path);
  const file = await open(path, "r");
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(headBytes), 0, headBytes, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

/** The forms of files that are told by their first bytes. */
function formOf(head: Buffer): "canonical" | "sqlite" | "idx" | "gzip" | "picture" | "other" | "text" {
  const start = head.toString("latin1", 0, 32);
  if (canonicalMagic.test(start)) return "canonical";
  if (start.startsWith("SQLite format 3\0")) return "sqlite";
  if (/^\0\0[\x08\x09\x0b-\x0e][\x01-\x08]/.test(start)) return "idx";
  if (start.startsWith("\x1f\x8b")) return "gzip";
  if (start.startsWith("\x89PNG\r\n") || start.startsWith("\xff\xd8\xff")) return "picture";
  return head.includes(0) || !isText(head) ? "other" : "text";
}

/** True for UTF-8, of which the last character may be cut off. */
function isText(head: Buffer): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(head, { stream: true });
    return true;
  } catch {
    return false;
  }
}

async function kindOfFile(path: string): Promise<string> {
  if (path.endsWith(".samples") || path.endsWith(".jsonl")) return "samples";
  const head = await headOf(path);
  switch (formOf(head)) {
    case "canonical":
      return "canonical";
    case "sqlite":
      throw kindUnclear(path, ["sql"], 'It is a SQLite file: --kind sql --query "SELECT …"');
    case "idx":
    case "gzip":
      throw kindUnclear(path, ["idx"], "Name its folder: --kind idx --set inputs=FILE --set labels=FILE");
    case "picture":
      throw kindUnclear(path, ["image-folder"], "Name a folder that has a folder of pictures for each class");
    case "other":
      throw kindUnclear(path, [], "Write them as CSV, LIBSVM, IDX, JSON lines, pictures or texts");
    case "text":
      return kindOfText(path, head);
  }
}

function kindOfText(path: string, head: Buffer): string {
  const text = head.toString("utf8").replace(/^\ufeff/, "");
  const whole = head.length < headBytes ? text : text.slice(0, text.lastIndexOf("\n"));
  const lines = whole
    .split(/\r?\n/)
    .filter((line) => line.trim() !== "")
    .slice(0, maxLooked);
  const [first = ""] = lines;
  if (first.startsWith("{")) return "samples";
  const svm = lines.filter((line) => /^\s*(#|\S+(\s+\d+:\S+)*\s*(#.*)?$)/.test(line) && /\d:|#/.test(line));
  const isSvm = svm.length === lines.length && lines.some((line) => /\s\d+:/.test(line));
  const isTable = (separator: string): boolean =>
    first.includes(separator) && lines.every((line) => line.includes(separator));
  if (isSvm) {
    if (isTable(",")) throw kindUnclear(path, ["libsvm", "csv"]);
    return "libsvm";
  }
  const other = isTable(";") ? "semicolon" : isTable("\t") ? "tab" : undefined;
  if (other !== undefined) {
    const separator = other === "tab" ? "\t" : ";";
    const fields = lines.slice(1).flatMap((line) => line.split(separator));
    const hasComma = fields.some((field) => /^\s*"?-?\d+,\d+"?\s*$/.test(field));
    // A comma in every line may also be the one between fields.
    throw kindUnclear(
      path,
      ["csv"],
      `Every line has a ${other}: --kind csv --set delimiter=${other}${hasComma ? " --set decimal=comma" : ""}` +
        (isTable(",") && !hasComma ? "; or, where commas part the fields, --kind csv" : ""),
    );
  }
  if (isTable(",")) return "csv";
  throw kindUnclear(
    path,
    ["csv", "libsvm", "samples"],
    "It is a text. Name one: --kind csv for a table of one column",
  );
}

async function kindOfFolder(folder: string): Promise<string> {
  const entries = (await readdir(folder, { withFileTypes: true })).filter(
    ({ name }) => !name.startsWith("."),
  );
  const files = entries.filter((each) => each.isFile()).map(({ name }) => name);
  const folders = entries.filter((each) => each.isDirectory()).map(({ name }) => name);
  const kinds = new Set<string>();
  if (files.some((name) => /\.(samples|jsonl)$/.test(name))) kinds.add("samples");
  if (files.some((name) => /^B\d{4}\.csv$/.test(name))) kinds.add("nasa-battery");
  for (const name of files.slice(0, maxLooked)) if (await isIdx(join(folder, name))) kinds.add("idx");
  if (files.includes("t10k-images-idx3-ubyte.gz") && files.includes("t10k-labels-idx1-ubyte.gz"))
    kinds.add("mnist");
  if (files.length === 0)
    for (const name of folders.slice(0, maxLooked))
      for (const kind of await kindsInClass(join(folder, name))) kinds.add(kind);
  const [only, ...others] = kinds;
  if (only !== undefined && others.length === 0) return only;
  const [table] = files.filter((name) => /\.(csv|tsv|svm|libsvm|txt)$/.test(name));
  throw kindUnclear(
    folder,
    [...kinds],
    kinds.size === 0 && table !== undefined ? `Name one file, such as ${join(folder, basename(table))}` : "",
  );
}

async function isIdx(path: string): Promise<boolean> {
  const head = await headOf(path);
  const form = formOf(head);
  if (form !== "gzip") return form === "idx";
  try {
    // The end is missing where the file is longer than what was read.
    return formOf(gunzipSync(head, { finishFlush: 2, maxOutputLength: 2 ** 26 })) === "idx";
  } catch {
    return false;
  }
}

/** The readers that take the first files of a class's folder. */
async function kindsInClass(folder: string): Promise<ReadonlySet<string>> {
  const kinds = new Set<string>();
  const entries = (await readdir(folder, { withFileTypes: true })).filter(
    (each) => each.isFile() && !each.name.startsWith("."),
  );
  for (const { name } of entries.slice(0, 5)) {
    const form = formOf(await headOf(join(folder, name)));
    if (form === "picture") kinds.add("image-folder");
    if (form === "text") kinds.add("text-folder");
  }
  return kinds;
}
