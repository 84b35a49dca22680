/**
 * Makes one candidate: its network with the tensors that it takes over from another model; the other layers are
 * trained with the engine (EvoStore, EV1).
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { StemmaError } from "../../shared/errors.js";
import type { Files } from "../../shared/ports.js";
import { Streams } from "../../shared/random/streams.js";
import { encodeArchitecture, weightSlots } from "../../shared/model/architecture.js";
import type { Architecture, Names } from "../../shared/model/model.js";
import {
  defaultNames,
  writeModelJson,
  type ExportedModelJson,
} from "../../shared/model/model-json-export.js";
import {
  fileOfBytes,
  readSafetensors,
  safetensorsChunks,
  writeSafetensors,
} from "../../shared/tensor/safetensors.js";
import { sourceOfTensor, tensorOfSource, type Tensor } from "../../shared/tensor/tensor.js";
import type { StoredModel } from "../../shared/train/recipes/recipe.js";
import { trainInChild } from "../../shared/train/train-in-child.js";
import { jobFormat, type DatasetReference } from "../../shared/train/training.js";
import { candidateModel, type SearchSpace } from "./search-space.js";
import type { Inherited } from "./search-store.js";

export interface CandidateJob {
  readonly candidate: number;
  readonly choices: readonly number[];
  readonly space: SearchSpace;
  readonly dataset: DatasetReference;
  readonly seed: string;
  /** Of the engine. */
  readonly epochs: number;
  readonly batchSize: number;
  readonly learningRate: number;
}

export interface MadeCandidate {
  readonly architecture: Architecture;
  readonly names: Names;
  readonly modelJson: ExportedModelJson;
  /** In canonical order. */
  readonly tensors: readonly Tensor[];
  /** Of the held-out samples, in per cent. */
  readonly accuracy: number;
  readonly frozen: number;
  readonly trainMs: number;
}

/** The candidate before its training. */
function startOf({ space, choices, seed, candidate }: CandidateJob): {
  readonly model: StoredModel;
  readonly names: Names;
  readonly modelJson: ExportedModelJson;
} {
  const model = candidateModel(space, choices, new Streams(seed, candidate));
  const names = defaultNames(model.architecture);
  return { model, names, modelJson: writeModelJson(model.architecture, names) };
}

/** The network of a candidate as a model.json, by which the nearest model is asked for. */
export function candidateModelJson(job: CandidateJob): ExportedModelJson {
  return startOf(job).modelJson;
}

/** @throws as trainInChild */
export async function trainCandidate(
  job: CandidateJob,
  inherited: Pick<Inherited, "tensors" | "frozen"> | undefined,
  {
    files,
    workFolder,
    threads,
    signal,
  }: {
    readonly files: Files;
    /** A folder of the caller's own, which it removes afterwards. */
    readonly workFolder: string;
    readonly threads: number;
    readonly signal?: AbortSignal | undefined;
  },
): Promise<MadeCandidate> {
  const { model, names, modelJson } = startOf(job);
  const { architecture } = model;
  const tensors = model.tensors.map(
    (tensor, leaf) => inherited?.tensors.get(names.leaves[leaf] as string) ?? tensor,
  );
  const frozenLayers = frozenOf(architecture, names, inherited?.frozen ?? []);
  const base = join(workFolder, "base");
  await writeModel(files, base, { architecture, tensors });
  const outcome = await trainInChild(
    {
      format: jobFormat,
      recipe: "image-classify",
      parameters: {
        epochs: job.epochs,
        patience: 0,
        shiftPixels: 0,
        batchSize: job.batchSize,
        learningRate: job.learningRate,
        frozenLayers: frozenLayers.join(","),
      },
      dataset: job.dataset,
      seed: job.seed,
      invocation: job.candidate,
      base: { folder: base },
      threads,
    },
    { workFolder, ...(signal === undefined ? {} : { signal }) },
  );
  const { metric, durationMs } = outcome.result;
  if (metric === null)
    throw new StemmaError(
      "DATASET_EMPTY",
      "The data of the search have no held-out samples, so candidates cannot be compared. Use data with more samples.",
    );
  return {
    architecture,
    names,
    modelJson,
    tensors: await readTensors(files, outcome.modelFile),
    accuracy: metric.after,
    frozen: frozenLayers.length,
    trainMs: durationMs,
  };
}

/** Layers with inherited tensors; the last layer is always trained, also where all others are inherited. */
function frozenOf(architecture: Architecture, names: Names, inherited: readonly string[]): readonly number[] {
  const last = architecture.outputs[0]?.layer;
  const wanted = new Set(inherited);
  return architecture.layers.flatMap((_, layer) =>
    layer !== last && wanted.has(names.layers?.[layer] ?? "") ? [layer] : [],
  );
}

async function writeModel(
  files: Files,
  folder: string,
  { architecture, tensors }: StoredModel,
): Promise<void> {
  await mkdir(folder, { recursive: true });
  const file = await files.open(join(folder, "model.safetensors"), "create");
  try {
    const slots = weightSlots(architecture);
    await writeSafetensors(
      file,
      tensors.map((tensor, leaf) => ({ name: slots[leaf]?.path ?? "", source: sourceOfTensor(tensor) })),
    );
  } finally {
    await file.close();
  }
  const written = await files.open(join(folder, "architecture.json"), "create");
  try {
    await written.write(encodeArchitecture(architecture), 0);
  } finally {
    await written.close();
  }
}

async function readTensors(files: Files, path: string): Promise<readonly Tensor[]> {
  const opened = await readSafetensors(fileOfBytes(await files.read(path)), path);
  return Promise.all(opened.tensors.map((entry) => tensorOfSource(opened.source(entry))));
}

/** The candidate as a safetensors file, by the names in its model.json. */
export async function fileOf({ tensors, names }: Pick<MadeCandidate, "tensors" | "names">): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  const parts = tensors.map((tensor, leaf) => ({
    name: names.leaves[leaf] as string,
    source: sourceOfTensor(tensor),
  }));
  for await (const chunk of safetensorsChunks(parts)) chunks.push(chunk);
  return Buffer.concat(chunks);
}
