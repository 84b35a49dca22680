/**
 * Saves a model into an object store: one pack with the tensors the store lacks, the small objects and
 * the record. The caller appends the journal's fact after this has returned (order of writing).
 */
import { StemmaError } from "../errors.js";
import { encodeArchitecture } from "../model/architecture.js";
import { encodeEnvironment } from "../model/environment.js";
import { encodeMetadata, type ModelMetadata } from "../model/metadata.js";
import type { ModelSource, SaveRecord } from "../model/model.js";
import { encodeNames } from "../model/names.js";
import { decodeOwnerMap, encodeOwnerMap } from "../model/owner-map.js";
import { decodeSaveRecord, encodeSaveRecord, versionIdOf } from "../model/save-record.js";
import { contentId, treeRoot } from "../model/tree.js";
import { decodeTree, encodeTree } from "../model/tree-object.js";
import type { ObjectReader, ObjectWriter, PackWriter } from "../objects/object-store.js";
import type { Clock } from "../ports.js";
import type { Environment } from "../model/environment.js";
import { zeroHash } from "../tensor/hash.js";
import type { Hash, TensorSource } from "../tensor/tensor.js";
import { planSave, type SaveBase, type SavePlan } from "./plan-save.js";

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
  readonly attachments?: readonly { readonly name: string; readonly bytes: Uint8Array }[];
}

export interface SavedModel {
  readonly versionId: Hash;
  readonly recordBytes: Uint8Array;
  readonly record: SaveRecord;
  readonly plan: SavePlan;
  /** Null when the store had everything. */
  readonly pack: string | null;
  readonly packBytes: number;
  /** Bytes of the tensors that the store did not have. */
  readonly newTensorBytes: number;
  readonly tensorBytes: number;
  /** Size of the encoded owner map, for statistics (docs/formats.md, "Save record"). */
  readonly ownerMapBytes: number;
  readonly steps: { readonly extractMs: number; readonly persistMs: number };
}

/**
 * What `planSave` needs from a version in the store. Reads its record, tree and owner map, but no tensor.
 * @throws OBJECT_MISSING
 */
export async function loadSaveBase(store: ObjectReader, versionId: Hash): Promise<SaveBase> {
  const record = decodeSaveRecord(await store.read("record", versionId));
  const { leaves } = decodeTree(await store.read("tree", record.objects.tree));
  const ownerMap = decodeOwnerMap(await store.read("owner-map", record.objects.ownerMap), leaves.length);
  return { versionId, architecture: record.architecture, leaves, ownerMap };
}

/**
 * Writes the model and its record as one durable pack.
 * @throws ARCHITECTURE_INVALID, TREE_MALFORMED, NAMES_INVALID, RECORD_INVALID before anything is written;
 * OBJECT_HASH_MISMATCH, TENSOR_SIZE_MISMATCH where a source does not return the tensor that its leaf names;
 * what the store throws
 */
export async function saveModel(
  store: ObjectWriter,
  model: ModelSource,
  options: SaveModelOptions,
  clock: Clock,
): Promise<SavedModel> {
  const started = clock.monotonic();
  if (model.sources.length !== model.leaves.length)
    throw new StemmaError(
      "TREE_MALFORMED",
      `The model has ${model.leaves.length} leaves and ${model.sources.length} sources. Give each leaf its bytes.`,
    );
  const architectureBytes =
    model.architecture === undefined ? undefined : encodeArchitecture(model.architecture);
  const treeBytes = encodeTree(model.kind, model.leaves);
  const namesBytes = encodeNames(model.names);
  const environmentBytes = encodeEnvironment(options.environment);
  const metadataBytes = options.metadata === undefined ? undefined : encodeMetadata(options.metadata);
  const root = treeRoot(model.leaves);
  const pack = await store.begin();
  try {
    const architecture =
      architectureBytes === undefined ? undefined : await pack.put("architecture", architectureBytes);
    const plan = planSave(
      { architecture: architecture ?? zeroHash, leaves: model.leaves },
      options.bases?.[0],
      options.approach,
    );
    const ownerMapBytes = encodeOwnerMap(plan.ownerMap);
    const extractMs = clock.monotonic() - started;
    const newTensorBytes = await putTensors(store, pack, model);
    const optional = async (
      kind: "measurements" | "checkpoints" | "provenance" | "metadata",
      bytes: Uint8Array | undefined,
    ): Promise<Partial<Record<typeof kind, Hash>>> =>
      bytes === undefined ? {} : { [kind]: await pack.put(kind, bytes) };
    const record: SaveRecord = {
      format: 1,
      name: options.name,
      fleet: options.fleet,
      device: options.device,
      line: options.line,
      sequence: options.sequence,
      bases: (options.bases ?? []).map(({ versionId }) => versionId),
      ...(options.successorOf === undefined ? {} : { successorOf: options.successorOf }),
      kind: model.kind,
      architecture: architecture ?? zeroHash,
      root,
      contentId: contentId(architecture ?? zeroHash, root),
      approach: plan.approach,
      ...(options.scheme === undefined ? {} : { scheme: options.scheme }),
      savedAtMs: Math.round(clock.now()),
      clockErrorMs: options.clockErrorMs ?? null,
      objects: {
        tree: await pack.put("tree", treeBytes),
        ...(architecture === undefined ? {} : { architecture }),
        names: await pack.put("names", namesBytes),
        ownerMap: await pack.put("owner-map", ownerMapBytes),
        environment: await pack.put("environment", environmentBytes),
        ...(await optional("measurements", options.measurements)),
        ...(await optional("checkpoints", options.checkpoints)),
        ...(await optional("provenance", options.provenance)),
        ...(await optional("metadata", metadataBytes)),
        ...(await putAttachments(pack, options.attachments)),
      },
    };
    const recordBytes = encodeSaveRecord(record);
    await pack.put("record", recordBytes);
    const written = await pack.commit();
    return {
      versionId: versionIdOf(recordBytes),
      recordBytes,
      record,
      plan,
      pack: written.pack,
      packBytes: written.bytes,
      newTensorBytes,
      tensorBytes: sum(model.sources),
      ownerMapBytes: ownerMapBytes.length,
      steps: { extractMs, persistMs: clock.monotonic() - started - extractMs },
    };
  } catch (error) {
    // The caller must get the first error, not an error of the abort.
    await pack.abort().catch(() => undefined);
    throw error;
  }
}

function sum(sources: readonly TensorSource[]): number {
  return sources.reduce((total, { byteLength }) => total + byteLength, 0);
}

/**
 * Streams the tensors that the store lacks; the others are only pinned. Returns the bytes of the new ones.
 */
async function putTensors(store: ObjectReader, pack: PackWriter, model: ModelSource): Promise<number> {
  const done = new Set<Hash>();
  let bytes = 0;
  for (const [i, leaf] of model.leaves.entries()) {
    if (done.has(leaf.tensor)) continue;
    done.add(leaf.tensor);
    const source = model.sources[i] as TensorSource;
    if (!store.has(leaf.tensor)) bytes += source.byteLength;
    const coded = model.coded?.get(leaf.tensor);
    await (coded === undefined
      ? pack.putTensor(source, leaf.tensor)
      : pack.putCoded({ id: leaf.tensor, header: { dtype: leaf.dtype, shape: leaf.shape }, ...coded }));
  }
  return bytes;
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
