/**
 * The tiers of one fleet: which versions' low-order bytes may go to a tier, and the moves there and back, between
 * backups, checks and collections.
 */
import type { MovedLowBytes } from "../../../../shared/objects/tiers/low-bytes-moves.js";
import { withClosure } from "../../../../shared/objects/chains.js";
import { readDistinctLeaves } from "../../../../shared/objects/version-trees.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { planWithTiers } from "../collection.js";
import type { RepositoryContext } from "../context.js";
import { versionsAtRest } from "../retention/plan-versions.js";
import type { HomeTiers } from "./home-tiers.js";
import type { FleetTiers, MovableVersion, TierChoice } from "./tier-port.js";

/** The number of versions after which reading yields to other work. */
const versionsBetweenYields = 64;

export function fleetTiers(context: RepositoryContext, tiers: HomeTiers): FleetTiers {
  const { objects, fleet, maintenanceQueue } = context;
  const exclusively = <T>(work: () => Promise<T>): Promise<T> => maintenanceQueue.run(work);
  return {
    choose: (busy) => chooseTensors(context, busy),
    lowPartOf: (tensor) => objects.lowBytes.lowPartOf(tensor),
    move: async (tier, tensors, options = {}): Promise<MovedLowBytes> =>
      await objects.lowBytes.move(tensors, tiers.tierOf(fleet, tier), { ...options, exclusively }),
    bytesToBringBack: (tier) => objects.lowBytes.bytesToBringBack(tiers.tierOf(fleet, tier)),
    bringBack: (tier, options = {}) =>
      objects.lowBytes.bringBack(tiers.tierOf(fleet, tier), { ...options, exclusively }),
    removeUnused: () => exclusively(() => objects.lowBytes.removeUnused()),
    withTiers: (plan) => planWithTiers(context, plan),
  };
}

/**
 * The versions that nothing needs soon (see versionsAtRest), and the tensors that only they have, and that no other
 * tensor is decoded from. @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH where the tree of another version is damaged
 */
async function chooseTensors(
  context: RepositoryContext,
  busy: () => ReadonlyMap<Hash, string>,
): Promise<TierChoice> {
  const { near, atRest } = versionsAtRest(context, busy);
  const { objects } = context;
  const needed = new Set<Hash>();
  for (const [i, { versionId }] of near.entries()) {
    for (const tensor of await tensorsOf(context, versionId)) needed.add(tensor);
    if (i % versionsBetweenYields === 0) await new Promise(setImmediate);
  }
  const closure = withClosure(needed, (id) => objects.encodingOf(id));
  const versions: MovableVersion[] = [];
  const tensors = new Set<Hash>();
  for (const [i, { versionId, name, version }] of atRest.entries()) {
    const own = (await tensorsOf(context, versionId)).filter((id) => !closure.has(id) && objects.has(id));
    for (const id of own) tensors.add(id);
    if (own.length > 0) versions.push({ versionId, name, version, tensors: own });
    if (i % versionsBetweenYields === 0) await new Promise(setImmediate);
  }
  return { versions, nearVersions: near.length, tensors };
}

async function tensorsOf({ objects, records }: RepositoryContext, versionId: Hash): Promise<readonly Hash[]> {
  const record = records.get(versionId);
  if (record === undefined) return [];
  return (await readDistinctLeaves(objects, record)).map(({ tensor }) => tensor);
}
