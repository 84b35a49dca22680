/**
 * Erases what revoked devices gave. Their versions are retired, the tensors of others that are coded against theirs are
 * rewritten raw, and a collection removes the rest. Facts, save records and ids stay: by them the history is proven.
 * Each step can be repeated. The facts come first, so after a kill or on a full disk any later erasure goes on with
 * what they name, also where the selection means these devices no more because their labels are gone.
 */
import { join } from "node:path";
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import type { SaveRecord } from "../../../../shared/model/model.js";
import { usedDataOf } from "../../../../shared/data/stored-data.js";
import type { LiveObjects } from "../../../../shared/objects/object-store.js";
import { referencesOf } from "../../../../shared/objects/references.js";
import { readDistinctLeaves } from "../../../../shared/objects/version-trees.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { collect, liveObjects, liveWithoutVersions, planCollection } from "../collection.js";
import { versionsIn } from "../state/version-table.js";
import type { RepositoryContext } from "../context.js";
import { appendFacts, checkRetirable } from "../state/append-facts.js";
import { evaluationObjectsOf } from "../state/evaluation-state.js";
import type { VersionState } from "../state/version-state.js";
import { giveUpClaim } from "../versions/claims.js";
import { codedAgainst } from "./coded-against.js";
import type { Erased, ErasurePlan } from "./erasure.js";

/** The largest number of facts in one append. */
const factsAtOnce = 200;
/** Tensors are rewritten in packs of this size. */
const packBytes = 32 * 1024 * 1024;
const leaseMs = 3_600_000;
/** A plan is stale where versions were recorded meanwhile. */
const maxCollections = 5;

const versionsOf = (
  { state, byDevice }: RepositoryContext,
  devices: readonly string[],
): readonly VersionState[] => devices.flatMap((device) => [...versionsIn(state, byDevice.of(device))]);

const isOpen = ({ retired }: VersionState): boolean => retired === undefined;

/**
 * @param asked each once; none: what is unfinished
 * @throws DEVICE_UNKNOWN, NOT_ALLOWED where one is not revoked, MODEL_HELD, MODEL_IN_USE, COLLECTION_REFUSED
 */
export async function planErasure(
  context: RepositoryContext,
  asked: readonly string[],
): Promise<ErasurePlan> {
  const { objects, state, files, folder } = context;
  requireRevoked(context, asked);
  const cutShort = cutShortBefore(context, asked);
  const devices = [...asked, ...cutShort];
  const versions = versionsOf(context, devices);
  const open = versions.filter(isOpen);
  for (const { versionId } of open) checkRetirable(state, versionId);
  const own = await ownObjects(context, versions);
  const live = await liveWithoutVersions(
    context,
    open.map(({ versionId }) => versionId),
  );
  const doomed = new Set([...own].filter((id) => objects.has(id) && !live.has(id)));
  const shared = [...own].filter((id) => live.has(id) && objects.encodingOf(id) !== undefined);
  const recoded = recodedTensors(context, doomed, live);
  const dead = new Set((await objects.planCollection(live)).dead.map(({ id }) => id));
  const unneeded = await objects.unneeded(live);
  const sizeOf = (id: Hash): number => objects.stat(id)?.byteLength ?? 0;
  const storedBytes = (id: Hash): number => objects.encodingOf(id)?.storedBytes ?? sizeOf(id);
  const firstMs = Math.min(...versions.map(({ recordedAtMs }) => recordedAtMs));
  return {
    devices: asked,
    unfinished: [...cutShort, ...(await leftBefore(context, devices, live)).keys()],
    versions: open.length,
    versionsInAll: versions.length,
    claims: claimsOf(context, devices).length,
    objects: doomed.size,
    bytes: sum([...doomed].map(storedBytes)),
    sharedTensors: shared.length,
    sharedBytes: sum(shared.map(sizeOf)),
    recodedTensors: recoded.length,
    recodedBytes: sum(recoded.map(sizeOf)),
    descendants: descendantsOfOthers(context, versions, devices),
    leased: [...doomed].filter((id) => !dead.has(id) && unneeded.has(id)).length,
    backups: state.backups
      .filter(({ atMs }) => atMs >= firstMs)
      .map(({ location, atMs }) => ({ location, atMs })),
    setAside: (await files.list(join(folder, "packs", "damaged"))).length,
  };
}

/**
 * Returns a test whether a version was there when its device was erased. What it gave since, enrolled again,
 * is not erased.
 */
function wasErased({ state }: RepositoryContext, device: string): (version: VersionState) => boolean {
  const atMs = state.devices.get(device)?.erased?.atMs ?? -Infinity;
  return ({ recordedAtMs }) => recordedAtMs <= atMs;
}

/** Devices whose erasure was stated, and ended before it had retired all they gave. */
function cutShortBefore(context: RepositoryContext, except: readonly string[]): readonly string[] {
  return [...context.state.devices]
    .filter(
      ([device, { erased, status }]) =>
        erased !== undefined &&
        status === "revoked" &&
        !except.includes(device) &&
        (claimsOf(context, [device]).length > 0 ||
          versionsOf(context, [device]).some(
            (version) => isOpen(version) && wasErased(context, device)(version),
          )),
    )
    .map(([device]) => device);
}

/** Finds other devices erased before that have objects which nothing needs, with these objects. */
async function leftBefore(
  context: RepositoryContext,
  except: readonly string[],
  live: Pick<LiveObjects, "has">,
): Promise<ReadonlyMap<string, readonly Hash[]>> {
  const { objects, state } = context;
  const found = new Map<string, readonly Hash[]>();
  for (const [device, { erased }] of state.devices) {
    if (erased === undefined || except.includes(device)) continue;
    const own = await ownObjects(context, versionsOf(context, [device]).filter(wasErased(context, device)));
    const left = [...own].filter((id) => objects.has(id) && !live.has(id));
    if (left.length > 0) found.set(device, left);
  }
  return found;
}

/**
 * Goes on with erasures that were cut short, too.
 * @param asked each once; none: only what is unfinished
 * @throws what planErasure throws; DISK_FULL where tensors of others cannot be rewritten: then run it again with more
 * space
 */
export async function eraseDevices(
  context: RepositoryContext,
  asked: readonly string[],
  because: string,
): Promise<Erased> {
  const plan = await planErasure(context, asked);
  const devices = [...asked, ...cutShortBefore(context, asked)];
  for (const device of devices) await stateErased(context, device, because);
  const own = await ownObjects(context, versionsOf(context, devices));
  const live = await liveObjects(context);
  const left = await leftBefore(context, devices, live);
  const doomed = new Set([...own, ...[...left.values()].flat()].filter((id) => !live.has(id)));
  await rewriteRaw(context, recodedTensors(context, doomed, live));
  const freedBytes = await collectAll(context);
  return { ...plan, freedBytes, left: [...doomed].filter((id) => context.objects.has(id)).length };
}

/** The facts. */
async function stateErased(context: RepositoryContext, device: string, because: string): Promise<void> {
  const { state, clock } = context;
  const open = versionsOf(context, [device]).filter(isOpen);
  const claims = claimsOf(context, [device]);
  // Again where a version of it was recorded since: an upload may have ended while the device was revoked.
  if (state.devices.get(device)?.erased === undefined || open.length > 0 || claims.length > 0)
    await appendFacts(context, [{ type: "device-erased", atMs: clock.now(), device, because }]);
  for (const { versionId } of claims) await giveUpClaim(context, versionId, erasedText(device, because));
  for (let at = 0; at < open.length; at += factsAtOnce)
    await appendFacts(
      context,
      open.slice(at, at + factsAtOnce).map(({ versionId }) => ({
        type: "retired",
        atMs: clock.now(),
        versionId,
        because: erasedText(device, because),
      })),
    );
}

/** @throws DEVICE_UNKNOWN, NOT_ALLOWED */
function requireRevoked({ state, fleet }: RepositoryContext, devices: readonly string[]): void {
  for (const device of devices)
    if (state.devices.get(device) === undefined)
      throw new StemmaError(
        "DEVICE_UNKNOWN",
        `The fleet ${fleet} never had a device ${JSON.stringify(device.slice(0, 80))}. Write its full name; a removed device can be erased too.`,
        { device },
      );
  const others = devices.filter((device) => state.devices.get(device)?.status !== "revoked");
  const [device] = others;
  if (device === undefined) return;
  const standing = state.devices.get(device)?.status ?? "";
  throw new StemmaError(
    "NOT_ALLOWED",
    devices.length === 1
      ? `${device} is ${standing}, and only a revoked device can be erased: another one reports on. Revoke it first: stemma device revoke ${device} --because TEXT.`
      : `${others.length} of these ${devices.length} devices are not revoked (${others.slice(0, maxNamed).join(", ")}${others.length > maxNamed ? " …" : ""}), and nothing was erased: a device that is not revoked reports on. Revoke them first, or leave them out: --select "state=revoked and …".`,
    { device },
  );
}

/** Devices that one message names. */
const maxNamed = 5;

const erasedText = (device: string, because: string): string =>
  `erased with ${device}${because === "" ? "" : `: ${because}`}`;

/** Returns everything that these versions name and have, as far as it can be read: of some it is gone already. */
async function ownObjects(
  context: RepositoryContext,
  versions: readonly VersionState[],
): Promise<ReadonlySet<Hash>> {
  const { objects, records } = context;
  const own = new Set<Hash>();
  for (const version of versions) {
    for (const id of evaluationObjectsOf(version)) own.add(id);
    const record = records.get(version.versionId);
    if (record === undefined) continue;
    for (const id of await objectsOfVersion(objects, version.versionId, record)) own.add(id);
  }
  // Records stay, as the facts do.
  for (const { versionId } of versions) own.delete(versionId);
  return own;
}

async function objectsOfVersion(
  objects: RepositoryContext["objects"],
  versionId: Hash,
  record: SaveRecord,
): Promise<ReadonlySet<Hash>> {
  const ifThere =
    <T>(none: T) =>
    (error: unknown): T => {
      if (isStemmaError(error, "OBJECT_MISSING")) return none;
      throw error;
    };
  const leaves = await readDistinctLeaves(objects, record).catch(ifThere([]));
  const data = await usedDataOf(objects, record.uses?.data).catch(ifThere({ chunks: [] as readonly Hash[] }));
  return referencesOf({ state: "kept", versionId, record, leaves, dataChunks: data.chunks });
}

function recodedTensors(
  { objects }: RepositoryContext,
  doomed: ReadonlySet<Hash>,
  live: Pick<LiveObjects, "has">,
): readonly Hash[] {
  const tensors = [...objects.list()].filter(({ kind }) => kind === "tensor").map(({ id }) => id);
  return codedAgainst(doomed, live, tensors, (id) => objects.encodingOf(id));
}

/** Stores tensors raw, each compared with its id; the copies before are superseded. */
async function rewriteRaw({ objects }: RepositoryContext, tensors: readonly Hash[]): Promise<void> {
  const waiting = [...tensors];
  while (waiting.length > 0) {
    const lease = objects.lease(waiting, leaseMs);
    const pack = await objects.begin({ recode: true });
    try {
      for (let bytes = 0, next = waiting[0]; next !== undefined && bytes < packBytes; next = waiting[0]) {
        await pack.putTensor(objects.openTensor(next), next);
        bytes += objects.stat(next)?.byteLength ?? 0;
        waiting.shift();
      }
      await pack.commit();
    } catch (error) {
      await pack.abort();
      throw error;
    } finally {
      objects.release(lease.id);
    }
  }
}

async function collectAll(context: RepositoryContext): Promise<number> {
  for (let attempt = 1; ; attempt++)
    try {
      return (await collect(context, await planCollection(context))).freedBytes;
    } catch (error) {
      if (!isStemmaError(error, "PLAN_STALE") || attempt >= maxCollections) throw error;
    }
}

function claimsOf(
  { claimRecords, state }: RepositoryContext,
  devices: readonly string[],
): readonly { versionId: Hash }[] {
  return [...state.claims.values()].filter(({ versionId }) =>
    devices.includes(claimRecords.get(versionId)?.device ?? ""),
  );
}

function descendantsOfOthers(
  { state, byBase, records }: RepositoryContext,
  versions: readonly VersionState[],
  devices: readonly string[],
): number {
  const found = new Set(
    versions
      .flatMap(({ versionId }) => [...versionsIn(state, byBase.of(versionId))])
      .filter(
        ({ versionId, retired }) =>
          retired === undefined && !devices.includes(records.get(versionId)?.device ?? ""),
      )
      .map(({ versionId }) => versionId),
  );
  return found.size;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, number) => all + number, 0);
}
