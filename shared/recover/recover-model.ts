/**
 * Recovers a model from an object store in MMlib's four steps (MM1), each timed: load, rebuild, check
 * the environment, verify. What it returns has the recorded Merkle root, or it throws (first law).
 */
import { StemmaError } from "../errors.js";
import { checkLeavesFit, decodeArchitecture } from "../model/architecture.js";
import { decodeEnvironment, enforceEnvironment, judgeEnvironment } from "../model/environment.js";
import type { Leaf, LeafTable, SaveRecord } from "../model/model.js";
import { decodeNames } from "../model/names.js";
import { decodeOwnerMap } from "../model/owner-map.js";
import { decodeSaveRecord } from "../model/save-record.js";
import { treeRoot } from "../model/tree.js";
import { decodeTree } from "../model/tree-object.js";
import type { ObjectReader } from "../objects/object-store.js";
import type { Clock } from "../ports.js";
import { tensorByteLength } from "../tensor/dtype.js";
import { tensorHasher } from "../tensor/hash.js";
import { sourceOfTensor, type Hash, type TensorSource } from "../tensor/tensor.js";
import type { Environment, EnvironmentPolicy } from "../model/environment.js";
import type { RecoveredModel } from "./recovery.js";
import { refuseMissing, resolveRecovery, type RecoveryPlan } from "./resolve.js";

export interface RecoverOptions {
  readonly policy?: EnvironmentPolicy;
  /** The environment at hand. */
  readonly here?: Environment;
  /**
   * Models up to this size are returned in memory, read and hashed once; larger ones are hashed in a first
   * pass and stream from the store, hashed again as they are read.
   */
  readonly holdBytes?: number;
  /** Proves what lies on the disk: nothing that was decoded of these tensors before counts. */
  readonly fromDisk?: boolean;
}

const defaultHoldBytes = 512 * 1024 * 1024;

/** Sums the time between its marks, one step each. */
class StepTimer {
  private last: number;
  readonly steps = { loadMs: 0, rebuildMs: 0, checkEnvironmentMs: 0, verifyMs: 0 };
  constructor(private readonly clock: Clock) {
    this.last = clock.monotonic();
  }
  /** What passed since the last mark belongs to this step. */
  mark(step: keyof StepTimer["steps"]): void {
    const now = this.clock.monotonic();
    this.steps[step] += now - this.last;
    this.last = now;
  }
}

/** The record of a version, from its bytes in the store. @throws OBJECT_MISSING, RECORD_INVALID */
export async function readRecord(store: ObjectReader, versionId: Hash): Promise<SaveRecord> {
  return decodeSaveRecord(await store.read("record", versionId));
}

/** Reads record, tree and owner map, and plans. @throws what resolveRecovery and the store throw */
export async function planRecovery(
  store: ObjectReader,
  versionId: Hash,
): Promise<{ readonly record: SaveRecord; readonly leaves: LeafTable; readonly plan: RecoveryPlan }> {
  const record = await readRecord(store, versionId);
  const [treeBytes, ownerMapBytes] = await Promise.all([
    store.read("tree", record.objects.tree),
    store.read("owner-map", record.objects.ownerMap),
  ]);
  const tree = decodeTree(treeBytes),
    ownerMap = decodeOwnerMap(ownerMapBytes, tree.leaves.length);
  return {
    record,
    leaves: tree.leaves,
    plan: resolveRecovery(versionId, record, tree, ownerMap, (tensor) => store.has(tensor)),
  };
}

/**
 * The model of a version, exactly.
 * @throws OBJECT_MISSING, RECOVERY_INCOMPLETE, ARCHITECTURE_MISMATCH, ENVIRONMENT_DIFFERENT (by policy);
 * ROOT_MISMATCH naming the first leaf whose bytes differ
 */
export async function recoverModel(
  store: ObjectReader,
  versionId: Hash,
  clock: Clock,
  options: RecoverOptions = {},
): Promise<RecoveredModel> {
  const timer = new StepTimer(clock);
  const { record, leaves, plan } = await planRecovery(store, versionId);
  refuseMissing(plan);
  const { objects } = record;
  const [namesBytes, environmentBytes, architectureBytes] = await Promise.all([
    store.read("names", objects.names),
    store.read("environment", objects.environment),
    objects.architecture === undefined ? undefined : store.read("architecture", objects.architecture),
  ]);
  const names = decodeNames(namesBytes, leaves.length);
  timer.mark("loadMs");

  const architecture = architectureBytes === undefined ? undefined : decodeArchitecture(architectureBytes);
  if (architecture !== undefined) checkLeavesFit(architecture, leaves);
  timer.mark("rebuildMs");

  const recorded = decodeEnvironment(environmentBytes);
  const environment = judgeEnvironment(recorded, options.here ?? recorded);
  enforceEnvironment(environment, options.policy ?? "report");
  timer.mark("checkEnvironmentMs");

  const reading = {
    store,
    record,
    timer,
    hold: plan.byteLength <= (options.holdBytes ?? defaultHoldBytes),
    fromDisk: options.fromDisk ?? false,
  };
  const { sources, verifiedRoot } = await readVerified(reading, leaves);
  return {
    versionId,
    record,
    architecture,
    leaves,
    sources,
    names,
    environment,
    steps: timer.steps,
    byteLength: plan.byteLength,
    verifiedRoot,
  };
}

interface Reading {
  readonly store: ObjectReader;
  readonly record: SaveRecord;
  readonly timer: StepTimer;
  /** Keeps what is read in memory. */ readonly hold: boolean;
  readonly fromDisk: boolean;
}

/** Tensors that are under way at a time, and the bytes that are read and decoded for them in all. */
const mostUnderWay = 1024;
const mostUnderWayBytes = 96 * 1024 * 1024;
/** Asked for in one turn of the event loop. */
const askedAtOnce = 16;

/**
 * Reads and hashes every tensor once (one that several leaves hold, once for all), then the root over what
 * was read. Many are under way at a time, so that a store fetches small neighbours together and decodes
 * beside it. Of several that cannot be had the first leaf is named.
 */
async function readVerified(
  how: Reading,
  leaves: LeafTable,
): Promise<{ readonly sources: readonly TensorSource[]; readonly verifiedRoot: Hash }> {
  const { record, timer } = how;
  const unique = [...new Map(leaves.map((leaf) => [leaf.tensor, leaf])).values()],
    places = new Map(unique.map(({ tensor }, place) => [tensor, place]));
  const done = new Map<Hash, TensorSource>(),
    underWay = new Set<Promise<void>>();
  const failed: { place: number; error?: unknown } = { place: unique.length };
  let bytes = 0,
    asked = 0;
  /** Never rejects. */
  const read = async (leaf: Leaf, place: number): Promise<void> => {
    try {
      const source = await readTensor(how, leaf, () => failed.place < place);
      if (source !== undefined) done.set(leaf.tensor, source);
    } catch (error) {
      if (place < failed.place) {
        failed.place = place;
        failed.error = error;
      }
    }
  };
  for (const { leaf, workBytes } of longestFirst(how.store, unique)) {
    const place = places.get(leaf.tensor) as number;
    while (underWay.size >= mostUnderWay || (underWay.size > 0 && bytes >= mostUnderWayBytes))
      await Promise.race(underWay);
    if (failed.place < place) continue;
    bytes += workBytes;
    const reading: Promise<void> = read(leaf, place).finally(() => {
      bytes -= workBytes;
      underWay.delete(reading);
    });
    underWay.add(reading);
    // What was asked for first goes on to be decoded while the rest is asked for.
    if (++asked % askedAtOnce === 0)
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
  }
  await Promise.all(underWay);
  if (failed.place < unique.length) throw failed.error;
  if (done.size !== unique.length)
    throw new StemmaError(
      "INTERNAL",
      `Of ${unique.length} tensors of ${record.name} only ${done.size} were read, and nothing says why. Report this with what led to it.`,
    );
  const verifiedRoot = treeRoot(leaves);
  timer.mark("verifyMs");
  if (verifiedRoot !== record.root)
    throw new StemmaError(
      "ROOT_MISMATCH",
      `What was read has the root ${verifiedRoot}, the record names ${record.root}. Check the store, and fetch the version again.`,
      { expected: record.root, actual: verifiedRoot },
    );
  return { sources: leaves.map(({ tensor }) => done.get(tensor) as TensorSource), verifiedRoot };
}

/** Decoding this much takes as long as reading all else of a common model. */
const longDecodingBytes = 1024 * 1024;

/** A tensor to be read. `workBytes`: its own, and what is read and decoded on the way to it. */
interface Work {
  readonly leaf: Leaf;
  readonly workBytes: number;
  readonly decodingBytes: number;
}

/** What takes long to decode first, that the rest is read and hashed meanwhile; all else as it lies. */
function longestFirst(store: ObjectReader, leaves: readonly Leaf[]): readonly Work[] {
  const works = leaves.map((leaf): Work => {
    const byteLength = tensorByteLength(leaf.dtype, leaf.shape);
    let storedBytes = 0,
      decodingBytes = 0;
    for (
      let lies = store.encodingOf(leaf.tensor);
      lies !== undefined;
      lies = lies.base === undefined ? undefined : store.encodingOf(lies.base)
    ) {
      storedBytes += lies.storedBytes;
      if (lies.code !== 0) decodingBytes += byteLength;
    }
    return { leaf, workBytes: storedBytes + Math.max(byteLength, decodingBytes), decodingBytes };
  });
  const rank = ({ decodingBytes }: Work): number => (decodingBytes < longDecodingBytes ? 0 : decodingBytes);
  return works.toSorted((a, b) => rank(b) - rank(a));
}

/** Reads a tensor and hashes it. undefined where it is not wanted any more. */
async function readTensor(
  how: Reading,
  leaf: Leaf,
  isStopped: () => boolean,
): Promise<TensorSource | undefined> {
  const { record, hold, timer } = how,
    source = how.store.openTensor(leaf.tensor, { verify: false, fromDisk: how.fromDisk });
  const whole = await source.readAll(),
    hasher = tensorHasher(leaf);
  if (whole !== undefined) {
    timer.mark("loadMs");
    // What was decoded is handed out as it is: it is nobody else's.
    hasher.update(whole);
    return finished(how, leaf, whole.length, hasher.digest(), hold ? whole : undefined);
  }
  const byteLength = tensorByteLength(leaf.dtype, leaf.shape),
    held = hold ? unfilled(byteLength) : undefined;
  let at = 0;
  for await (const piece of source.chunks()) {
    if (isStopped()) return undefined;
    if (at + piece.length > byteLength)
      throw otherTensor(record, leaf, `it has more than ${byteLength} bytes`);
    held?.set(piece, at);
    at += piece.length;
    timer.mark("loadMs");
    // What is handed out is what is hashed.
    hasher.update(held === undefined ? piece : held.subarray(at - piece.length, at));
    timer.mark("verifyMs");
  }
  timer.mark("loadMs");
  return finished(how, leaf, at, hasher.digest(), held);
}

/**
 * Compares what was read with what is recorded. `held`: its bytes, unless it is too large a model to be kept
 * in memory.
 */
function finished(
  { store, record, timer }: Reading,
  leaf: Leaf,
  bytesRead: number,
  actual: Hash,
  held: Uint8Array | undefined,
): TensorSource {
  timer.mark("verifyMs");
  const byteLength = tensorByteLength(leaf.dtype, leaf.shape);
  if (bytesRead !== byteLength)
    throw otherTensor(record, leaf, `it has ${bytesRead} bytes, not ${byteLength}`);
  if (actual !== leaf.tensor)
    throw otherTensor(record, leaf, `its bytes have the id ${actual}, recorded is ${leaf.tensor}`, {
      actual,
    });
  const header = { dtype: leaf.dtype, shape: leaf.shape };
  // A large tensor is read again by whoever wants it, and the store verifies that reading.
  return held === undefined
    ? { ...store.openTensor(leaf.tensor), ...header }
    : sourceOfTensor({ ...header, bytes: held });
}

/** Memory that is not cleared first, because all of it is read over; its own, not a piece of Node's pool. */
function unfilled(length: number): Uint8Array {
  const { buffer, byteOffset } = Buffer.allocUnsafeSlow(length);
  return new Uint8Array(buffer, byteOffset, length);
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
