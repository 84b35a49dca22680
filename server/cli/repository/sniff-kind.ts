/** Finds out what kind of thing a file of a modeller is, by its name and its first bytes. Pure. */

export const stagedKinds = [
  "model",
  "file",
  "checkpoint",
  "optimizer",
  "network",
  "script",
  "configuration",
  "log",
  "data",
  "note",
] as const;
export type StagedKind = (typeof stagedKinds)[number];

/** Kinds of which a version has one: the model's tensors, or a file that is the model as it is. */
export const modelKinds: ReadonlySet<StagedKind> = new Set<StagedKind>(["model", "file"]);

/** Kinds of files whose bytes are kept with the version. Data are named by their hash: they may be large. */
export const attachedKinds: ReadonlySet<StagedKind> = new Set<StagedKind>([
  ...(["network", "script", "configuration", "log", "note"] as const),
]);

/** Kinds of files that the next version takes over from the one before; a log belongs to one training. */
export const carriedKinds: ReadonlySet<string> = new Set<StagedKind>([
  ...(["network", "script", "configuration", "note"] as const),
]);

/** Bytes that `sniffKind` looks at. */
export const sniffedBytes = 64 * 1024;

const byExtension: Readonly<Record<string, StagedKind>> = {
  ...kinds("script", "py mjs js cjs ts sh bash r lua jl ipynb m cpp cu c"),
  ...kinds("configuration", "yaml yml toml ini cfg conf prototxt json"),
  ...kinds("note", "md txt rst adoc"),
  ...kinds("log", "jsonl ndjson log"),
  ...kinds("data", "csv tsv idx libsvm svm parquet npy tfrecord tfrecords png jpg jpeg"),
};

function kinds(kind: StagedKind, extensions: string): Readonly<Record<string, StagedKind>> {
  return Object.fromEntries(extensions.split(" ").map((extension) => [extension, kind]));
}

/** "checkpoint-200.safetensors", "ckpt_200", "step200": the iteration of a checkpoint. */
export function iterationInName(name: string): number | undefined {
  const [, digits] = /(?:checkpoint|ckpt|step|iter|iteration|after)[-_.]?(\d{1,15})(?!\d)/i.exec(name) ?? [];
  return digits === undefined ? undefined : Number(digits);
}

/**
 * @param name of the file, without its folder
 * @param first its first bytes
 * @returns undefined where neither says what it is
 */
export function sniffKind(name: string, first: Buffer): StagedKind | undefined {
  if (
    isSafetensors(first) ||
    isTorch(first) ||
    isKeras(first) ||
    /\.safetensors(\.index\.json)?$/i.test(name)
  ) {
    if (/optimi[sz]er/i.test(name)) return "optimizer";
    return iterationInName(name) === undefined ? "model" : "checkpoint";
  }
  if (/\.tfevents\./.test(name)) return "log";
  const text = first.toString("utf8");
  const extension = /\.([^.]+)$/.exec(name)?.[1]?.toLowerCase() ?? "";
  if (extension === "json" && /"(modelTopology|class_name)"\s*:/.test(text)) return "network";
  if (["csv", "tsv", "log", "txt"].includes(extension) && isLogHeader(text)) return "log";
  return byExtension[extension] ?? (text.startsWith("#!") ? "script" : undefined);
}

/** The length of the header, then its JSON. */
function isSafetensors(first: Buffer): boolean {
  if (first.length < 9 || first[8] !== 0x7b) return false;
  const length = first.readBigUInt64LE(0);
  return length > 1n && length <= 100_000_000n;
}

/** An archive that Keras wrote, or an HDF5 file, which may have a model; one of samples is added with `--as data`. */
function isKeras(first: Buffer): boolean {
  const name = isArchive(first) ? nameOfFirst(first) : "";
  return (
    ["metadata.json", "config.json"].includes(name) || first.toString("latin1", 0, 8) === "\x89HDF\r\n\x1a\n"
  );
}

/** An archive whose first entry is a state dict's description. */
function isTorch(first: Buffer): boolean {
  return isArchive(first) && nameOfFirst(first).endsWith("/data.pkl");
}

function isArchive(first: Buffer): boolean {
  return first.length >= 30 && first.readUInt32LE(0) === 0x04034b50;
}

function nameOfFirst(first: Buffer): string {
  return first.toString("latin1", 30, 30 + first.readUInt16LE(26));
}

/** A line that names columns of a training's course, as Keras's CSVLogger and Lightning's write it. */
function isLogHeader(text: string): boolean {
  const [line = ""] = text.split("\n", 1);
  const names = line.split(/[,;\t]/).map((each) => each.trim().replaceAll('"', "").toLowerCase());
  return names.length > 1 && names.some((each) => /^(epoch|step|iteration|iter|global_step)$/.test(each));
}
