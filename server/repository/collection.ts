/** Collection for a fleet: what is live, plan, execution. The store does the moving and deleting. */
import { StemmaError } from "../../shared/errors.js";
import type { ObjectKind } from "../../shared/model/model.js";
import type { CollectionPlan } from "../../shared/objects/object-store.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { RepositoryContext } from "./context.js";

/**
 * Kinds that other things than versions may need (replays, recipes by hash): never collected by this release.
 */
const pinnedKinds: ReadonlySet<ObjectKind | "tensor"> = new Set(["engine", "recipe", "dataset"]);

function liveNow(
  { references, objects }: RepositoryContext,
  needed: ReadonlySet<Hash> = references.live(),
): ReadonlySet<Hash> {
  const live = new Set(needed);
  for (const { id, kind } of objects.list()) if (pinnedKinds.has(kind)) live.add(id);
  return live;
}

/** @throws COLLECTION_REFUSED where a fact that cannot be read may keep something */
export function refuseUnknownFacts({ state, fleet }: RepositoryContext): void {
  if (state.unknownFacts > 0)
    throw new StemmaError(
      "COLLECTION_REFUSED",
      `The journal of ${fleet} has ${state.unknownFacts} facts that this Stemma does not know; they may keep something. Collect with the newer Stemma that wrote them.`,
      { unknown: state.unknownFacts },
    );
}

export async function liveObjects(context: RepositoryContext): Promise<ReadonlySet<Hash>> {
  await context.references.settle();
  return liveNow(context);
}

/** @throws COLLECTION_REFUSED */
export async function planCollection(context: RepositoryContext): Promise<CollectionPlan> {
  refuseUnknownFacts(context);
  return context.objects.planCollection(await liveObjects(context));
}

/** What a collection would do once these versions were retired. @throws COLLECTION_REFUSED */
export async function planCollectionWithout(
  context: RepositoryContext,
  retired: readonly Hash[],
): Promise<CollectionPlan> {
  refuseUnknownFacts(context);
  const live = await context.references.liveWithout(retired);
  return context.objects.planCollection(liveNow(context, live));
}

/** @throws COLLECTION_REFUSED, PLAN_STALE */
export async function collect(
  context: RepositoryContext,
  plan: CollectionPlan,
): Promise<{ readonly freedBytes: number }> {
  return await context.maintenanceQueue.run(async () => {
    refuseUnknownFacts(context);
    await context.references.settle();
    // Asked again under the store's lock: what was recorded since is counted, because its fact was applied
    // under that lock.
    return await context.objects.collect(plan, () => liveNow(context));
  });
}
