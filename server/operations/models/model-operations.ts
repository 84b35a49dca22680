/**
 * Operations on models: list, show, log, diff, recover, verify, as of a moment, import, tag, hold, retire.
 */
import { turnAfter } from "../../../shared/concurrency/in-steps.js";
import { defined } from "../../../shared/defined.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { keptFileOf } from "../../../shared/model/kept-file.js";
import type { LeafTable, Names } from "../../../shared/model/model.js";
import { writeModelJson } from "../../../shared/model/model-json-export.js";
import { streamedObjectsOf } from "../../../shared/model/record-objects.js";
import { decodeMetadata } from "../../../shared/model/metadata.js";
import { decodeEnvironment } from "../../../shared/model/environment.js";
import { decodeNames } from "../../../shared/model/names.js";
import { decodeArchitecture } from "../../../shared/model/architecture.js";
import { decodeOwnerMap, ownerOf } from "../../../shared/model/owner-map.js";
import { tensorByteLength } from "../../../shared/tensor/dtype.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { Measurement } from "../../../shared/train/training.js";
import { parseMetadataCondition, maxLimit, type VersionQuery } from "../../storage/catalog/version-query.js";
import { requireArchitecture } from "../../services/context/require-architecture.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { ModelDescription, ModelJson } from "../../interface/api/models/version-schemas.js";
import type { CallOutput, OperationInput, ServerOperations } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { recordedProof } from "../../learning/replay/recorded-proof.js";
import { versionRetired } from "../../storage/repository/state/state-errors.js";
import type { DiffLabels } from "../../../shared/provenance/diff-provenance.js";
import { jsonOf, provenanceDiffJson, provenanceJson } from "./provenance-json.js";

type ModelOperations = Pick<
  ServerOperations,
  | "models"
  | "listModels"
  | "model"
  | "log"
  | "nearest"
  | "runQuery"
  | "saveDerived"
  | "diff"
  | "story"
  | "modelJson"
  | "attachment"
  | "recover"
  | "verify"
  | "asOf"
  | "import"
  | "tag"
  | "hold"
  | "retire"
  | "redact"
>;

export function modelOperations(context: OperationsContext): ModelOperations {
  const { fleets } = context;
  const find = (reference: ModelReference): Promise<FoundModel> => findModel(context, reference);
  return {
    models: async ({ fleet, all = false, ...filter }) =>
      await listAll(await fleets.get(fleet), { ...filter, includeRetired: all, order: "oldest" }),
    listModels: async ({ fleet, all = false, where = [], ...query }) =>
      (await fleets.get(fleet)).list({
        ...query,
        includeRetired: all,
        ...(where.length === 0 ? {} : { metadata: where.map(parseMetadataCondition) }),
      }),
    model: async (reference) => {
      const { repository, summary } = await find(reference);
      return describe(repository, summary);
    },
    log: async ({ offset, limit, ...reference }) => {
      const { repository, summary } = await find(reference);
      return repository.lineage(summary.versionId, { offset, limit });
    },
    nearest: async ({ fleet, ...question }) =>
      (await import("./nearest-model.js")).nearestModel(await fleets.get(fleet), question),
    runQuery: async (input) => (await import("./query-models.js")).queryModels(context, input),
    saveDerived: async (input, { signal } = {}) =>
      (await import("./save-derived.js")).saveDerived(context, input, signal),
    diff: (input) => diffModels(context, input),
    story: (reference) => storyOf(context, reference),
    modelJson: async ({ weightsFile, ...reference }) => {
      const { repository, summary } = await find(reference);
      return modelJsonOf(repository, summary, weightsFile);
    },
    attachment: async ({ file, ...reference }) => {
      const { repository, summary } = await find(reference);
      return (await import("./attached-file.js")).attachedFile(repository, summary, file);
    },
    recover: async ({ fleet, model, ...options }, { signal } = {}) => {
      const { repository, summary } = await find({ fleet, model });
      await repository.ensureTensors(summary.versionId, signal);
      return (await import("./recover-stream.js")).recoverAsStream(repository, summary, options);
    },
    verify: async (reference) => {
      const { repository, summary } = await find(reference);
      return (await import("./recover-stream.js")).verifyModel(repository, summary);
    },
    asOf: async ({ fleet, at }) => (await fleets.get(fleet)).asOf(at),
    import: async (stream, options) =>
      (await import("./import-model.js")).importModel(context, stream, options),
    tag: async ({ tag, remove = false, ...reference }) => {
      const { repository, summary } = await find(reference);
      await repository.tag(summary.name, tag, remove ? null : summary.versionId);
      return repository.resolve(summary.versionId);
    },
    hold: async ({ held, because = "", ...reference }) => {
      const { repository, summary } = await find(reference);
      if (held) await repository.hold(summary.versionId, because);
      else if (summary.held) await repository.unhold(summary.versionId, because);
      return repository.resolve(summary.versionId);
    },
    redact: (input) => redact(context, input),
    retire: (input) => retire(context, input),
  };
}

/** A model in a fleet: name, name:version, name:tag, version id or prefix. */
interface ModelReference {
  readonly fleet: string;
  readonly model: string;
}

interface FoundModel {
  readonly repository: FleetRepository;
  readonly summary: VersionSummary;
}

/** @throws MODEL_NOT_FOUND */
async function findModel(
  { fleets }: OperationsContext,
  { fleet, model }: ModelReference,
): Promise<FoundModel> {
  const repository = await fleets.get(fleet);
  return { repository, summary: repository.resolve(model) };
}

/** @throws NOT_ALLOWED for models of two fleets */
async function diffModels(
  { fleets }: OperationsContext,
  { fleet, a, b, otherFleet = fleet, labels = "a,b" }: OperationInput<"diff">,
): Promise<CallOutput<"diff">> {
  if (fleet !== otherFleet)
    throw new StemmaError(
      "NOT_ALLOWED",
      "Models of two fleets are not compared: what one fleet stores is not the other's. Recover one and import it into the other's fleet.",
    );
  const repository = await fleets.get(fleet);
  const [first, second] = [repository.resolve(a), repository.resolve(b)];
  const provenance = await provenanceDiffJson(repository, first, second, labelsOf(labels));
  return {
    ...(await repository.diff(first.versionId, second.versionId)),
    ...defined({ provenance }),
  };
}

function labelsOf(text: string): DiffLabels {
  const [a = "", b = ""] = text.split(",");
  return { a, b };
}

/** @throws NOT_FOUND where no training of Stemma made it */
async function storyOf(context: OperationsContext, reference: ModelReference): Promise<CallOutput<"story">> {
  const { repository, summary } = await findModel(context, reference);
  const { versionId, name, version } = summary;
  const story = await (await import("./story-of-version.js")).storyOfVersion(repository, summary);
  if (story === undefined)
    throw new StemmaError(
      "NOT_FOUND",
      `${name}:${version} has no story that could be played again: it was not trained by Stemma. ` +
        "`stemma model show` prints what is recorded of it.",
      { versionId },
    );
  return { versionId, name, version, story };
}

/** @throws NOT_FOUND where nothing can be redacted */
async function redact(
  context: OperationsContext,
  { because = "", dryRun = false, ...reference }: OperationInput<"redact">,
): Promise<VersionSummary> {
  const { repository, summary } = await findModel(context, reference);
  const { openings } = summary.record.objects;
  if (openings === undefined)
    throw new StemmaError(
      "NOT_FOUND",
      `${summary.name}:${summary.version} has no provenance that can be redacted: no training made ` +
        "it, or a Stemma that recorded all of it plainly. `stemma model show` prints what is recorded of it.",
      { versionId: summary.versionId },
    );
  if (!dryRun && !repository.isRedacted(openings))
    await repository.append({
      type: "redacted",
      atMs: context.home.ports.clock.now(),
      object: openings,
      because,
    });
  return summary;
}

/** @throws MODEL_HELD, MODEL_IN_USE */
async function retire(
  context: OperationsContext,
  { because = "", dryRun = false, ...reference }: OperationInput<"retire">,
): Promise<VersionSummary> {
  const { repository, summary } = await findModel(context, reference);
  if (dryRun) repository.checkRetirable(summary.versionId);
  else if (summary.state !== "retired") {
    await repository.retire(summary.versionId, because);
    const {
      versionId,
      name,
      version,
      record: { device, line },
    } = summary;
    context.live?.events.emit({
      event: "retired",
      fleet: reference.fleet,
      device,
      line,
      versionId,
      name,
      version,
      because,
    });
  }
  return repository.resolve(summary.versionId);
}

/** Every version that the query finds, page by page. */
async function listAll(repository: FleetRepository, query: VersionQuery): Promise<readonly VersionSummary[]> {
  const versions: VersionSummary[] = [];
  for (;;) {
    const page = await repository.list({ ...query, offset: versions.length, limit: maxLimit });
    versions.push(...page.versions);
    if (page.versions.length === 0 || versions.length >= page.total) return versions;
  }
}

interface NamedVersion {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
}
function nameIn(repository: FleetRepository, versionId: Hash): NamedVersion & { readonly state: string } {
  const known = repository.get(versionId);
  return known === undefined
    ? { versionId, name: "(not known here)", version: 0, state: "unknown" }
    : { versionId, name: known.name, version: known.version, state: known.state };
}

async function describe(repository: FleetRepository, summary: VersionSummary): Promise<ModelDescription> {
  const { record, versionId } = summary;
  const bases = record.bases.map((base) => nameIn(repository, base));
  const derived = repository
    .versions({ base: versionId, includeRetired: true })
    .map(({ versionId: id, name, version }) => ({ versionId: id, name, version }));
  // A retired version shows only name, parents and times, even if its objects are still stored. The same is
  // shown of a version whose objects are missing.
  const hasContent =
    summary.state !== "retired" &&
    repository.objects.has(record.objects.tree) &&
    repository.objects.has(record.objects.names) &&
    repository.objects.has(record.objects.ownerMap);
  const uses = streamedObjectsOf(record).map(({ kind, id }) => ({
    kind,
    id,
    byteLength: repository.objects.has(id) ? (repository.objects.stat(id)?.byteLength ?? null) : null,
  }));
  const { versionId: _, ...listing } = repository.listing(versionId) ?? { versionId };
  const listed = "atMs" in listing ? { listed: listing } : {};
  const about = { uses, bases, derived, ...listed };
  if (!hasContent) return { ...summary, leaves: [], environment: {}, ...about };
  return { ...summary, ...(await contentOf(repository, summary)), ...about };
}

type ModelContent = Pick<
  ModelDescription,
  "leaves" | "layers" | "file" | "environment" | "measurements" | "metadata" | "provenance" | "proof"
>;

/**
 * The file that a model is; undefined also where a device stated no safe name: such a file is shown as a tensor, and
 * delivered to nobody.
 */
function fileIn(leaves: LeafTable, names: Names): ModelDescription["file"] {
  try {
    const kept = keptFileOf({ leaves, names });
    return kept && { name: kept.name, bytes: kept.byteLength, sha256: kept.sha256 };
  } catch (error) {
    if (isStemmaError(error, "NAMES_INVALID")) return undefined;
    throw error;
  }
}

async function contentOf(
  repository: FleetRepository,
  { record, versionId, replayed }: VersionSummary,
): Promise<ModelContent> {
  const { objects } = repository;
  const leaves = await repository.leaves(versionId);
  await turnAfter(leaves);
  const names = decodeNames(await objects.read("names", record.objects.names), leaves.length);
  await turnAfter(leaves);
  const owners = decodeOwnerMap(await objects.read("owner-map", record.objects.ownerMap), leaves.length);
  const { architecture, environment, measurements, metadata, provenance } = record.objects;
  const layers =
    architecture === undefined
      ? undefined
      : decodeArchitecture(await objects.read("architecture", architecture)).layers.map(
          ({ className }, index) => ({ name: names.layers?.[index] ?? `${index}`, className }),
        );
  return {
    leaves: leaves.map(({ path, dtype, shape }, index) => {
      const owner = ownerOf(owners, index, versionId);
      const { name: ownerName, version } = nameIn(repository, owner);
      return {
        path,
        name: names.leaves[index] ?? path,
        dtype,
        shape,
        bytes: tensorByteLength(dtype, shape),
        owner: { versionId: owner, name: ownerName, version },
      };
    }),
    ...defined({ layers, file: fileIn(leaves, names) }),
    environment: decodeEnvironment(await objects.read("environment", environment)),
    ...defined({
      measurements:
        measurements && (jsonOf(await objects.read("measurements", measurements)) as readonly Measurement[]),
      metadata: metadata && decodeMetadata(await objects.read("metadata", metadata)),
    }),
    ...(provenance === undefined ? {} : { provenance: await provenanceJson(repository, record.objects) }),
    ...defined({ proof: await recordedProof(repository, { record, ...defined({ replayed }) }) }),
  };
}

/**
 * A version's model.json, by which TensorFlow.js loads its weights.
 * @param weightsFile name of the file that will hold the weights
 * @throws MODEL_RETIRED, MODEL_OPAQUE, ARCHITECTURE_INVALID for an element type that TensorFlow.js lacks
 */
async function modelJsonOf(
  { objects, leaves }: Pick<FleetRepository, "objects" | "leaves">,
  summary: VersionSummary,
  weightsFile?: string,
): Promise<ModelJson> {
  const { versionId, record, retired } = summary;
  if (retired !== undefined) throw versionRetired(summary, "has no tensors any more");
  const architecture = decodeArchitecture(await objects.read("architecture", requireArchitecture(summary)));
  const names = decodeNames(
    await objects.read("names", record.objects.names),
    (await leaves(versionId)).length,
  );
  return writeModelJson(architecture, names, weightsFile);
}
