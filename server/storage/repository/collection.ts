/**
 * Garbage collection of a fleet: finds the live objects, and plans and runs collections. The store itself
 * rewrites and deletes packs.
 */
import type { CollectionPlan } from "../../../shared/objects/object-store.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { unknownFactsKeep } from "./repository-errors.js";
import { claimedObjects } from "./versions/claims.js";
import type { RepositoryContext } from "./context.js";
import { refuseLostReplays } from "./versions/replay-inputs.js";
import { provingEngines } from "./engine-needs.js";
import type { Collected, PlannedCollection } from "./tiers/tier-port.js";

/**
 * Returns the objects that stay: what versions need, recipes that are approved or that devices were given,
 * engines that a person approved, until they are removed, and engines of a build that no version has named
 * yet: they were stored because one will. Once a version has named an engine of a build, it goes with the
 * last version that needs it, as recipes and data do.
 */
function liveNow(
  context: RepositoryContext,
  needed: ReadonlySet<Hash> = context.references.live(),
): ReadonlySet<Hash> {
  const { objects, records, state } = context;
  const live = new Set([...needed, ...claimedObjects(context)]);
  // Devices that were given a recipe may still report models that it trained, after its approval was revoked.
  const given = new Set([...state.devices.values()].flatMap(({ recipes }) => [...recipes]));
  for (const { recipe, revoked } of state.recipes.values())
    if (revoked === undefined || (given.has(recipe) && objects.has(recipe))) live.add(recipe);
  const engines = [...objects.list()].filter(({ kind }) => kind === "engine");
  if (engines.length === 0) return live;
  for (const engine of provingEngines(context)) live.add(engine);
  const named = new Set<Hash | undefined>();
  for (const versionId of state.versions.keys()) named.add(records.get(versionId)?.uses?.engine);
  for (const { id } of engines)
    if (state.engines.get(id)?.source === "approval" || !(named.has(id) || state.removedEngines.has(id)))
      live.add(id);
  return live;
}

/** @throws COLLECTION_REFUSED where the journal has facts of unknown types, which may keep objects */
export function refuseUnknownFacts({ state, fleet }: RepositoryContext): void {
  if (state.unknownFacts > 0) throw unknownFactsKeep(fleet, state.unknownFacts);
}

export async function liveObjects(context: RepositoryContext): Promise<ReadonlySet<Hash>> {
  await context.references.settle();
  return liveNow(context);
}

/** @throws COLLECTION_REFUSED */
export async function planCollection(context: RepositoryContext): Promise<CollectionPlan> {
  refuseUnknownFacts(context);
  await context.objects.merging.hold();
  return context.objects.planCollection(await liveObjects(context));
}

/** The objects that would stay if these versions were retired. @throws COLLECTION_REFUSED */
export async function liveWithoutVersions(
  context: RepositoryContext,
  retired: readonly Hash[],
): Promise<ReadonlySet<Hash>> {
  refuseUnknownFacts(context);
  return liveNow(context, await context.references.liveWithout(retired));
}

/** Plans a collection as if these versions were retired. @throws COLLECTION_REFUSED */
export async function planCollectionWithout(
  context: RepositoryContext,
  retired: readonly Hash[],
): Promise<CollectionPlan> {
  return context.objects.planCollection(await liveWithoutVersions(context, retired));
}

/** Adds to a plan what a collection by it also removes in tiers. */
export async function planWithTiers(
  { objects: { lowBytes } }: Pick<RepositoryContext, "objects">,
  plan: CollectionPlan,
): Promise<PlannedCollection> {
  if (!lowBytes.hasPlaces) return plan;
  return { ...plan, tiers: await lowBytes.forecastUnused(new Set(plan.dead.map(({ id }) => id))) };
}

/** Collects, and then removes low files that no pack names. @throws COLLECTION_REFUSED, PLAN_STALE */
export async function collect(context: RepositoryContext, plan: CollectionPlan): Promise<Collected> {
  return await context.maintenanceQueue.run(async () => {
    refuseUnknownFacts(context);
    await context.references.settle();
    await refuseLostReplays(context, plan);
    // Live objects are computed again under the store's lock. Facts are applied under the same lock, so
    // versions that were recorded after the plan was made are included.
    const { freedBytes } = await context.objects.collect(plan, () => liveNow(context));
    const { lowBytes } = context.objects;
    return { freedBytes, ...(lowBytes.hasPlaces ? { tiers: await lowBytes.removeUnused() } : {}) };
  });
}
