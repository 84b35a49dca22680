/** Operations on retention: rules, forecasts and application. Emits the events that report an application. */
import { defined } from "../../../shared/defined.js";
import { isStemmaError } from "../../../shared/errors.js";
import { refuseMisspeltScope } from "../../services/context/expected-names.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { RetentionReport } from "../../interface/api/stores/storage-schemas.js";
import type { OperationInput, ServerOperations } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";

type RetentionOperations = Pick<
  ServerOperations,
  "retention" | "setRetention" | "forecastRetention" | "applyRetention"
>;

export function retentionOperations(context: OperationsContext): RetentionOperations {
  const { fleets } = context;
  return {
    retention: async ({ fleet }) => (await fleets.get(fleet)).retention.settings(),
    setRetention: async ({ fleet, scope, rule, force }) => {
      const repository = await fleets.get(fleet);
      if (rule !== null && force !== true) refuseMisspeltScope(repository, scope);
      return repository.retention.set(scope, rule);
    },
    forecastRetention: async ({ fleet, force, ...options }) => {
      const repository = await fleets.get(fleet);
      const { trying } = options;
      if (trying != null && trying.rule !== null && force !== true)
        refuseMisspeltScope(repository, trying.scope);
      const busy = await underWayIn(context, fleet);
      return await repository.retention.forecast({ ...defined(options), busy });
    },
    applyRetention: (input) => applyRetention(context, input),
  };
}

/** Versions that running transfers to and from devices rely on. */
export async function underWayIn(
  { live }: OperationsContext,
  fleet: string,
): Promise<() => ReadonlyMap<Hash, string>> {
  const liveFleet = await live?.fleet(fleet);
  return () => liveFleet?.underWay() ?? new Map();
}

async function applyRetention(
  context: OperationsContext,
  { fleet, collect = false }: OperationInput<"applyRetention">,
): Promise<RetentionReport> {
  const { fleets, live } = context;
  const repository = await fleets.get(fleet);
  const outcome = await repository.retention.apply({ busy: await underWayIn(context, fleet) });
  for (const { versionId, name, version, device, line, because } of outcome.retired)
    live?.events.emit({ event: "retired", fleet, device, line, versionId, name, version, because });
  const freed = collect ? await collectNow(repository) : undefined;
  live?.events.emit({
    event: "retention",
    fleet,
    retired: outcome.retired.length,
    kept: outcome.kept,
    freedBytes: freed ?? null,
  });
  return { ...outcome, ...defined({ freedBytes: freed }) };
}

const maxPlans = 3;

/**
 * Plans again, a few times, when another collection (by a user or the archive) between planning and execution
 * has made the plan stale.
 */
async function collectNow(repository: Pick<FleetRepository, "planCollection" | "collect">): Promise<number> {
  for (let plans = 1; ; plans++) {
    try {
      return (await repository.collect(await repository.planCollection())).freedBytes;
    } catch (error) {
      if (plans === maxPlans || !isStemmaError(error, "PLAN_STALE")) throw error;
    }
  }
}
