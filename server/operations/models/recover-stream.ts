/**
 * Recovers a model as one safetensors stream that is verified once it has ended. The report resolves when
 * every tensor was read and found to be the recorded one.
 */
import { turnAfter } from "../../../shared/concurrency/in-steps.js";
import { defined } from "../../../shared/defined.js";
import { captureNodeEnvironment } from "../../../shared/model/node-environment.js";
import { safetensorsOfModel } from "../../../shared/recover/recovered-file.js";
import { keptFileOf } from "../../../shared/model/kept-file.js";
import { restOfFileName } from "../../../shared/model/rest-of-file.js";
import { originalFileOf, type OriginalFile } from "../../../shared/recover/original-file.js";
import { keptFileChunks } from "../../../shared/recover/kept-file-chunks.js";
import type { SaveRecord } from "../../../shared/model/model.js";
import { storyKey } from "../../../shared/provenance/exported-story.js";
import { environmentForTraining } from "../../../shared/train/training-environment.js";
import type { Environment, EnvironmentPolicy } from "../../../shared/model/environment.js";
import type { RecoveredPart } from "../../../shared/recover/recovered-part.js";
import type { RecoveredModel } from "../../../shared/recover/recovery.js";
import { safetensorsByteLength, safetensorsChunks } from "../../../shared/tensor/safetensors.js";
import { programVersion } from "../../../shared/adapters/program-version.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { ModelLease } from "../../storage/repository/model-leases.js";
import { sha256 } from "../../../shared/tensor/hash.js";
import { provenStream } from "../../interface/api/proven-stream.js";
import type {
  RecoveryForm,
  RecoveryReport,
  VerificationReport,
} from "../../interface/api/models/version-schemas.js";
import type { RecoveryStream } from "../../interface/api/server-operations.js";
import {
  layoutOfPart,
  leaseOfAnother,
  leaseWithChoice,
  modelJsonOfLayers,
  optimizerOfCheckpoint,
  optimizerWithoutLayers,
  originalNotKept,
  originalOfPart,
} from "./model-errors.js";
import { fileInLayout, ownLayout } from "./recover-layout.js";
import { storyOfVersion, type StoryStore } from "./story-of-version.js";
import { requireArchitecture } from "../../services/context/require-architecture.js";

/**
 * The present environment, which the recorded one is compared with: for a trained model the environment that
 * a training would have here, for an imported one that of this process.
 */
async function presentEnvironment(record: SaveRecord): Promise<Environment> {
  return record.objects.provenance === undefined
    ? captureNodeEnvironment({ backend: "none", stemma: programVersion() })
    : environmentForTraining(programVersion());
}

function reportOf(
  summary: VersionSummary,
  model: RecoveredModel,
  part: RecoveredPart = "model",
): RecoveryReport {
  return {
    versionId: summary.versionId,
    name: summary.name,
    version: summary.version,
    root: model.verifiedRoot,
    byteLength: model.byteLength,
    tensors: model.leaves.length,
    steps: model.steps,
    environment: model.environment,
    ...(summary.record.scheme === undefined || part !== "model" ? {} : { scheme: summary.record.scheme }),
    ...(part === "optimizer" ? { part } : {}),
    ...(typeof part === "object" ? { checkpoint: part.checkpoint } : {}),
    ...defined({ partOf: model.partOf }),
  };
}

export interface RecoverOptions {
  readonly environment?: EnvironmentPolicy | undefined;
  /** tfjs: the tensors' bytes one after the other, in the order of the version's model.json. */
  readonly form?: RecoveryForm | undefined;
  /** original: named and laid out as the file from which it, or a version before it, was imported. */
  readonly layout?: "original" | undefined;
  readonly part?: "model" | "optimizer" | undefined;
  /** Iteration of a checkpoint. */
  readonly checkpoint?: number | undefined;
  /** The layers to recover: only their tensors. */
  readonly layers?: readonly string[] | undefined;
  /** The choice whether the file also carries how the model was made; default: it does. */
  readonly story?: "include" | "omit" | undefined;
  /** The lease of a transfer: only the tensors that the child takes over, by its names. */
  readonly lease?: string | undefined;
}

/** @throws NOT_ALLOWED where a checkpoint and the optimizer's state are asked for in one */
function partOf({ part = "model", checkpoint, form }: RecoverOptions): RecoveredPart {
  if (part === "optimizer" && checkpoint !== undefined) throw optimizerOfCheckpoint();
  if (part === "optimizer" && form === "tfjs") throw optimizerWithoutLayers();
  return checkpoint === undefined ? part : { checkpoint };
}

/**
 * @throws MODEL_RETIRED, MODEL_PART_MISSING, LAYER_NOT_FOUND, MODEL_OPAQUE (form tfjs), NOT_ALLOWED, ROOT_MISMATCH,
 * ENVIRONMENT_DIFFERENT, OBJECT_MISSING
 */
export async function recoverAsStream(
  repository: Pick<FleetRepository, "recover" | "leases" | "get"> & StoryStore,
  summary: VersionSummary,
  options: RecoverOptions = {},
): Promise<RecoveryStream> {
  const { environment = "report", form = "safetensors" } = options;
  if (form === "original") refuseChoiceOfOriginal(options);
  if (options.layout !== undefined) refuseChoiceOfLayout(options);
  const part = partOf(options);
  if (form === "tfjs") {
    requireArchitecture(summary);
    if (options.layers !== undefined) throw modelJsonOfLayers();
  }
  const lease = options.lease === undefined ? undefined : leaseOn(repository, summary, options);
  const found = await repository.recover(summary.versionId, {
    part,
    layers: lease === undefined ? options.layers : lease.tensors.map(({ path }) => path),
    lease: lease?.id,
    environment,
    here: await presentEnvironment(summary.record),
  });
  const model = lease === undefined ? found : namedAsChild(found, lease);
  const expected = reportOf(summary, model, part);
  if (options.layout !== undefined) {
    const { from, inexact, ...bytes } = await fileInLayout(repository, summary, model);
    const { versionId, name, version } = from;
    const layout = { versionId, name, version, ...(inexact === 0 ? {} : { inexact }) };
    return provenStream({ expected: { ...expected, layout }, ...bytes });
  }
  if (form === "tfjs")
    return provenStream({
      expected,
      byteLength: model.sources.reduce((sum, { byteLength }) => sum + byteLength, 0),
      chunks: weightsChunks(model.sources),
    });
  if (form === "original" || form === "auto") {
    const isAll = part === "model" && model.partOf === undefined;
    const original = isAll ? await originalFile(repository, model, form) : undefined;
    if (original === undefined && form === "original") throw originalNotKept(summary);
    if (original !== undefined) {
      const { name, ...bytes } = original;
      return provenStream({ expected: { ...expected, file: name }, ...bytes });
    }
  }
  const isWhole = part === "model" && lease === undefined && model.partOf === undefined;
  const story = isWhole && options.story !== "omit" ? await storyOfVersion(repository, summary) : undefined;
  await turnAfter(model.leaves);
  const file = fileWith(story, model);
  await turnAfter(model.leaves);
  const byteLength = safetensorsByteLength(file.tensors, file.options);
  await turnAfter(model.leaves);
  return provenStream({
    expected: story === undefined ? expected : { ...expected, story: sha256(story) },
    byteLength,
    chunks: safetensorsChunks(file.tensors, file.options),
  });
}

/** The very file that was saved, where its bytes are kept. @throws NAMES_INVALID, MODEL_FILE_MALFORMED */
async function originalFile(
  { objects }: Pick<StoryStore, "objects">,
  model: RecoveredModel,
  form: RecoveryForm,
): Promise<OriginalFile | undefined> {
  const kept = model.architecture === undefined ? keptFileOf(model) : undefined;
  const [source] = model.sources;
  if (kept !== undefined && source !== undefined)
    return { name: kept.name, byteLength: kept.byteLength, chunks: keptFileChunks(kept, source) };
  const rest = model.record.objects.attachments?.find(({ name }) => name === restOfFileName);
  return rest === undefined || form === "auto"
    ? undefined
    : originalFileOf(
        (await ownLayout({ objects }, model)) ?? model,
        await objects.read("attachment", rest.hash),
      );
}

/** @throws USAGE for what names a part of a model: its file is one piece */
function refuseChoiceOfOriginal({ part = "model", checkpoint, layers, lease }: RecoverOptions): void {
  if (part !== "model" || (checkpoint ?? layers ?? lease) !== undefined) throw originalOfPart();
}

/** @throws NOT_ALLOWED for what names a part of a model, or another form */
function refuseChoiceOfLayout({ form, part = "model", checkpoint, layers, lease }: RecoverOptions): void {
  const isFile = form === undefined || form === "safetensors" || form === "auto";
  if (!isFile || part !== "model" || (checkpoint ?? layers ?? lease) !== undefined) throw layoutOfPart();
}

/** The file of a model; one that Stemma trained also carries its story. */
function fileWith(story: string | undefined, model: RecoveredModel): ReturnType<typeof safetensorsOfModel> {
  const { tensors, options } = safetensorsOfModel(model);
  return story === undefined
    ? { tensors, options }
    : { tensors, options: { metadata: { ...options.metadata, [storyKey]: story } } };
}

/** @throws LEASE_UNKNOWN, LEASE_EXPIRED, NOT_ALLOWED */
function leaseOn(
  repository: Pick<FleetRepository, "leases">,
  { versionId }: VersionSummary,
  { lease: id = "", layers, form, part, checkpoint }: RecoverOptions,
): ModelLease {
  const lease = repository.leases.require(id);
  if (lease.versionId !== versionId) throw leaseOfAnother(id, lease.versionId, versionId);
  if (layers !== undefined || form === "tfjs" || (part ?? "model") !== "model" || checkpoint !== undefined)
    throw leaseWithChoice();
  return lease;
}

/** The tensors under the names that the child has for them. */
function namedAsChild(model: RecoveredModel, { id, tensors, versionId }: ModelLease): RecoveredModel {
  const names = new Map(tensors.map(({ path, name }) => [path, name]));
  return {
    ...model,
    names: {
      leaves: model.leaves.map(({ path }) => names.get(path) ?? path),
      fileMetadata: { "stemma.lease": id, "stemma.base": versionId },
    },
  };
}

/** Leaves in canonical order, which is the order of a model.json's weights. */
async function* weightsChunks(sources: RecoveredModel["sources"]): AsyncGenerator<Uint8Array> {
  for (const source of sources) yield* source.chunks();
}

/**
 * Reads everything of a version back from the disk and compares it with what was recorded.
 * @throws the error of the first damaged part, naming all
 */
export async function verifyModel(
  repository: Pick<FleetRepository, "verify">,
  summary: VersionSummary,
): Promise<VerificationReport> {
  const { model, parts } = await repository.verify(summary.versionId, {
    here: await presentEnvironment(summary.record),
  });
  return { ...reportOf(summary, model), parts: [...parts] };
}
