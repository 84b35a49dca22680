/**
 * Evaluates a stored model progressively on named data. Byte planes come from the store, a worker thread
 * computes bounds, and the training engine runs the real forward pass in a child process. Nothing is saved.
 * Byte planes cannot be verified against a tensor's id, which is the hash of all its bytes. The
 * full-precision answers, which the others are compared with, come from verified tensors.
 */
import { listReferences } from "../../../shared/delta/links.js";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { defined } from "../../../shared/defined.js";
import { sharedDeltaCodec } from "../../../shared/delta/load.js";
import { regularFiles } from "../../../shared/files/regular-files.js";
import { decodeArchitecture } from "../../../shared/model/architecture.js";
import type { Leaf } from "../../../shared/model/model.js";
import type { ObjectReader } from "../../../shared/objects/object-store.js";
import { tensorOfSource, type Hash } from "../../../shared/tensor/tensor.js";
import type { SamplePart } from "../../../shared/train/datasets/dataset.js";
import { loadDataset } from "../../../shared/train/datasets/registry.js";
import { evaluateInChild } from "../../../shared/train/evaluate-in-child.js";
import { outputsFile, type EvaluationJob } from "../../../shared/train/evaluation-job.js";
import { firstSamples } from "../../../shared/train/evaluation.js";
import { jobFormat, type DatasetReference } from "../../../shared/train/training.js";
import type { ProgressiveEvaluationReport } from "../../interface/api/models/progressive-schemas.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import { differingWords } from "../evaluation/class-words.js";
import { checkCount, withinEvaluationLimit } from "../evaluation/evaluate-on-server.js";
import { explainRefusedData } from "../../services/data/raw-files.js";
import { requireDataset, referenceOf } from "../../services/context/named-data.js";
import { minPlanesBytes } from "../../../shared/delta/planes.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { workFolderOf } from "../../services/context/work-folder.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { writeModelFolder } from "../../services/context/model-folder.js";
import { requireArchitecture } from "../../services/context/require-architecture.js";
import { decideInThread } from "./decide-in-thread.js";
import { answerDiffers, noClassesToRank, topsNotAllowed } from "./progressive-errors.js";
import { evaluateProgressively, type ForwardPass, type TopReport } from "./progressive-evaluation.js";
import { floatPlaneCount } from "./weight-bounds.js";
import { fixedReader, storedReader, type WeightReader } from "./weight-reader.js";

type ProgressiveEvaluationRequest = OperationInput<"evaluateProgressively">;

/** The largest number of top-k answers that one request may ask for. */
const maxTops = 10;
/**
 * @throws MODEL_NOT_FOUND, MODEL_OPAQUE, DATASET_UNKNOWN, DATASET_MALFORMED, ARCHITECTURE_MISMATCH,
 *   PROGRESSIVE_UNSUPPORTED, USAGE for data of a regression, PROGRESSIVE_DIFFERS where an answer is not the
 *   full-precision one, NOT_A_NUMBER, TRAINING_STOPPED, QUOTA_EXCEEDED
 */
export async function progressiveOnServer(
  context: OperationsContext,
  request: ProgressiveEvaluationRequest,
  signal?: AbortSignal,
): Promise<ProgressiveEvaluationReport> {
  const { tops = [1, 5] } = request;
  if (tops.length === 0 || tops.length > maxTops) throw topsNotAllowed(tops.length, maxTops);
  for (const top of tops) checkCount("--top", top);
  checkCount("--limit", request.limit);
  return withinEvaluationLimit(context, () => evaluateVersion(context, { ...request, tops }, signal));
}

async function evaluateVersion(
  context: OperationsContext,
  request: ProgressiveEvaluationRequest & { readonly tops: readonly number[] },
  signal?: AbortSignal,
): Promise<ProgressiveEvaluationReport> {
  const { fleets, home } = context;
  const { layout = "stored", tops, check = true } = request;
  const started = home.ports.clock.monotonic();
  const repository = await fleets.get(request.fleet);
  const version = repository.resolve(request.model);
  const registered = await requireDataset(context, request.fleet, request.data);
  const dataset = referenceOf(registered);
  const { set } = await loadDataset(dataset, regularFiles()).catch((error: unknown) =>
    explainRefusedData(error, registered, workFolderOf(home)),
  );
  const words = await differingWords(repository, version, () => Promise.resolve(set.description));
  if (set.task !== "classification") throw noClassesToRank(request.data);
  const part = firstSamples(set.heldOut, request.limit ?? set.heldOut.count);
  const leaves = await repository.leaves(version.versionId);
  await repository.ensureTensors(version.versionId, signal);
  await mkdir(workFolderOf(home), { recursive: true });
  const workFolder = await mkdtemp(join(workFolderOf(home), "progressive-"));
  try {
    const report = await evaluateProgressively({
      architecture: await architectureOf(repository, version),
      inputs: part.inputs,
      count: part.count,
      tops,
      compare: check,
      decide: decideInThread(signal),
      weights:
        layout === "fixed"
          ? await fixedPlanesReader(repository, leaves)
          : storedWeightsReader(repository, leaves),
      forward: forwardInChild({ repository, version, dataset, limit: part.count, workFolder, signal }),
    });
    const different = report.tops.find(({ equal }) => equal === false);
    if (different !== undefined) throw answerDiffers(different.top, version);
    return {
      versionId: version.versionId,
      name: version.name,
      version: version.version,
      data: request.data,
      layout,
      samples: { evaluated: part.count, heldOut: set.heldOut.count },
      totalBytes: report.totalBytes,
      levels: report.levels,
      tops: report.tops.map((top) => scoreOf(top, part)),
      durationMs: Math.round(home.ports.clock.monotonic() - started),
      ...defined({ words }),
    };
  } finally {
    await rm(workFolder, { recursive: true, force: true });
  }
}

function scoreOf(
  { top, answers, equal }: TopReport,
  { targets }: SamplePart,
): ProgressiveEvaluationReport["tops"][number] {
  return {
    top,
    equal,
    correct: answers.filter((answer, sample) => answer?.classes.includes(targets[sample]!) === true).length,
    unanswerable: answers.filter((answer) => answer === undefined).length,
  };
}

async function architectureOf(
  repository: FleetRepository,
  version: VersionSummary,
): Promise<ReturnType<typeof decodeArchitecture>> {
  return decodeArchitecture(await repository.objects.read("architecture", requireArchitecture(version)));
}

async function fixedPlanesReader(
  repository: FleetRepository,
  leaves: readonly Leaf[],
): Promise<WeightReader> {
  const tensors = [];
  for (const { tensor } of leaves) tensors.push(await tensorOfSource(repository.objects.openTensor(tensor)));
  return fixedReader(tensors, await sharedDeltaCodec());
}

function storedWeightsReader({ objects }: FleetRepository, leaves: readonly Leaf[]): WeightReader {
  const idOf = (leaf: number): Hash => leaves[leaf]!.tensor;
  return storedReader(leaves, {
    storedBytes: (leaf) => storedBytesOf(objects, idOf(leaf)),
    async readHighPlanes(leaf, planes) {
      // Plans do not store so small a tensor in planes, so it is read completely, but not from a storage tier.
      const isSmall = storedBytesOf(objects, idOf(leaf)) <= minPlanesBytes;
      const isNear = objects.encodingOf(idOf(leaf))?.needsLowFile !== true;
      const known = isSmall && isNear ? floatPlaneCount : planes;
      return { ...(await objects.readHighPlanes(idOf(leaf), known)), known };
    },
    readFixedPlanes: (leaf, planes) => objects.readFixedPlanes(idOf(leaf), planes),
  });
}

/** Stored bytes of a tensor and of everything it is decoded against, each counted once. */
function storedBytesOf(objects: Pick<ObjectReader, "encodingOf">, id: Hash): number {
  const needed = new Set([id]);
  let bytes = 0;
  for (const each of needed) {
    const encoding = objects.encodingOf(each);
    bytes += encoding?.storedBytes ?? 0;
    for (const reference of listReferences(encoding ?? {})) needed.add(reference);
  }
  return bytes;
}

interface ForwardParts {
  readonly repository: FleetRepository;
  readonly version: VersionSummary;
  readonly dataset: DatasetReference;
  /** The number of samples that are evaluated. */
  readonly limit: number;
  readonly workFolder: string;
  readonly signal: AbortSignal | undefined;
}

/** Runs all samples in one pass, so that each is in the same batch as in an ordinary evaluation. */
function forwardInChild({
  repository,
  version,
  dataset,
  limit,
  workFolder,
  signal,
}: ForwardParts): ForwardPass {
  return async (samples) => {
    const job: EvaluationJob = {
      format: jobFormat,
      dataset,
      base: {
        folder: await writeModelFolder(repository, version, join(workFolder, "model")),
        versionId: version.versionId,
      },
      evaluate: { limit, outputs: true },
    };
    await evaluateInChild(job, { workFolder, ...defined({ signal }) });
    const bytes = await readFile(join(workFolder, "result", outputsFile));
    const outputs = new Float32Array(
      bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength),
    );
    const width = outputs.length / limit;
    const rows = new Float32Array(samples.length * width);
    samples.forEach((sample, row) => {
      rows.set(outputs.subarray(sample * width, (sample + 1) * width), row * width);
    });
    return rows;
  };
}
