/**
 * Applies a storage plan to a fleet while the fleet remains in use. Tensors are rewritten one by one into
 * packs of bounded size. Each pack is durable before the next is begun, and a tensor is written after those
 * that it is encoded against. So a crash between any two steps leaves every tensor readable, and the next
 * application continues with what is left. The fleet's garbage collection drops superseded copies.
 */
import type { Hash } from "../../../shared/tensor/tensor.js";
import { isOutside, type ArchivePlan } from "./archive-plan.js";
import { findHeldGroups, type HeldGroup } from "./held-groups.js";
import { storedBytesWithHeld } from "./held-tensors.js";
import { findPendingWork } from "./pending-work.js";
import type { ApplyOptions, ApplyParts, ApplyReport, ApplyTarget } from "./plan-application.js";
import { PlanApplier } from "./plan-applier.js";

/**
 * @param plan made by planArchive, or checked by readArchivePlan
 * @throws PLAN_INVALID where the plan has a kind of edge that this version cannot write; FILE_FAILED or
 *   STORE_FAILED where the disk fails (packs committed before stay)
 */
export async function applyPlan(
  parts: ApplyParts,
  plan: ArchivePlan,
  options: ApplyOptions = {},
): Promise<ApplyReport> {
  const { target, clock } = parts;
  const startMs = clock.monotonic();
  const live = await target.liveObjects();
  const work = findPendingWork(plan, target.objects, live);
  const ids = [...new Set(plan.plan.vertices.map(({ vertex }) => vertex as Hash))];
  const outside = new Set(
    plan.plan.vertices.filter((vertex) => isOutside(vertex)).map(({ vertex }) => vertex as Hash),
  );
  const own = ids.filter((id) => !outside.has(id));
  const bytesBefore = storedBytesWithHeld(target.objects, own, outside);
  const applier = new PlanApplier(parts, options, groupsToRelease(plan, target, ids));
  if (options.dryRun !== true) await applier.run(work.items);
  const { totals } = applier;
  return {
    fleet: plan.fleet,
    dryRun: options.dryRun === true,
    stopped: applier.stopped,
    rewritten: totals.rewrittenTensors,
    left:
      work.items.length -
      totals.rewrittenTensors -
      applier.notSmallerCount -
      applier.failed.length -
      applier.stale.length,
    already: work.doneCount,
    notSmaller: applier.notSmallerCount,
    kept: work.keptCount - outside.size,
    unplanned: work.unplannedCount,
    stale: [...work.stale, ...applier.stale],
    failed: applier.failed,
    bytesBefore,
    bytesPredicted: plan.summary.bytesPlanned,
    bytesReached: storedBytesWithHeld(target.objects, own, outside),
    writtenBytes: totals.writtenBytes,
    packs: totals.packs,
    freedBytes: totals.freedBytes,
    durationMs: clock.monotonic() - startMs,
    hasNext: plan.part?.hasNext ?? false,
  };
}

/**
 * A plan with the default budget never enlarges a store: what grows must be covered by what was saved before, or
 * free tensors of more bytes. Undefined for other plans, which may.
 */
function groupsToRelease(
  { ratio }: ArchivePlan,
  { objects }: ApplyTarget,
  ids: readonly Hash[],
): readonly HeldGroup[] | undefined {
  return ratio === "auto" ? findHeldGroups(objects, ids) : undefined;
}
