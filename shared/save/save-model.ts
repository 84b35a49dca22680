/**
 * Saves a model into an object store: one pack with the tensors the store lacks, the small objects and
 * the record. The caller appends the journal's fact after this has returned (order of writing).
 */
import { inSteps, turnAfter } from "../concurrency/in-steps.js";
import { defined } from "../defined.js";
import { encodedArchitecture } from "../model/kept-architectures.js";
import { encodeEnvironment } from "../model/environment.js";
import { encodeMetadata, type ModelMetadata } from "../model/metadata.js";
import type { LeafTable, ModelSource, SaveRecord, UnhashedModel } from "../model/model.js";
import { encodeNames } from "../model/names.js";
import { decodeOwnerMap, encodeOwnerMap } from "../model/owner-map.js";
import { decodeSaveRecord, encodeSaveRecord, versionIdOf } from "../model/save-record.js";
import { contentId, treeRoot } from "../model/tree.js";
import { decodeTree } from "../model/tree-object.js";
import type { ObjectReader, ObjectWriter, PackWriter } from "../objects/object-store.js";
import type { Clock } from "../ports.js";
import type { Environment } from "../model/environment.js";
import { objectId, zeroHash } from "../tensor/hash.js";
import type { Hash, TensorSource } from "../tensor/tensor.js";
import { hashAndPut } from "./hash-and-put.js";
import { planSave, type SaveBase, type SavePlan } from "./plan-save.js";
import {
  bytesOfSources,
  encodeTreeSource,
  encodeUsedTrees,
  putUses,
  usedTreeSources,
  type EncodedUses,
  type SaveUses,
  type TreeSource,
} from "./save-uses.js";

export interface SaveModelOptions {
  readonly name: string;
  readonly fleet: string;
  readonly device: string;
  readonly line: string;
  readonly sequence: number;
  /** The model is compared with the first one. */
  readonly bases?: readonly SaveBase[];
  readonly successorOf?: Hash;
  readonly approach?: "snapshot" | "update";
  /** The float scheme that the tensors went through; absent: exact. */
  readonly scheme?: string;
  readonly clockErrorMs?: number | null;
  readonly environment: Environment;
  readonly measurements?: Uint8Array;
  readonly checkpoints?: Uint8Array;
  readonly provenance?: Uint8Array;
  readonly metadata?: ModelMetadata;
  /** Salts and values of the provenance's commitments; may be redacted later. */
  readonly openings?: Uint8Array;
  readonly attachments?: readonly { readonly name: string; readonly bytes: Uint8Array }[];
  /** The objects that a replay needs, the optimizer's state and checkpoints; written into the same pack. */
  readonly uses?: SaveUses;
}

export interface SavedModel {
  readonly versionId: Hash;
  readonly recordBytes: Uint8Array;
  readonly record: SaveRecord;
  readonly plan: SavePlan;
  /** The model's leaves. */
  readonly leaves: LeafTable;
  /** Null when the store had everything. */
  readonly pack: string | null;
  readonly packBytes: number;
  /** Bytes of the tensors that the store did not have, those of checkpoints and optimizer included. */
  readonly newTensorBytes: number;
  /** Bytes of the model's tensors. */
  readonly tensorBytes: number;
  /** Size of the encoded owner map, for statistics (docs/formats.md, "Save record"). */
  readonly ownerMapBytes: number;
  readonly steps: { readonly extractMs: number; readonly persistMs: number };
}

/**
 * Loads what `planSave` needs from a version in the store. Reads its record, tree and owner map, but no tensor.
 * @throws OBJECT_MISSING
 */
export async function loadSaveBase(store: ObjectReader, versionId: Hash): Promise<SaveBase> {
  const record = decodeSaveRecord(await store.read("record", versionId));
  const { leaves } = decodeTree(await store.read("tree", record.objects.tree));
  await turnAfter(leaves);
  const ownerMap = decodeOwnerMap(await store.read("owner-map", record.objects.ownerMap), leaves.length);
  return { versionId, architecture: record.architecture, leaves, ownerMap };
}

/**
 * Writes the model and its record as one durable pack. Nothing stays in the store where this throws.
 * @throws ARCHITECTURE_INVALID, TREE_MALFORMED, NAMES_INVALID, RECORD_INVALID; OBJECT_HASH_MISMATCH,
 * TENSOR_SIZE_MISMATCH where a source does not return the tensor that its leaf names; what the store throws
 */
export async function saveModel(
  store: ObjectWriter,
  unsaved: ModelSource | UnhashedModel,
  options: SaveModelOptions,
  clock: Clock,
): Promise<SavedModel> {
  const startedMs = clock.monotonic();
  const pack = await store.begin();
  let written: Promise<number> | undefined;
  try {
    const hashed = "unhashedLeaves" in unsaved ? await hashAndPut(store, pack, unsaved) : undefined;
    written = hashed?.written;
    const model = hashed?.model ?? (unsaved as ModelSource);
    // All this is done while the last tensors are written.
    const encoded = await encodeParts(model, options);
    const { plan, ownerMapBytes, architecture } = await planned(model, encoded, options);
    const extractMs = clock.monotonic() - startedMs;
    const used = usedTreeSources(options.uses ?? {});
    const trees = hashed === undefined ? [model, ...used] : used;
    const newTensorBytes = (await putTensors(store, pack, trees)) + ((await written) ?? 0);
    if (encoded.architecture !== undefined) await pack.put("architecture", encoded.architecture);
    const uses = await putUses(store, pack, { uses: options.uses ?? {}, encoded: encoded.uses });
    const objects: SaveRecord["objects"] = {
      tree: await pack.put("tree", encoded.tree),
      ...defined({ architecture }),
      names: await pack.put("names", encoded.names),
      ownerMap: await pack.put("owner-map", ownerMapBytes),
      environment: await pack.put("environment", encoded.environment),
      ...(await putOptional(pack, "measurements", options.measurements)),
      ...(await putOptional(pack, "checkpoints", options.checkpoints)),
      ...(await putOptional(pack, "provenance", options.provenance)),
      ...(await putOptional(pack, "metadata", encoded.metadata)),
      ...(await putOptional(pack, "openings", options.openings)),
      ...(await putAttachments(pack, options.attachments)),
    };
    const record = recordOf(model, options, {
      root: encoded.root,
      approach: plan.approach,
      objects,
      ...defined({ uses }),
      clock,
    });
    const recordBytes = encodeSaveRecord(record);
    await pack.put("record", recordBytes);
    const committed = await pack.commit();
    return {
      versionId: versionIdOf(recordBytes),
      recordBytes,
      record,
      plan,
      leaves: model.leaves,
      pack: committed.pack,
      packBytes: committed.bytes,
      newTensorBytes,
      tensorBytes: bytesOfSources(model.sources),
      ownerMapBytes: ownerMapBytes.length,
      steps: { extractMs, persistMs: clock.monotonic() - startedMs - extractMs },
    };
  } catch (error) {
    // The caller must get the first error, not one of the abort or of what came after a failed write.
    await pack.abort().catch(() => undefined);
    await written;
    throw error;
  }
}

async function planned(
  { leaves }: ModelSource,
  encoded: EncodedParts,
  { bases, approach }: SaveModelOptions,
): Promise<{
  readonly plan: SavePlan;
  readonly ownerMapBytes: Uint8Array;
  readonly architecture: Hash | undefined;
}> {
  const architecture =
    encoded.architecture === undefined ? undefined : objectId("architecture", encoded.architecture);
  await turnAfter(leaves);
  const plan = planSave({ architecture: architecture ?? zeroHash, leaves }, bases?.[0], approach);
  await turnAfter(leaves);
  return { plan, ownerMapBytes: encodeOwnerMap(plan.ownerMap), architecture };
}

/** The objects that a save writes besides tensors, as far as they do not depend on the base. */
interface EncodedParts {
  readonly root: Hash;
  readonly tree: Uint8Array;
  readonly names: Uint8Array;
  readonly environment: Uint8Array;
  readonly architecture: Uint8Array | undefined;
  readonly metadata: Uint8Array | undefined;
  readonly uses: EncodedUses;
}

/** Encodes everything that can be refused before anything is written. */
async function encodeParts(
  model: ModelSource,
  { environment, metadata, uses }: SaveModelOptions,
): Promise<EncodedParts> {
  const architecture = model.architecture === undefined ? undefined : encodedArchitecture(model.architecture);
  const tree = encodeTreeSource(model);
  await turnAfter(model.leaves);
  const names = encodeNames(model.names);
  await turnAfter(model.leaves);
  const root = treeRoot(model.leaves);
  await turnAfter(model.leaves);
  return {
    architecture,
    tree,
    names,
    environment: encodeEnvironment(environment),
    metadata: metadata === undefined ? undefined : encodeMetadata(metadata),
    root,
    uses: encodeUsedTrees(uses ?? {}, model.kind),
  };
}

function recordOf(
  { kind }: ModelSource,
  options: SaveModelOptions,
  {
    root,
    approach,
    objects,
    uses,
    clock,
  }: Pick<SaveRecord, "root" | "approach" | "objects" | "uses"> & { readonly clock: Clock },
): SaveRecord {
  const {
    name,
    fleet,
    device,
    line,
    sequence,
    bases = [],
    successorOf,
    scheme,
    clockErrorMs = null,
  } = options;
  const architecture = objects.architecture ?? zeroHash;
  return defined({
    format: uses === undefined && objects.openings === undefined ? 1 : 2,
    name,
    fleet,
    device,
    line,
    sequence,
    bases: bases.map(({ versionId }) => versionId),
    successorOf,
    kind,
    architecture,
    root,
    contentId: contentId(architecture, root),
    approach,
    scheme,
    savedAtMs: Math.round(clock.now()),
    clockErrorMs,
    objects,
    uses,
  });
}

/**
 * Streams the tensors that the store lacks; the others are only pinned. Returns the bytes of the new ones.
 */
async function putTensors(
  store: ObjectReader,
  pack: PackWriter,
  trees: readonly TreeSource[],
): Promise<number> {
  const done = new Set<Hash>();
  let bytes = 0;
  for (const { leaves, sources, coded } of trees)
    for await (const [i, leaf] of inSteps(leaves.entries())) {
      if (done.has(leaf.tensor)) continue;
      done.add(leaf.tensor);
      const source = sources[i] as TensorSource;
      if (!store.has(leaf.tensor)) bytes += source.byteLength;
      const encoded = coded?.get(leaf.tensor);
      await (encoded === undefined
        ? pack.putTensor(source, leaf.tensor)
        : pack.putCoded({ id: leaf.tensor, header: { dtype: leaf.dtype, shape: leaf.shape }, ...encoded }));
    }
  return bytes;
}

async function putOptional<
  Kind extends "measurements" | "checkpoints" | "provenance" | "metadata" | "openings",
>(pack: PackWriter, kind: Kind, bytes: Uint8Array | undefined): Promise<Partial<Record<Kind, Hash>>> {
  return bytes === undefined ? {} : ({ [kind]: await pack.put(kind, bytes) } as Record<Kind, Hash>);
}

async function putAttachments(
  pack: PackWriter,
  attachments: SaveModelOptions["attachments"],
): Promise<{ attachments?: { name: string; hash: Hash }[] }> {
  if (attachments === undefined || attachments.length === 0) return {};
  const entries: { name: string; hash: Hash }[] = [];
  for (const { name, bytes } of attachments)
    entries.push({ name, hash: await pack.put("attachment", bytes) });
  return { attachments: entries };
}
