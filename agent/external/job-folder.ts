/**
 * Prepares the folder that an external trainer works in (docs/own-models.md, "An external trainer"). It has
 * read-only copies of base and samples and the job as JSON, and an empty folder for what it leaves.
 *
 *     <work>/input/job.json
 *     <work>/input/base/           model.safetensors, architecture.json and names.json
 *     <work>/input/samples/        train.safetensors, validation.safetensors, held-out.safetensors
 *     <work>/output-<random>/      its current directory: model.safetensors, metrics.json, attachments/
 *     <work>/scratch/              its HOME and TMPDIR
 *     <work>/process.json          the process, so that one whose agent was killed is ended
 */
import { constants } from "node:fs";
import { chmod, copyFile, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileError } from "../../shared/files/file-error.js";
import type { Files, Random } from "../../shared/ports.js";
import { safetensorsChunks, type NamedSource } from "../../shared/tensor/safetensors.js";
import { sourceOfTensor, type Hash } from "../../shared/tensor/tensor.js";
import type { SamplePart, SampleSet } from "../../shared/train/datasets/dataset.js";
import { loadDataset } from "../../shared/train/datasets/registry.js";
import type { DatasetReference } from "../../shared/train/training.js";
import type { TrainerParameters } from "../settings/external-trainer.js";

/** The limits of a program. */
export interface JobLimits {
  /** A hint to the program, as `threads` is. */
  readonly memoryLimitMb: number;
  readonly threads: number;
  readonly timeoutSeconds: number;
  readonly maxOutputBytes: number;
}

export interface ExternalJob extends JobLimits {
  readonly line: string;
  readonly invocation: number;
  readonly seed: string;
  readonly parameters: TrainerParameters;
  readonly base: { readonly versionId: Hash; readonly folder: string };
  /** undefined: the trainer gets no samples. */
  readonly dataset: DatasetReference | undefined;
}

export interface JobFolders {
  readonly input: string;
  readonly output: string;
  readonly scratch: string;
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
const baseFiles = ["model.safetensors", "architecture.json", "names.json"];
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
): Promise<{ readonly folders: JobFolders; readonly samples: GivenSamples | undefined }> {
  try {
    const folders = await makeJobFolders(workFolder, random, ["base", "samples"]);
    const base = await copyModel(job.base.folder, folders, "base");
    const loaded = job.dataset === undefined ? undefined : await loadDataset(job.dataset, files);
    const samples = loaded === undefined ? null : await writeSamples(files, folders, loaded.set);
    const { line, invocation, seed, parameters, memoryLimitMb, threads, timeoutSeconds, maxOutputBytes } =
      job;
    await writeJob(folders, {
      format: 1,
      line,
      invocation,
      seed,
      parameters,
      base: { versionId: job.base.versionId, ...base },
      samples,
      memoryLimitMb,
      threads,
      timeoutSeconds,
      maxOutputBytes,
    });
    return {
      folders,
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
  };
  await rm(workFolder, { recursive: true, force: true });
  for (const folder of [folders.output, folders.scratch, ...inputs.map((name) => join(folders.input, name))])
    await mkdir(folder, { recursive: true, mode: 0o700 });
  return folders;
}

/**
 * Copies an installed version into a folder below the input: its slot must never change. The file system shares the
 * bytes where it can.
 * @returns `model`, and `architecture` and `names` where it has them: paths below the input
 */
export async function copyModel(
  from: string,
  { input }: JobFolders,
  folder: string,
): Promise<Record<string, string>> {
  const to = join(input, folder);
  const present = new Set(await readdir(from));
  const paths: Record<string, string> = {};
  for (const name of baseFiles.filter((each) => present.has(each))) {
    await copyFile(join(from, name), join(to, name), constants.COPYFILE_FICLONE);
    await chmod(join(to, name), readOnly);
    paths[name.slice(0, name.indexOf("."))] = `${folder}/${name}`;
  }
  return paths;
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
  const { count, inputs, targets } = part;
  const tensors: readonly NamedSource[] = [
    { name: "inputs", source: floats([count, ...set.inputShape], inputs) },
    { name: "targets", source: floats([count, set.targetSize], targets) },
  ];
  const file = await files.open(path, "create");
  try {
    let position = 0;
    for await (const chunk of safetensorsChunks(tensors)) {
      await file.write(chunk, position);
      position += chunk.length;
    }
  } finally {
    await file.close();
  }
  await chmod(path, readOnly);
}

function floats(shape: readonly number[], values: Float32Array): NamedSource["source"] {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return sourceOfTensor({ dtype: "F32", shape, bytes });
}

/** Writes what is asked of the program. */
export async function writeJob({ input }: JobFolders, job: object): Promise<void> {
  await writeFile(join(input, "job.json"), `${JSON.stringify(job, null, 2)}\n`, { mode: readOnly });
}
