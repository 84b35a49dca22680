/**
 * Garbage collection of a fleet: finds the live objects, and plans and runs collections. The store itself
 * rewrites and deletes packs.
 */
import type { CollectionPlan, LiveObjects } from "../../../shared/objects/object-store.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { unknownFactsKeep } from "./repository-errors.js";
import { claimedObjects } from "./versions/claims.js";
import type { RepositoryContext } from "./context.js";
import { refuseLostReplays } from "./versions/replay-inputs.js";
import { provingEngines } from "./engine-needs.js";
import type { Collected, PlannedCollection } from "./tiers/tier-port.js";

/**
 * Returns the objects that stay: what versions need, what claims name, recipes that are approved or that devices were
 * given, and engines.
 */
function liveNow(context: RepositoryContext, needed: LiveObjects = context.references.live()): LiveObjects {
  const { objects, state } = context;
  const others = new Set(claimedObjects(context));
  // Devices that were given a recipe may still report models that it trained, after its approval was revoked.
  const given = new Set([...state.devices.values()].flatMap(({ recipes }) => [...recipes]));
  for (const { recipe, revoked } of state.recipes.values())
    if (revoked === undefined || (given.has(recipe) && objects.has(recipe))) others.add(recipe);
  const isKeptEngine = keptEngines(context);
  return {
    has: (id) => needed.has(id) || others.has(id) || isKeptEngine(id),
    *keys() {
      yield* needed.keys();
      yield* others;
    },
  };
}

/**
 * True for stored engines that stay: those that a person approved, until they are removed, those that proved kept
 * versions, and those of a build that no version has named yet: they were stored because one will. Once a version has
 * named an engine of a build, it goes with the last version that needs it, as recipes and data do.
 */
function keptEngines(context: RepositoryContext): (id: Hash) => boolean {
  const { objects, references, state } = context;
  const proving = provingEngines(context);
  return (id) =>
    objects.stat(id)?.kind === "engine" &&
    (proving.has(id) ||
      state.engines.get(id)?.source === "approval" ||
      !(references.namesEngine(id) || state.removedEngines.has(id)));
}

/** @throws COLLECTION_REFUSED where the journal has facts of unknown types, which may keep objects */
export function refuseUnknownFacts({ state, fleet }: RepositoryContext): void {
  if (state.unknownFacts > 0) throw unknownFactsKeep(fleet, state.unknownFacts);
}

export async function liveObjects(context: RepositoryContext): Promise<LiveObjects> {
  await context.references.settle();
  return liveNow(context);
}

/** @throws COLLECTION_REFUSED */
export async function planCollection(context: RepositoryContext): Promise<CollectionPlan> {
  refuseUnknownFacts(context);
  await context.objects.merging.hold();
  return await context.objects.planCollection(await liveObjects(context));
}

/** The objects that would stay if these versions were retired. @throws COLLECTION_REFUSED */
export async function liveWithoutVersions(
  context: RepositoryContext,
  retired: readonly Hash[],
): Promise<LiveObjects> {
  refuseUnknownFacts(context);
  return liveNow(context, await context.references.liveWithout(retired));
}

/** Plans a collection as if these versions were retired. @throws COLLECTION_REFUSED */
export async function planCollectionWithout(
  context: RepositoryContext,
  retired: readonly Hash[],
): Promise<CollectionPlan> {
  return await context.objects.planCollection(await liveWithoutVersions(context, retired));
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
