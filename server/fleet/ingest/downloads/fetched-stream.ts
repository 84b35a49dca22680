/**
 * Turns what a device fetches of a version into the objects of a stream. Only objects of the version are
 * served, each once: of a version that was given to the device the model, its input pipeline, and the
 * optimizer's state for a training that goes on from it; of one that the device sent also everything else
 * that its training used. An engine is served to nobody; devices run the one they are installed with.
 */
import {
  streamedKinds,
  type Leaf,
  type ObjectKind,
  type StreamedKind,
} from "../../../../shared/model/model.js";
import { modelObjectsOf, sentObjectsOf } from "../../../../shared/model/record-objects.js";
import { decodeTree } from "../../../../shared/model/tree-object.js";
import { readDistinctLeaves } from "../../../../shared/objects/version-trees.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { Encoding, ObjectRef } from "../../../../shared/wire/messages.js";
import {
  storedStreamObject,
  streamObjectOfBytes,
  type StreamObject,
} from "../../../../shared/wire/transfer/stream.js";
import type { VersionSummary } from "../../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";
import { objectFetchedTwice, objectNotOfVersion } from "../ingest-errors.js";
import { offeredExtras } from "./offered-pipeline.js";
import type { SharedTensors } from "./shared-tensors.js";

/** The content of a fetch, as objects of a stream. */
export interface FetchedStream {
  readonly objects: readonly StreamObject[];
  readonly encodings: readonly Encoding[];
  /** The requested objects with their sizes. */
  readonly sized: readonly ObjectRef[];
}

type Repository = Pick<FleetRepository, "objects" | "leaves" | "isRedacted" | "get" | "releases">;

/**
 * @param from.tensors those of the repository
 * @param withUses whether the device sent the version itself, so that it had everything of it
 * @throws NOT_ALLOWED, ANNOUNCE_INVALID for an object that is named twice; OBJECT_MISSING
 */
export async function fetchedStream(
  { repository, tensors }: { readonly repository: Repository; readonly tensors: SharedTensors },
  summary: VersionSummary,
  refs: readonly ObjectRef[],
  withUses: boolean,
): Promise<FetchedStream> {
  const { versionId, record } = summary;
  if (new Set(refs.map(({ id }) => id)).size !== refs.length) throw objectFetchedTwice(versionId);
  const named = withUses ? sentObjectsOf(record) : modelObjectsOf(record);
  const optimizer = record.uses?.optimizer;
  const kinds = new Map<Hash, ObjectKind>([
    [versionId, "record"],
    ...named.map(({ kind, id }) => [id, kind] as const),
    ...(optimizer === undefined ? [] : [[optimizer, "tree"] as const]),
  ]);
  const leaves = await leavesOf(repository, summary, withUses);
  const objects: StreamObject[] = [];
  for (const { kind, id } of refs) {
    const leaf = kind === "tensor" ? leaves.get(id) : undefined;
    const known = kind === "tensor" ? undefined : kinds.get(id);
    const pipeline = kind === "pipeline" ? await pipelineOf(repository, versionId, id) : undefined;
    if (leaf !== undefined) objects.push(tensors.open(id));
    else if (pipeline !== undefined) objects.push(streamObjectOfBytes(pipeline));
    else if (known !== undefined && known === kind) objects.push(await openObject(repository, known, id));
    else throw objectNotOfVersion(id, versionId);
  }
  // The sizes of tensors are known to both sides. Sizes of other objects are sent as encodings (code 0: raw).
  const isAllTensors = refs.every(({ kind }) => kind === "tensor");
  return {
    objects,
    encodings: isAllTensors ? [] : objects.map(({ byteLength }) => ({ code: 0, byteLength })),
    sized: refs.map((ref, index) => ({ ...ref, byteLength: objects[index]?.byteLength ?? 0 })),
  };
}

async function leavesOf(
  { objects, leaves }: Pick<Repository, "objects" | "leaves">,
  { versionId, record }: VersionSummary,
  withUses: boolean,
): Promise<ReadonlyMap<Hash, Leaf>> {
  const { uses } = record;
  const byTensor = (all: readonly Leaf[]): ReadonlyMap<Hash, Leaf> =>
    new Map(all.map((leaf) => [leaf.tensor, leaf]));
  if (withUses && uses !== undefined) return byTensor(await readDistinctLeaves(objects, record));
  const model = await leaves(versionId);
  if (uses?.optimizer === undefined) return byTensor(model);
  return byTensor([...model, ...decodeTree(await objects.read("tree", uses.optimizer)).leaves]);
}

/** Makes the pipeline, which is not stored: it follows from the record. */
async function pipelineOf(
  repository: Repository,
  versionId: Hash,
  id: Hash,
): Promise<Uint8Array | undefined> {
  const { pipeline } = await offeredExtras(repository, versionId);
  return pipeline?.id === id ? pipeline.bytes : undefined;
}

async function openObject(
  { objects }: Pick<Repository, "objects">,
  kind: ObjectKind,
  id: Hash,
): Promise<StreamObject> {
  return isStreamed(kind)
    ? storedStreamObject(objects.openStream(kind, id))
    : streamObjectOfBytes(await objects.read(kind, id));
}

function isStreamed(kind: ObjectKind): kind is StreamedKind {
  return streamedKinds.some((one) => one === kind);
}
