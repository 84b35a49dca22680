/**
 * Drops tensors of proved versions by the fleet's policies, as `storage drop` does when a person asks for it. What no
 * replay on this server has proved with data that stay keeps its tensors: a policy trains nothing. Where a policy keeps
 * tensors, the data of proved versions may go instead.
 */
import { defined } from "../../../shared/defined.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import type { DropReport } from "../../interface/api/stores/drop-schemas.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { DropPolicySetting } from "../../storage/repository/retention/drop-policies.js";
import { printScope, ruleFor } from "../../storage/repository/retention/retention-plan.js";
import type { DropCandidate } from "../../storage/repository/versions/drop-version.js";
import { dropDataByPolicy } from "./drop-data-by-policy.js";
import { dropTask, runDrops } from "./drop-tensors.js";
import { ReplayJobs } from "./replay-jobs.js";
import { counted } from "../../../shared/printable.js";

const dayMs = 86_400_000;

/** @throws what `dropByReplay` throws */
export async function dropByPolicy(
  context: OperationsContext,
  { fleet, dryRun = false }: OperationInput<"applyDropPolicies">,
  signal?: AbortSignal,
): Promise<DropReport> {
  const repository = await context.fleets.get(fleet);
  const policies = repository.dropPolicies();
  const nowMs = context.home.ports.clock.now();
  const replays = new ReplayJobs(context.home, fleet);
  const data = await dropDataByPolicy(repository, { nowMs, replays, isDry: dryRun, signal });
  const isMeant =
    (setting: DropPolicySetting) =>
    ({ versionId, replayMs, state: { recordedAtMs } }: DropCandidate): boolean => {
      const record = repository.get(versionId)?.record;
      const { afterDays } = setting.policy;
      if (record === undefined || replayMs === undefined || afterDays === null) return false;
      return ruleFor(policies, record) === setting && recordedAtMs <= nowMs - afterDays * dayMs;
    };
  const reports: DropReport[] = [];
  // The narrowest bound first, so that a wider one is left what remains of it.
  for (const setting of [...policies].sort((a, b) => a.policy.maxMinutes - b.policy.maxMinutes)) {
    const { afterDays, maxMinutes } = setting.policy;
    if (afterDays === null) continue;
    const because = `policy of ${printScope(setting.scope)}: after ${counted(afterDays, "day")}`;
    const task = await dropTask(context, { fleet, maxMinutes, because, signal });
    reports.push(await runDrops(task, isMeant(setting), dryRun));
  }
  return {
    dropped: reports.flatMap(({ dropped }) => dropped),
    kept: reports.flatMap(({ kept }) => kept.filter(({ isFit }) => isFit)),
    keptCount: reports.reduce((sum, { keptCount }) => sum + keptCount, 0),
    tensorBytes: reports.reduce((sum, { tensorBytes }) => sum + tensorBytes, 0),
    freedBytes: reports.reduce((sum, { freedBytes }) => sum + freedBytes, 0),
    keptBytes: reports.reduce((sum, { keptBytes }) => sum + keptBytes, 0),
    ...defined({ data }),
  };
}
