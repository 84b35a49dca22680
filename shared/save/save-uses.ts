/** Writes what a version uses into its pack: engine, recipe, data, and the trees besides the model's. */
import { StemmaError } from "../errors.js";
import type { Checkpoint, LeafTable, ModelSource, RecordUses, StreamedKind } from "../model/model.js";
import { encodeTree } from "../model/tree-object.js";
import { objectMissing } from "../objects/object-errors.js";
import type { ByteSource, ObjectReader, PackWriter } from "../objects/object-store.js";
import type { Hash, TensorSource } from "../tensor/tensor.js";

/**
 * An object that streams: one that is stored already, by its id; or a source, which is read unless the store
 * has the object of the id that is expected.
 */
export type UsedObject = { readonly id: Hash } | { readonly source: ByteSource; readonly id?: Hash };

/** A tree with the bytes of its tensors, such as a ModelSource. */
export type TreeSource = Pick<ModelSource, "kind" | "leaves" | "sources" | "coded">;

export interface SaveUses {
  /** The engine, by id also where the store does not have it: servers add engines and recipes themselves. */
  readonly engine?: UsedObject;
  readonly recipe?: UsedObject;
  readonly data?: readonly UsedObject[];
  /** The optimizer's state as named tensors, of kind `opaque`. */
  readonly optimizer?: TreeSource;
  /** Ascending by iteration. Each has the kind of the model. */
  readonly checkpoints?: readonly { readonly iteration: number; readonly model: TreeSource }[];
}

/** @throws TREE_MALFORMED for a tree without the bytes of each leaf, or an optimizer that is not opaque */
export function encodeTreeSource({ kind, leaves, sources }: TreeSource): Uint8Array {
  if (sources.length !== leaves.length)
    throw new StemmaError(
      "TREE_MALFORMED",
      `The model has ${leaves.length} leaves and ${sources.length} sources. Give each leaf its bytes.`,
    );
  return encodeTree(kind, leaves);
}

/** The trees of `uses`, encoded. Everything that can be refused is refused before anything is written. */
export interface EncodedUses {
  readonly optimizer: Uint8Array | undefined;
  readonly checkpoints: readonly Uint8Array[];
}

/** @throws TREE_MALFORMED */
export function encodeUsedTrees(
  { optimizer, checkpoints = [] }: SaveUses,
  modelKind: ModelSource["kind"],
): EncodedUses {
  if (optimizer !== undefined) requireKind("an optimizer's state", optimizer, "opaque");
  for (const { iteration, model } of checkpoints)
    requireKind(`the checkpoint after iteration ${iteration}`, model, modelKind);
  return {
    optimizer: optimizer === undefined ? undefined : encodeTreeSource(optimizer),
    checkpoints: checkpoints.map(({ model }) => encodeTreeSource(model)),
  };
}

function requireKind(what: string, { kind }: TreeSource, expected: ModelSource["kind"]): void {
  if (kind !== expected)
    throw new StemmaError(
      "TREE_MALFORMED",
      `The tree of ${what} is of kind ${kind}; it has to be ${expected}. Give its tensors ` +
        `as ${expected === "opaque" ? "named tensors" : "the weights of the model's architecture"}.`,
      { expected, actual: kind },
    );
}

/** Trees whose tensors a save writes besides the model's. */
export function usedTreeSources({ optimizer, checkpoints = [] }: SaveUses): readonly TreeSource[] {
  return [...checkpoints.map(({ model }) => model), ...(optimizer === undefined ? [] : [optimizer])];
}

/**
 * Writes objects and trees (the tensors are the caller's) and returns the record's `uses`, or undefined where
 * nothing is used. @throws OBJECT_MISSING, OBJECT_KIND_MISMATCH, OBJECT_HASH_MISMATCH
 */
export async function putUses(
  store: ObjectReader,
  pack: PackWriter,
  { uses, encoded }: { readonly uses: SaveUses; readonly encoded: EncodedUses },
): Promise<RecordUses | undefined> {
  const written: { -readonly [Member in keyof RecordUses]: RecordUses[Member] } = {};
  const { engine, recipe, data = [], checkpoints = [] } = uses;
  if (engine !== undefined) written.engine = await putCode(store, pack, { kind: "engine", used: engine });
  if (recipe !== undefined) written.recipe = await putCode(store, pack, { kind: "recipe", used: recipe });
  const ids: Hash[] = [];
  for (const used of data) ids.push(await putUsed(store, pack, { kind: "data", used }));
  if (ids.length > 0) written.data = ids;
  if (encoded.optimizer !== undefined) written.optimizer = await pack.put("tree", encoded.optimizer);
  const trees: Checkpoint[] = [];
  for (const [i, { iteration }] of checkpoints.entries())
    trees.push({ iteration, tree: await pack.put("tree", encoded.checkpoints[i] as Uint8Array) });
  if (trees.length > 0) written.checkpoints = trees;
  return Object.keys(written).length === 0 ? undefined : written;
}

async function putCode(
  store: ObjectReader,
  pack: PackWriter,
  { kind, used }: { readonly kind: "engine" | "recipe"; readonly used: UsedObject },
): Promise<Hash> {
  if (!("source" in used) && !store.has(used.id)) return used.id;
  return await putUsed(store, pack, { kind, used });
}

async function putUsed(
  store: ObjectReader,
  pack: PackWriter,
  { kind, used }: { readonly kind: StreamedKind; readonly used: UsedObject },
): Promise<Hash> {
  if ("source" in used) return await pack.putStream(kind, used.source, used.id);
  if (!store.has(used.id))
    throw objectMissing(used.id, `The save names it as ${kind}. Store it first, or give its bytes.`);
  // The kind is compared by opening it; putting it again only pins it.
  return await pack.putStream(kind, store.openStream(kind, used.id), used.id);
}

/** All leaves of a save: the model's, and those of the trees that it uses. */
export function leavesOfSave(model: Pick<ModelSource, "leaves">, uses: SaveUses | undefined): LeafTable {
  return [...model.leaves, ...usedTreeSources(uses ?? {}).flatMap(({ leaves }) => leaves)];
}

/** The objects that a save uses by their ids. */
export function usedObjectIds({ engine, recipe, data = [] }: SaveUses = {}): readonly Hash[] {
  return [engine, recipe, ...data].flatMap((used) => used?.id ?? []);
}

/** Bytes of the tensors. */
export function bytesOfSources(sources: readonly TensorSource[]): number {
  return sources.reduce((total, { byteLength }) => total + byteLength, 0);
}
