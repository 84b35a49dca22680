/**
 * Erases what a revoked device gave: its versions are retired, the tensors of others that are coded against theirs are
 * stored anew, and a collection removes the rest. Facts, save records and ids stay: they are what the history is proven
 * by. Each step can be repeated, so that after a kill the same call goes on.
 */
import { join } from "node:path";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import type { SaveRecord } from "../../../shared/model/model.js";
import { usedDataOf } from "../../../shared/data/stored-data.js";
import { withClosure } from "../../../shared/objects/chains.js";
import { referencesOf } from "../../../shared/objects/references.js";
import { readDistinctLeaves } from "../../../shared/objects/version-trees.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { collect, liveObjects, liveWithoutVersions, planCollection } from "../collection.js";
import type { RepositoryContext } from "../context.js";
import { appendFacts, checkRetirable } from "../state/append-facts.js";
import { evaluationObjectsOf } from "../state/evaluation-state.js";
import type { VersionState } from "../state/state.js";
import { giveUpClaim } from "../versions/claims.js";
import { codedAgainst } from "./coded-against.js";
import type { Erased, ErasurePlan } from "./erasure.js";

/** Of facts, in one append. */
const factsAtOnce = 200;
/** Tensors are stored anew in packs of this size. */
const packBytes = 32 * 1024 * 1024;
const leaseMs = 3_600_000;
/** A plan is stale where versions were recorded meanwhile. */
const maxCollections = 5;

const versionsOf = ({ byDevice }: RepositoryContext, device: string): readonly VersionState[] =>
  byDevice.get(device) ?? [];

/** @throws DEVICE_UNKNOWN, NOT_ALLOWED where it is not revoked, MODEL_HELD, MODEL_IN_USE, COLLECTION_REFUSED */
export async function planErasure(context: RepositoryContext, device: string): Promise<ErasurePlan> {
  const { objects, state, files, folder } = context;
  requireRevoked(context, device);
  const versions = versionsOf(context, device);
  const open = versions.filter(({ retired }) => retired === undefined);
  for (const { versionId } of open) checkRetirable(state, versionId);
  const own = await ownObjects(context, versions);
  const live = await liveWithoutVersions(
    context,
    open.map(({ versionId }) => versionId),
  );
  const doomed = new Set([...own].filter((id) => objects.has(id) && !live.has(id)));
  const shared = [...own].filter((id) => live.has(id) && objects.encodingOf(id) !== undefined);
  const recoded = recodedTensors(context, doomed, live);
  const dead = new Set(objects.planCollection(live).dead.map(({ id }) => id));
  const needed = withClosure(live, (id) => objects.encodingOf(id));
  const sizeOf = (id: Hash): number => objects.stat(id)?.byteLength ?? 0;
  const storedBytes = (id: Hash): number => objects.encodingOf(id)?.storedBytes ?? sizeOf(id);
  const firstMs = versions[0]?.recordedAtMs ?? Infinity;
  return {
    device,
    versions: open.length,
    versionsInAll: versions.length,
    claims: claimsOf(context, device).length,
    objects: doomed.size,
    bytes: sum([...doomed].map(storedBytes)),
    sharedTensors: shared.length,
    sharedBytes: sum(shared.map(sizeOf)),
    recodedTensors: recoded.length,
    recodedBytes: sum(recoded.map(sizeOf)),
    descendants: descendantsOfOthers(context, versions, device),
    leased: [...doomed].filter((id) => !dead.has(id) && !needed.has(id)).length,
    backups: state.backups
      .filter(({ atMs }) => atMs >= firstMs)
      .map(({ location, atMs }) => ({ location, atMs })),
    setAside: (await files.list(join(folder, "packs", "damaged"))).length,
  };
}

/**
 * @throws what planErasure throws; DISK_FULL where tensors of others
 * cannot be stored anew: then run it again with more space
 */
export async function eraseDevice(
  context: RepositoryContext,
  device: string,
  because: string,
): Promise<Erased> {
  const plan = await planErasure(context, device);
  const { state, clock } = context;
  // Again where a version of it was recorded since: an upload may have ended while the device was revoked.
  if (state.devices.get(device)?.erased === undefined || plan.versions > 0 || plan.claims > 0)
    await appendFacts(context, [{ type: "device-erased", atMs: clock.now(), device, because }]);
  for (const { versionId } of claimsOf(context, device))
    await giveUpClaim(context, versionId, erasedText(device, because));
  const open = versionsOf(context, device).filter(({ retired }) => retired === undefined);
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
  const own = await ownObjects(context, versionsOf(context, device));
  const live = await liveObjects(context);
  const doomed = new Set([...own].filter((id) => !live.has(id)));
  await storeAnew(context, recodedTensors(context, doomed, live));
  const freedBytes = await collectAll(context);
  const left = [...doomed].filter((id) => context.objects.has(id)).length;
  return { ...plan, freedBytes, left };
}

/** @throws DEVICE_UNKNOWN, NOT_ALLOWED */
function requireRevoked({ state, fleet }: RepositoryContext, device: string): void {
  const known = state.devices.get(device);
  if (known === undefined)
    throw new StemmaError(
      "DEVICE_UNKNOWN",
      `The fleet ${fleet} never had a device ${JSON.stringify(device.slice(0, 80))}. Write its full name; a removed device can be erased too.`,
      { device },
    );
  if (known.status !== "revoked")
    throw new StemmaError(
      "NOT_ALLOWED",
      `${device} is ${known.status}, and only a revoked device can be erased: another one reports on. Revoke it first: stemma device revoke ${device} --because TEXT.`,
      { device },
    );
}

const erasedText = (device: string, because: string): string =>
  `erased with ${device}${because === "" ? "" : `: ${because}`}`;

/** Everything that these versions name and have, as far as it can be read: of some it is gone already. */
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
  live: ReadonlySet<Hash>,
): readonly Hash[] {
  const tensors = [...objects.list()].filter(({ kind }) => kind === "tensor").map(({ id }) => id);
  return codedAgainst(doomed, live, tensors, (id) => objects.encodingOf(id));
}

/** Stores tensors raw, each compared with its id; the copies before are superseded. */
async function storeAnew({ objects }: RepositoryContext, tensors: readonly Hash[]): Promise<void> {
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
  device: string,
): readonly { versionId: Hash }[] {
  return [...state.claims.values()].filter(({ versionId }) => claimRecords.get(versionId)?.device === device);
}

function descendantsOfOthers(
  { byBase, records }: RepositoryContext,
  versions: readonly VersionState[],
  device: string,
): number {
  const found = new Set(
    versions
      .flatMap(({ versionId }) => byBase.get(versionId) ?? [])
      .filter(({ versionId, retired }) => retired === undefined && records.get(versionId)?.device !== device)
      .map(({ versionId }) => versionId),
  );
  return found.size;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, number) => all + number, 0);
}
