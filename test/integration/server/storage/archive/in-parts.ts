/** Plans a small fleet in parts, and stores it so. */
import type { ArchivePlan } from "../../../../../server/storage/archive/archive-plan.js";
import { applyParts, type AppliedPart } from "../../../../../server/storage/archive/apply-parts.js";
import type { PlanArchiveOptions } from "../../../../../server/storage/archive/plan-archive.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import { defined } from "../../../../../shared/defined.js";
import { applyToFleet, planFleet } from "../../../../helpers/archive-fleet.js";

/** A model has five tensors: a part ends with its second version, or its third. */
export const inParts = { maxTensors: 9, timeLimitMs: 50 };

export async function applyInParts(
  repository: FleetRepository,
  options: Pick<PlanArchiveOptions, "ratio">,
  plans: ArchivePlan[] = [],
): Promise<AppliedPart> {
  return await applyParts({
    plan: async (after) => {
      const plan = await planFleet(repository, { ...options, ...inParts, ...defined({ after }) });
      plans.push(plan);
      return plan;
    },
    apply: async (plan) => ({ planned: plan, report: await applyToFleet(repository, plan) }),
  });
}
