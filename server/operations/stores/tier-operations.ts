/** Operations on storage tiers: those of the home, and what a fleet moves to them. */
import { defined } from "../../../shared/defined.js";
import type { TierWork } from "../../storage/archive/tier-application.js";
import type { TierAnswer } from "../../interface/api/stores/tier-definitions.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { TierState } from "../../storage/repository/tiers/home-tiers.js";
import { archiveOf } from "./archive-operations.js";
import { underWayIn } from "./retention-operations.js";

type TierOperations = Pick<ServerOperations, "tiers" | "addTier" | "removeTier" | "planTier" | "applyTier">;

export function tierOperations(context: OperationsContext): TierOperations {
  const { home, fleets } = context;
  const workOf = async (fleet: string, tier: string): Promise<TierWork> => ({
    repository: await fleets.get(fleet),
    tier,
    busy: await underWayIn(context, fleet),
  });
  return {
    tiers: async () => (await home.tiers.states()).map(answerOf),
    addTier: async ({ name, folder }) => answerOf(await home.tiers.add(name, folder)),
    removeTier: async ({ tier }, { signal } = {}) => {
      home.tiers.guard(tier);
      const brought = { tensors: 0, bytes: 0 };
      for (const repository of await fleetsWithLowBytes(context)) {
        const { tensors, bytes } = await (await archiveOf(home)).bringBack(repository, tier, signal);
        brought.tensors += tensors;
        brought.bytes += bytes;
        signal?.throwIfAborted();
      }
      await home.tiers.remove(tier);
      return brought;
    },
    planTier: async ({ fleet, tier }) =>
      await (await archiveOf(home)).planTier(await workOf(fleet, tier), home.tiers.guard(tier)),
    applyTier: async ({ fleet, tier }, { signal } = {}) => {
      // Before anything is re-encoded for it.
      await home.tiers.guard(tier).check();
      return await (await archiveOf(home)).applyTier(await workOf(fleet, tier), defined({ signal }));
    },
  };
}

/** A tier that no fleet has anything in is not read: it may be gone for good. */
async function fleetsWithLowBytes({ home, fleets }: OperationsContext): Promise<readonly FleetRepository[]> {
  const found: FleetRepository[] = [];
  for (const fleet of await home.fleets()) {
    const repository = await fleets.get(fleet);
    if ((await repository.stats()).low.tensors > 0) found.push(repository);
  }
  return found;
}

function answerOf({ error, ...state }: TierState): TierAnswer {
  return {
    ...state,
    ...defined({ error: error && { code: error.code, message: error.message } }),
  };
}
