/**
 * The small objects of one announced version: those that came with the announcement or by blocks, and the
 * trees that are read from them. Holds them in memory until the version is written.
 */
import { StemmaError } from "../../../../shared/errors.js";
import type { LeafTable } from "../../../../shared/model/model.js";
import { treesOf } from "../../../../shared/model/record-objects.js";
import { declaredLeaves, decodeTree } from "../../../../shared/model/tree-object.js";
import { treeRoot } from "../../../../shared/model/tree.js";
import type { ObjectReader } from "../../../../shared/objects/object-store.js";
import type { Hash, TensorHeader } from "../../../../shared/tensor/tensor.js";
import type { Encoding } from "../../../../shared/wire/messages.js";
import { objectsOfStream } from "../../../../shared/wire/transfer/stream.js";
import { tensorAmongObjects } from "../ingest-errors.js";
import type { Accepted, HeldObject } from "./announcement.js";
import type { IngestLimits } from "../limits.js";
import { tooManyTensors } from "./needs.js";
import type { UploadTransfer } from "./upload-transfer.js";

export class AnnouncedObjects {
  readonly #accepted: Pick<Accepted, "record">;
  readonly #limits: Pick<IngestLimits, "maxTensors">;
  readonly #objects: Map<Hash, HeldObject>;
  #trees: readonly LeafTable[] | undefined;

  constructor(accepted: Pick<Accepted, "record" | "objects">, limits: Pick<IngestLimits, "maxTensors">) {
    this.#accepted = accepted;
    this.#limits = limits;
    this.#objects = new Map(accepted.objects);
  }

  has(id: Hash): boolean {
    return this.#objects.has(id);
  }
  /** Returns an object's bytes; undefined where it is not held. */
  bytes(id: Hash | undefined): Uint8Array | undefined {
    return id === undefined ? undefined : this.#objects.get(id)?.bytes;
  }
  /** Returns the objects that are not in the store as far as the device may know. */
  values(): Iterable<HeldObject> {
    return this.#objects.values();
  }

  /**
   * The leaves of all trees, in the order of `treesOf`. Undefined while one is not here, and where one is
   * malformed or the model's has another kind or root than the record.
   * @param mayRead whether the device provably had an object that is in the store
   * @throws SIZE_OVER_LIMIT for more leaves than a version may have, before they take any memory: a record may name
   * one tree 257 times
   */
  async trees(
    store: Pick<ObjectReader, "read">,
    mayRead: (id: Hash) => boolean,
  ): Promise<readonly LeafTable[] | undefined> {
    if (this.#trees !== undefined) return this.#trees;
    const { record } = this.#accepted;
    // A record may name one tree many times; its leaves are shared then, and count each time.
    const trees = new Map<Hash, LeafTable>();
    let leafCount = 0;
    for (const { part, tree } of treesOf(record)) {
      const known = trees.get(tree);
      leafCount += known?.length ?? 0;
      this.#requireFewLeaves(leafCount);
      if (known !== undefined) continue;
      const held = this.#objects.get(tree)?.bytes;
      if (held === undefined && !mayRead(tree)) return undefined;
      const bytes = held ?? (await store.read("tree", tree));
      this.#requireFewLeaves(leafCount + declaredLeaves(bytes));
      const leaves = leavesOf(bytes, part === "model" ? record : undefined);
      if (leaves === undefined) return undefined;
      leafCount += leaves.length;
      trees.set(tree, leaves);
    }
    return (this.#trees = treesOf(record).map(({ tree }) => trees.get(tree) as LeafTable));
  }

  #requireFewLeaves(count: number): void {
    const tooMany = tooManyTensors(count, this.#limits);
    if (tooMany !== undefined) throw new StemmaError(tooMany.code, tooMany.message);
  }

  /**
   * Checks the objects of a complete transfer against their ids, then holds them like those that came inline.
   * @throws OBJECT_HASH_MISMATCH, OBJECT_KIND_MISMATCH, SIZE_OVER_LIMIT
   */
  async take(transfer: UploadTransfer, encodings: readonly Encoding[]): Promise<void> {
    const refs = transfer.request.objects.map((ref, index) => ({
      ...ref,
      byteLength: encodings[index]?.byteLength ?? 0,
    }));
    const noTensor = (): TensorHeader => {
      throw tensorAmongObjects();
    };
    for await (const object of objectsOfStream(refs, noTensor, transfer.readRange())) {
      if (object.kind === "object" && object.ref.kind !== "tensor")
        this.#objects.set(object.ref.id, { kind: object.ref.kind, bytes: object.bytes });
    }
  }
}

/** The leaves of a tree; undefined where it is malformed, or is not the model's tree that the record states. */
function leavesOf(
  bytes: Uint8Array,
  record: Pick<Accepted["record"], "kind" | "root"> | undefined,
): LeafTable | undefined {
  try {
    const { kind, leaves } = decodeTree(bytes);
    const isOther = record !== undefined && (kind !== record.kind || treeRoot(leaves) !== record.root);
    return isOther ? undefined : leaves;
  } catch {
    return undefined;
  }
}
