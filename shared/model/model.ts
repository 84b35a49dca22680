/**
 * Defines a model: leaves in canonical order, an architecture (or none: kind `opaque`), and names for display. Types
 * only. The functions on them are in tree.ts and tree-diff.ts (Merkle tree, diff), architecture.ts (checks, hash),
 * model-json.ts (tfjs model.json), names.ts, save-record.ts, owner-map.ts, and ../tensor (hashing, safetensors).
 */
import type { Hash, TensorHeader, TensorSource } from "../tensor/tensor.js";

/**
 * One weight of a model. `path` is "layer/weight" (decimal indices) with an architecture, else the
 * tensor's name.
 */
export interface Leaf extends TensorHeader {
  readonly path: string;
  readonly tensor: Hash;
}

/**
 * All leaves of a model in canonical order: with an architecture by layer index, then weight index; without
 * one by the UTF-8 bytes of the names.
 */
export type LeafTable = readonly Leaf[];

/**
 * One call of a leaf layer in a flattened architecture, in canonical order. `inputs[slot]` lists predecessors
 * (layer index, output index).
 */
export interface LeafLayer {
  /** tfjs class name such as "Conv2D"; allow-listed. */
  readonly className: string;
  /** Configuration without display names; canonical JSON value. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly inputs: readonly { readonly layer: number; readonly output: number }[];
  readonly weights: readonly {
    readonly name: string;
    readonly dtype: TensorHeader["dtype"];
    readonly shape: readonly number[];
    readonly trainable: boolean;
  }[];
  /** A further call of the layer at this (smaller) index: same configuration, no weights of its own. */
  readonly sharedWith?: number;
}

export interface Architecture {
  readonly layers: readonly LeafLayer[];
  /** Indices of the layers whose outputs are the model's. */
  readonly outputs: readonly { readonly layer: number; readonly output: number }[];
}

/** A model that is ready to be saved: leaves with their bytes. */
export interface ModelSource {
  readonly kind: "architecture" | "opaque";
  readonly architecture?: Architecture;
  /** The leaves in canonical order; `tensor` of each leaf is the id of `sources` at the same index. */
  readonly leaves: LeafTable;
  readonly sources: readonly TensorSource[];
  readonly names: Names;
  /**
   * The encodings of tensors that are not to be stored raw, by tensor id (with the encoding codes of pack
   * entries).
   */
  readonly coded?: ReadonlyMap<Hash, { readonly code: number; readonly bytes: Uint8Array }>;
}

/**
 * A model in memory whose tensors are hashed while they are saved: those that were hashed are written meanwhile. The
 * bytes of the sources must not change any more.
 */
export interface UnhashedModel extends Omit<ModelSource, "leaves" | "coded"> {
  /** The leaves in canonical order, without the ids of the tensors. */
  readonly unhashedLeaves: readonly UnhashedLeaf[];
}
export type UnhashedLeaf = Omit<Leaf, "tensor">;

/** The names of the leaves in a file or framework; not part of the model's identity, and restored on recovery. */
export interface Names {
  /** The name of each leaf in canonical order. */
  readonly leaves: readonly string[];
  /** Leaf indices in the order of the file the model came from; canonical order when absent. */
  readonly fileOrder?: readonly number[];
  /** The file's own metadata (safetensors `__metadata__`). */
  readonly fileMetadata?: Readonly<Record<string, string>>;
  /**
   * The file's safetensors header verbatim (with its padding), where writing it again from order and metadata
   * would give other bytes.
   */
  readonly fileHeader?: string;
  /** Display names of layers, by layer index, where an architecture is known. */
  readonly layers?: readonly string[];
  /**
   * Layers that were frozen (`trainable` false) when the model was described: this is part of its training,
   * not of its identity.
   */
  readonly frozenLayers?: readonly number[];
}

/**
 * Kinds of small objects that a save record refers to by hash. Object id = H("stemma-" ‖ kind ‖ "-1\0" ‖
 * bytes).
 */
export const objectKinds = [
  "tree",
  "architecture",
  "names",
  "owner-map",
  "environment",
  "measurements",
  "checkpoints",
  "provenance",
  "metadata",
  "attachment",
  "record",
  "engine",
  "recipe",
  "data",
  "openings",
  "evaluation",
  "predictions",
  "release",
  "pipeline",
] as const;
export type ObjectKind = (typeof objectKinds)[number];

/**
 * Kinds of objects that may be larger than memory: they are written and read as streams. Objects of all other
 * kinds are small and are read whole.
 */
export const streamedKinds = ["engine", "recipe", "data"] as const;
export type StreamedKind = (typeof streamedKinds)[number];

export type Approach = "snapshot" | "update" | "provenance";

/** The state of a training after an iteration: a tree of tensors, which are the version's own. */
export interface Checkpoint {
  /** Count of training steps before it. */
  readonly iteration: number;
  readonly tree: Hash;
}

/**
 * The objects that a replay of the training needs, and many versions share; and the other trees of the
 * version. At least one member is present.
 */
export interface RecordUses {
  /** The training engine (object kind "engine"). */
  readonly engine?: Hash;
  /** A fleet's own recipe (object kind "recipe"). The engine has the built-in ones. */
  readonly recipe?: Hash;
  /** Training data (object kind "data"), each once. */
  readonly data?: readonly Hash[];
  /** The optimizer's state after the training: a tree of tensors, which are the version's own. */
  readonly optimizer?: Hash;
  /** Ascending by iteration, each once. */
  readonly checkpoints?: readonly Checkpoint[];
}

/** Fields of a save record (immutable history; everything that may change is a journal fact). */
export interface SaveRecord {
  /** 2 where the record has `uses` or `objects.openings`, else 1. */
  readonly format: 1 | 2;
  readonly name: string;
  readonly fleet: string;
  readonly device: string;
  readonly line: string;
  /** The device's own counter for this line, from 1. */
  readonly sequence: number;
  readonly bases: readonly Hash[];
  /** The version after which a user checked this one in; not the version it was trained from (MH15). */
  readonly successorOf?: Hash;
  readonly kind: "architecture" | "opaque";
  readonly contentId: Hash;
  readonly architecture: Hash;
  readonly root: Hash;
  readonly approach: Approach;
  /**
   * The float scheme that reduced its values, such as "float16" or "quantize-uniform:8"; absent: exact, as
   * trained.
   */
  readonly scheme?: string;
  /** Milliseconds since 1970 by the saver's clock, with the error it knows of (null: unknown). */
  readonly savedAtMs: number;
  readonly clockErrorMs: number | null;
  readonly objects: {
    readonly tree: Hash;
    readonly architecture?: Hash;
    readonly names: Hash;
    readonly ownerMap: Hash;
    readonly environment: Hash;
    readonly measurements?: Hash;
    readonly checkpoints?: Hash;
    readonly provenance?: Hash;
    readonly metadata?: Hash;
    /** Salts and values of the provenance's commitments; may be redacted later. In format 2. */
    readonly openings?: Hash;
    readonly attachments?: readonly { readonly name: string; readonly hash: Hash }[];
  };
  /** The uses, in format 2. */
  readonly uses?: RecordUses;
}
