/**
 * Recovers a model from an object store in MMlib's four steps (MM1), each timed: load, rebuild, check the
 * environment, verify. The returned model has the recorded Merkle root; otherwise this throws.
 */
import { nextTurn, turnAfter } from "../concurrency/in-steps.js";
import { StemmaError } from "../errors.js";
import { checkLeavesFit } from "../model/architecture.js";
import { decodeEnvironment, enforceEnvironment, judgeEnvironment } from "../model/environment.js";
import { architectureWithId } from "../model/kept-architectures.js";
import type { Leaf, LeafTable, Names, SaveRecord } from "../model/model.js";
import { decodeNames } from "../model/names.js";
import { decodeOwnerMap, ownedByThis } from "../model/owner-map.js";
import { decodeSaveRecord } from "../model/save-record.js";
import { treeRoot } from "../model/tree.js";
import { decodeTree } from "../model/tree-object.js";
import type { ObjectReader, StoredTensorSource } from "../objects/object-store.js";
import type { Clock } from "../ports.js";
import { tensorByteLength } from "../tensor/dtype.js";
import { sha256, tensorHasher, tensorIdPrefix } from "../tensor/hash.js";
import { sourceOfTensor, type Hash, type TensorSource } from "../tensor/tensor.js";
import { uninitializedBytes } from "../tensor/uninitialized-bytes.js";
import type { Environment, EnvironmentPolicy } from "../model/environment.js";
import { namesOfPart, treeOfPart, type RecoveredPart } from "./recovered-part.js";
import type { RecoveredModel } from "./recovery.js";
import { refuseMissing, resolveRecovery, type RecoveryPlan } from "./resolve.js";
import { namesOfSelected, selectLeaves } from "./selected-leaves.js";

export interface RecoverOptions {
  /** Default: the model. */
  readonly part?: RecoveredPart | undefined;
  /** The layers to recover (selected-leaves.ts): only their tensors are read. */
  readonly layers?: readonly string[] | undefined;
  readonly policy?: EnvironmentPolicy;
  /** The environment to compare with. Default: the recorded one. */
  readonly here?: Environment;
  /**
   * Models up to this size are returned in memory, read and hashed once; larger ones are hashed in a first
   * pass and stream from the store, hashed again as they are read.
   */
  readonly holdBytes?: number;
  /** Reads everything from the disk without any cache, to prove what is stored. */
  readonly fromDisk?: boolean;
}

const defaultHoldBytes = 512 * 1024 * 1024;

/** Adds up the time of each step. */
class StepTimer {
  #last: number;
  readonly steps = { loadMs: 0, rebuildMs: 0, checkEnvironmentMs: 0, verifyMs: 0 };
  constructor(private readonly clock: Clock) {
    this.#last = clock.monotonic();
  }
  /** Adds the time since the last mark to this step. */
  mark(step: keyof StepTimer["steps"]): void {
    const now = this.clock.monotonic();
    this.steps[step] += now - this.#last;
    this.#last = now;
  }
}

/** The record of a version, from its bytes in the store. @throws OBJECT_MISSING, RECORD_INVALID */
export async function readRecord(store: ObjectReader, versionId: Hash): Promise<SaveRecord> {
  return decodeSaveRecord(await store.read("record", versionId));
}

/**
 * Reads record, tree and owner map, and plans the recovery. @throws MODEL_PART_MISSING, and what
 * resolveRecovery and the store throw
 */
export async function planRecovery(
  store: ObjectReader,
  versionId: Hash,
  part: RecoveredPart = "model",
): Promise<{ readonly record: SaveRecord; readonly leaves: LeafTable; readonly plan: RecoveryPlan }> {
  const record = await readRecord(store, versionId);
  const [treeBytes, ownerMapBytes] = await Promise.all([
    store.read("tree", treeOfPart(record, part)),
    part === "model" ? store.read("owner-map", record.objects.ownerMap) : undefined,
  ]);
  const tree = decodeTree(treeBytes);
  await turnAfter(tree.leaves);
  // The tensors of other trees are the version's own.
  const ownerMap =
    ownerMapBytes === undefined
      ? ownedByThis(tree.leaves.length)
      : decodeOwnerMap(ownerMapBytes, tree.leaves.length);
  await turnAfter(tree.leaves);
  return {
    record,
    leaves: tree.leaves,
    plan: resolveRecovery({ versionId, record, part, tree, ownerMap }, (tensor) => store.has(tensor)),
  };
}

/**
 * Recovers the exact model of a version, or another part of it, which is returned like a model.
 * @throws MODEL_PART_MISSING, OBJECT_MISSING, RECOVERY_INCOMPLETE, ARCHITECTURE_MISMATCH,
 * ENVIRONMENT_DIFFERENT (by policy), LAYER_NOT_FOUND;
 * ROOT_MISMATCH naming the first leaf whose bytes differ
 */
export async function recoverModel(
  store: ObjectReader,
  versionId: Hash,
  clock: Clock,
  options: RecoverOptions = {},
): Promise<RecoveredModel> {
  const timer = new StepTimer(clock);
  const { part = "model" } = options;
  const { record, leaves, plan } = await planRecovery(store, versionId, part);
  if (options.layers === undefined) refuseMissing(plan);
  await turnAfter(leaves);
  const { objects } = record;
  const architectureId = part === "optimizer" ? undefined : objects.architecture;
  const [names, environmentBytes, architectureBytes] = await Promise.all([
    readNames(store, { objects, part, leaves }),
    store.read("environment", objects.environment),
    architectureId === undefined ? undefined : store.read("architecture", architectureId),
  ]);
  await turnAfter(leaves);
  timer.mark("loadMs");

  const architecture =
    architectureId === undefined || architectureBytes === undefined
      ? undefined
      : architectureWithId(architectureId, architectureBytes);
  if (architecture !== undefined) checkLeavesFit(architecture, leaves);
  timer.mark("rebuildMs");

  const recorded = decodeEnvironment(environmentBytes);
  const environment = judgeEnvironment(recorded, options.here ?? recorded);
  enforceEnvironment(environment, options.policy ?? "report");
  timer.mark("checkEnvironmentMs");

  const selection = selectionOf({ leaves, names, plan }, options.layers);
  await turnAfter(leaves);
  const { sources, verifiedRoot } = await readVerified(
    {
      store,
      record,
      tree: { leaves, root: plan.root },
      timer,
      hold: selection.byteLength <= (options.holdBytes ?? defaultHoldBytes),
      fromDisk: options.fromDisk ?? false,
    },
    selection.leaves,
  );
  return {
    versionId,
    record,
    architecture,
    ...selection,
    sources,
    environment,
    steps: timer.steps,
    verifiedRoot,
  };
}

/** Selects what of a model is read. @throws LAYER_NOT_FOUND, RECOVERY_INCOMPLETE */
function selectionOf(
  { leaves, names, plan }: { readonly leaves: LeafTable; readonly names: Names; readonly plan: RecoveryPlan },
  layers: readonly string[] | undefined,
): Pick<RecoveredModel, "leaves" | "names" | "byteLength" | "partOf"> {
  if (layers === undefined) return { leaves, names, byteLength: plan.byteLength };
  const selected = selectLeaves({ leaves, names }, layers);
  const isSelected = new Set(selected);
  refuseMissing({ ...plan, missing: plan.missing.filter(({ leaf }) => isSelected.has(leaf)) });
  return {
    leaves: selected.map((leaf) => leaves[leaf] as Leaf),
    names: namesOfSelected(names, selected),
    byteLength: selected.reduce((sum, leaf) => sum + (plan.tensors[leaf]?.byteLength ?? 0), 0),
    partOf: leaves.length,
  };
}

async function readNames(
  store: ObjectReader,
  {
    objects,
    part,
    leaves,
  }: { readonly objects: SaveRecord["objects"]; readonly part: RecoveredPart; readonly leaves: LeafTable },
): Promise<Names> {
  if (part === "model") return decodeNames(await store.read("names", objects.names), leaves.length);
  const model = decodeTree(await store.read("tree", objects.tree));
  const names = decodeNames(await store.read("names", objects.names), model.leaves.length);
  return namesOfPart(leaves, { leaves: model.leaves, names });
}

interface Reading {
  readonly store: ObjectReader;
  readonly record: SaveRecord;
  /** The complete tree, of which all leaves or some are read, and its recorded root. */
  readonly tree: { readonly leaves: LeafTable; readonly root: Hash };
  readonly timer: StepTimer;
  /** Keep the tensors in memory. */
  readonly hold: boolean;
  readonly fromDisk: boolean;
}

/** Limits of the reads that run concurrently: their count, and the bytes read and decoded for all of them. */
const maxConcurrentReads = 1024;
const maxConcurrentBytes = 96 * 1024 * 1024;
/**
 * The largest number of bytes in parallel for a read from the disk, which proves models in the background of a
 * server that does other things meanwhile.
 */
const maxConcurrentBytesFromDisk = 16 * 1024 * 1024;
/** Reads that start in one turn of the event loop. */
const startsPerTurn = 16;

/**
 * Reads and hashes every tensor once, even if several leaves share it, and compares the root. Many reads run
 * concurrently, so that a store can read small neighbours together and decode meanwhile. If several fail, the
 * error of the first leaf is thrown.
 */
async function readVerified(
  how: Reading,
  leaves: LeafTable,
): Promise<{ readonly sources: readonly TensorSource[]; readonly verifiedRoot: Hash }> {
  const { record, tree, timer } = how;
  const unique = [...new Map(leaves.map((leaf) => [leaf.tensor, leaf])).values()];
  const positions = new Map(unique.map(({ tensor }, position) => [tensor, position]));
  const done = new Map<Hash, TensorSource>();
  const running = new Set<Promise<void>>();
  const failed: { position: number; error?: unknown } = { position: unique.length };
  const maxBytes = how.fromDisk ? maxConcurrentBytesFromDisk : maxConcurrentBytes;
  let bytes = 0;
  let started = 0;
  await turnAfter(leaves);
  /** Reading one leaf never rejects. */
  const read = async (leaf: Leaf, position: number): Promise<void> => {
    try {
      const source = await readTensor(how, leaf, () => failed.position < position);
      if (source !== undefined) done.set(leaf.tensor, source);
    } catch (error) {
      if (position < failed.position) {
        failed.position = position;
        failed.error = error;
      }
    }
  };
  for (const { leaf, workBytes } of longestFirst(how.store, unique)) {
    const position = positions.get(leaf.tensor) as number;
    while (running.size >= maxConcurrentReads || (running.size > 0 && bytes >= maxBytes))
      await Promise.race(running);
    if (failed.position < position) continue;
    bytes += workBytes;
    const reading: Promise<void> = read(leaf, position).finally(() => {
      bytes -= workBytes;
      running.delete(reading);
    });
    running.add(reading);
    // Decoding of the first tensors starts before all reads have been started.
    if (++started % startsPerTurn === 0) await nextTurn();
  }
  await Promise.all(running);
  if (failed.position < unique.length) throw failed.error;
  if (done.size !== unique.length)
    throw new StemmaError(
      "INTERNAL",
      `Of ${unique.length} tensors of ${record.name} only ${done.size} were read, without an error. Report this with what led to it.`,
    );
  await turnAfter(tree.leaves);
  const verifiedRoot = treeRoot(tree.leaves);
  await turnAfter(tree.leaves);
  timer.mark("verifyMs");
  if (verifiedRoot !== tree.root)
    throw new StemmaError(
      "ROOT_MISMATCH",
      `The tensors that were read have the root ${verifiedRoot}, but the recorded tree has ${tree.root}. ` +
        "Check the store, and fetch the version again.",
      { expected: tree.root, actual: verifiedRoot },
    );
  return { sources: leaves.map(({ tensor }) => done.get(tensor) as TensorSource), verifiedRoot };
}

/** Decoding this much takes as long as reading the rest of a common model. */
const longDecodingBytes = 1024 * 1024;

/** A tensor to read. */
interface Work {
  readonly leaf: Leaf;
  /** The tensor's own bytes, and those that are read and decoded for it. */
  readonly workBytes: number;
  readonly decodingBytes: number;
}

/**
 * Puts tensors that take long to decode first; the others keep their order and are read and hashed meanwhile.
 */
function longestFirst(store: ObjectReader, leaves: readonly Leaf[]): readonly Work[] {
  const works = leaves.map((leaf): Work => {
    const byteLength = tensorByteLength(leaf.dtype, leaf.shape);
    let storedBytes = 0;
    let decodingBytes = 0;
    for (
      let encoding = store.encodingOf(leaf.tensor);
      encoding !== undefined;
      encoding = encoding.base === undefined ? undefined : store.encodingOf(encoding.base)
    ) {
      storedBytes += encoding.storedBytes;
      if (encoding.code !== 0) decodingBytes += byteLength;
    }
    return { leaf, workBytes: storedBytes + Math.max(byteLength, decodingBytes), decodingBytes };
  });
  const rank = ({ decodingBytes }: Work): number => (decodingBytes < longDecodingBytes ? 0 : decodingBytes);
  return works.toSorted((a, b) => rank(b) - rank(a));
}

/** Reads and hashes a tensor. Undefined where it is not needed any more. */
async function readTensor(
  how: Reading,
  leaf: Leaf,
  isStopped: () => boolean,
): Promise<TensorSource | undefined> {
  const { record, hold, timer } = how;
  const source = how.store.openTensor(leaf.tensor, { verify: false, fromDisk: how.fromDisk });
  const byteLength = tensorByteLength(leaf.dtype, leaf.shape);
  const inPlace = hold ? undefined : await hashInPlace(source);
  if (inPlace !== undefined) {
    timer.mark("verifyMs");
    return verifiedSource(how, leaf, { byteLength: source.byteLength, id: inPlace, bytes: undefined });
  }
  const all = await source.readAll();
  if (all !== undefined) {
    timer.mark("loadMs");
    return verifiedSource(how, leaf, {
      byteLength: all.length,
      // Hashing takes one call for most tensors, which are small.
      id: sha256(tensorIdPrefix(leaf), all),
      bytes: hold ? all : undefined,
    });
  }
  const hasher = tensorHasher(leaf);
  const held = hold ? uninitializedBytes(byteLength) : undefined;
  let at = 0;
  for await (const piece of source.chunks()) {
    if (isStopped()) return undefined;
    if (at + piece.length > byteLength)
      throw otherTensor(record, leaf, `it has more than ${byteLength} bytes`);
    held?.set(piece, at);
    at += piece.length;
    timer.mark("loadMs");
    // Hash the copy that is returned.
    hasher.update(held === undefined ? piece : held.subarray(at - piece.length, at));
    timer.mark("verifyMs");
  }
  timer.mark("loadMs");
  return verifiedSource(how, leaf, { byteLength: at, id: hasher.digest(), bytes: held });
}

/** A tensor as it was read. */
interface ReadTensor {
  readonly byteLength: number;
  readonly id: Hash;
  /** The tensor's bytes, unless the model is too large to be kept in memory. */
  readonly bytes: Uint8Array | undefined;
}

/** Compares a tensor with the recorded one. @throws ROOT_MISMATCH */
function verifiedSource(
  { store, record, timer }: Reading,
  leaf: Leaf,
  { byteLength: bytesRead, id: actual, bytes: held }: ReadTensor,
): TensorSource {
  timer.mark("verifyMs");
  const byteLength = tensorByteLength(leaf.dtype, leaf.shape);
  if (bytesRead !== byteLength)
    throw otherTensor(record, leaf, `it has ${bytesRead} bytes, not ${byteLength}`);
  if (actual !== leaf.tensor)
    throw otherTensor(record, leaf, `its bytes have the id ${actual}, but ${leaf.tensor} is recorded`, {
      actual,
    });
  const header = { dtype: leaf.dtype, shape: leaf.shape };
  // A tensor of a large model is read again by the caller, and the store verifies that read.
  return held === undefined
    ? { ...store.openTensor(leaf.tensor), ...header }
    : sourceOfTensor({ ...header, bytes: held });
}

function otherTensor(
  record: SaveRecord,
  leaf: Leaf,
  reason: string,
  details: { readonly actual?: Hash } = {},
): StemmaError {
  return new StemmaError(
    "ROOT_MISMATCH",
    `The tensor ${JSON.stringify(leaf.path)} of ${record.name} is not the recorded one: ${reason}. Run storage check, and restore it from a backup or the device.`,
    { leaf: leaf.path, expected: leaf.tensor, ...details },
  );
}

const bufferBytes = 1024 * 1024;
/** Shorter tensors are read together with those beside them, which takes fewer reads. */
const minTensorBytes = 64 * 1024;
const maxBuffers = 8;
const buffers: Uint8Array[] = [];

/**
 * Hashes a stored tensor that nobody wants to have, in buffers that are used again: a server reads back each model that
 * it records, and would else leave the bytes of each to the garbage collector.
 * @returns undefined where the tensor is short, or stored coded
 * @throws as readAt
 */
async function hashInPlace(source: StoredTensorSource): Promise<Hash | undefined> {
  const { byteLength, readAt } = source;
  if (readAt === undefined || byteLength < minTensorBytes) return undefined;
  const buffer = buffers.pop() ?? uninitializedBytes(bufferBytes);
  try {
    const hasher = tensorHasher(source);
    for (let at = 0; at < byteLength; at += buffer.length) {
      const piece = buffer.subarray(0, Math.min(buffer.length, byteLength - at));
      if (!(await readAt(at, piece))) return undefined;
      hasher.update(piece);
    }
    return hasher.digest();
  } finally {
    if (buffers.length < maxBuffers) buffers.push(buffer);
  }
}
