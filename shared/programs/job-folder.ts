/**
 * Prepares the folder that a trainer or a measurement program works in (docs/own-models.md). It has
 * read-only copies of base and samples and the job as JSON, and an empty folder for what it leaves.
 *
 *     <work>/input/job.json
 *     <work>/input/base/           model.safetensors, architecture.json, names.json and original.safetensors
 *     <work>/input/samples/        train.safetensors, validation.safetensors, held-out.safetensors
 *     <work>/output-<random>/      its current directory: model.safetensors, metrics.json, attachments/
 *     <work>/scratch/              its HOME and TMPDIR, which a short link may name
 *     <work>/program/              its own files, where they are recorded
 *     <work>/process.json          the process, so that one whose agent was killed is ended
 */
import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { chmod, copyFile, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileError, systemCode } from "../files/file-error.js";
import { requireKeptFileName } from "../model/kept-file.js";
import type { Files, Random } from "../ports.js";
import { safetensorsChunks, type NamedSource } from "../tensor/safetensors.js";
import { sourceOfTensor, type Hash } from "../tensor/tensor.js";
import type { SamplePart, SampleSet } from "../train/datasets/dataset.js";
import { loadDataset } from "../train/datasets/registry.js";
import type { DatasetReference } from "../train/training.js";
import { originalFileName, type SlotFile } from "../layouts/slot-files.js";
import type { Scalar } from "../provenance/provenance.js";

/** The limits of a program. */
export interface JobLimits {
  /** A hint to the program, as `threads` is. */
  readonly memoryLimitMb: number;
  readonly threads: number;
  readonly timeoutSeconds: number;
  readonly maxOutputBytes: number;
}

/** The part of a job that does not depend on the machine. */
export interface StatedJob extends JobLimits {
  readonly line: string;
  readonly invocation: number;
  readonly seed: string;
  readonly parameters: Readonly<Record<string, Scalar>>;
}

export interface ExternalJob extends StatedJob {
  /** `versionId` null: a derived model that is not a version yet. */
  readonly base: { readonly versionId: Hash | null; readonly folder: string };
  /** undefined: the trainer gets no samples. */
  readonly dataset: DatasetReference | undefined;
}

export interface JobFolders {
  readonly input: string;
  readonly output: string;
  readonly scratch: string;
  /** The program's own files, where they are recorded: it runs from a copy of them. */
  readonly program: string;
}

/** The samples that the trainer got, for the provenance. */
export interface GivenSamples {
  readonly hash: Hash;
  readonly train: number;
  readonly validation: number;
  readonly heldOut: number;
}

/** The form of samples, as the job describes it. */
export type SampleForm = Pick<SampleSet, "task" | "inputShape" | "targetSize" | "classes">;

const readOnly = 0o400;
const baseFiles = ["model.safetensors", "architecture.json", "names.json", originalFileName];
const maxManifestBytes = 1024 * 1024;
const parts = [
  ["train", "train"],
  ["validation", "validation"],
  ["heldOut", "held-out"],
] as const;

/**
 * Prepares a try of a training.
 * @throws the readers' errors (DATASET_EMPTY, DATASET_MALFORMED), DISK_FULL, FILE_FAILED
 */
export async function prepareJobFolder(
  workFolder: string,
  job: ExternalJob,
  { files, random }: { readonly files: Files; readonly random: Random },
): Promise<{
  readonly folders: JobFolders;
  readonly samples: GivenSamples | undefined;
  /** SHA-256 of job.json. */
  readonly jobHash: string;
}> {
  try {
    const folders = await makeJobFolders(workFolder, random, ["base", "samples"]);
    const base = await copyModel(job.base.folder, folders, "base");
    const loaded = job.dataset === undefined ? undefined : await loadDataset(job.dataset, files);
    const samples = loaded === undefined ? null : await writeSamples(files, folders, loaded.set);
    const jobHash = await writeTrainerJob(folders, job, {
      base: { versionId: job.base.versionId, ...base },
      samples,
    });
    return {
      folders,
      jobHash,
      samples:
        loaded === undefined
          ? undefined
          : {
              hash: loaded.hash,
              train: loaded.set.train.count,
              validation: loaded.set.validation.count,
              heldOut: loaded.set.heldOut.count,
            },
    };
  } catch (error) {
    throw fileError(error, "prepare", workFolder);
  }
}

/**
 * Makes the folders of a try. The output has a new name each time: a process that an earlier try left cannot write
 * there.
 * @param inputs folders below the input
 */
export async function makeJobFolders(
  workFolder: string,
  random: Random,
  inputs: readonly string[],
): Promise<JobFolders> {
  const folders = {
    input: join(workFolder, "input"),
    output: join(workFolder, `output-${Buffer.from(random.bytes(8)).toString("hex")}`),
    scratch: join(workFolder, "scratch"),
    program: join(workFolder, "program"),
  };
  await rm(workFolder, { recursive: true, force: true });
  for (const folder of [folders.output, folders.scratch, ...inputs.map((name) => join(folders.input, name))])
    await mkdir(folder, { recursive: true, mode: 0o700 });
  return folders;
}

/**
 * Copies an installed version into a folder below the input: its slot must never change. The file system shares the
 * bytes where it can.
 * @returns `model`, and `architecture`, `names` and `original` where it has them: paths below the input
 */
export async function copyModel(
  from: string,
  { input }: JobFolders,
  folder: string,
): Promise<Record<string, string>> {
  const to = join(input, folder);
  const present = new Set(await readdir(from));
  const kept = await keptNameIn(from);
  const paths: Record<string, string> = {};
  for (const name of kept === undefined ? baseFiles.filter((each) => present.has(each)) : [kept]) {
    await copyFile(join(from, name), join(to, name), constants.COPYFILE_FICLONE);
    await chmod(join(to, name), readOnly);
    paths[memberOf(name, kept)] = `${folder}/${name}`;
  }
  return paths;
}

/** Bytes that an installed version has besides its tensors' own: those of its file in the layout that it came in. */
export async function originalBytesIn(folder: string): Promise<number> {
  const found = await stat(join(folder, originalFileName)).catch((error: unknown) => {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  });
  return (await keptNameIn(folder)) === undefined ? (found?.size ?? 0) : 0;
}

/**
 * Name of the file that an installed version is, where it is one that is kept as it is; a folder without a manifest has
 * none.
 * @throws NAME_INVALID where the manifest was changed into one that leads out of its folder
 */
export async function keptNameIn(folder: string): Promise<string | undefined> {
  const path = join(folder, "manifest.json");
  const found = await stat(path).catch((error: unknown) => {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  });
  if (found === undefined || found.size > maxManifestBytes) return undefined;
  const { file } = JSON.parse(await readFile(path, "utf8")) as { readonly file?: unknown };
  if (typeof file !== "string") return undefined;
  requireKeptFileName(file);
  return file;
}

/** Member of a job that names a file of the base; `model` for a file that is kept as it is, whatever it is called. */
function memberOf(name: string, kept: string | undefined): string {
  return name === kept ? "model" : name.slice(0, name.indexOf("."));
}

/** Writes the parts of samples that it is given, and returns their description for the job. */
export async function writeSamples(
  files: Files,
  { input }: JobFolders,
  set: SampleForm & Partial<Pick<SampleSet, "train" | "validation" | "heldOut">>,
): Promise<object> {
  const { task, inputShape, targetSize, classes } = set;
  const described: Record<string, object> = {};
  for (const [member, name] of parts) {
    const part = set[member];
    if (part === undefined) continue;
    // A file of safetensors has no place for a tensor without elements.
    if (part.count > 0) await writePart(files, join(input, "samples", `${name}.safetensors`), { set, part });
    described[member] = {
      count: part.count,
      file: part.count > 0 ? `samples/${name}.safetensors` : null,
    };
  }
  return { task, inputShape, targetSize, classes, ...described };
}

async function writePart(
  files: Files,
  path: string,
  { set, part }: { readonly set: SampleForm; readonly part: SamplePart },
): Promise<void> {
  const { count, inputs, targets, weights } = part;
  const tensors: readonly NamedSource[] = [
    { name: "inputs", source: floats([count, ...set.inputShape], inputs) },
    { name: "targets", source: floats([count, set.targetSize], targets) },
    ...(weights === undefined ? [] : [{ name: "weights", source: floats([count], weights) }]),
  ];
  await writeInput(files, path, safetensorsChunks(tensors));
}

/** Writes a file that the program reads and does not change. */
async function writeInput(
  files: Files,
  path: string,
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): Promise<void> {
  const file = await files.open(path, "create");
  try {
    let position = 0;
    for await (const chunk of chunks) {
      await file.write(chunk, position);
      position += chunk.length;
    }
  } finally {
    await file.close();
  }
  await chmod(path, readOnly);
}

/** Writes a recovered base as a device installs it; returns its paths as `copyModel` does. */
export async function writeBase(
  files: Files,
  { input }: Pick<JobFolders, "input">,
  slot: readonly SlotFile[],
): Promise<Record<string, string>> {
  const paths: Record<string, string> = {};
  for (const { name, chunks, isKept } of slot) {
    await writeInput(files, join(input, "base", name), chunks);
    paths[memberOf(name, isKept === true ? name : undefined)] = `base/${name}`;
  }
  return paths;
}

function floats(shape: readonly number[], values: Float32Array): NamedSource["source"] {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return sourceOfTensor({ dtype: "F32", shape, bytes });
}

/** Writes the job of a trainer, the same bytes on a device and in a replay; returns their SHA-256. */
export async function writeTrainerJob(
  folders: JobFolders,
  job: StatedJob,
  { base, samples }: { readonly base: object; readonly samples: object | null },
): Promise<string> {
  const { line, invocation, seed, parameters, memoryLimitMb, threads, timeoutSeconds, maxOutputBytes } = job;
  const sorted = Object.entries(parameters).sort(([a], [b]) => (a < b ? -1 : 1));
  return await writeJob(folders, {
    format: 1,
    line,
    invocation,
    seed,
    parameters: Object.fromEntries(sorted),
    base,
    samples,
    memoryLimitMb,
    threads,
    timeoutSeconds,
    maxOutputBytes,
  });
}

/** Writes what is asked of the program; returns the SHA-256 of the file. */
export async function writeJob({ input }: JobFolders, job: object): Promise<string> {
  const text = `${JSON.stringify(job, null, 2)}\n`;
  await writeFile(join(input, "job.json"), text, { mode: readOnly });
  return createHash("sha256").update(text).digest("hex");
}
