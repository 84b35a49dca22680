/** Lists leases, takes those of lines, and ends any: the work that holds one sees that when it needs it next. */
import { defined } from "../../../shared/defined.js";
import { byOf, describeCaller } from "../../../shared/journal/caller.js";
import { lineRollsOut, refuseOtherLine } from "../../learning/nas/search-errors.js";
import type { CallOutput, OperationInput } from "../../interface/api/server-operations.js";
import type { ListedLease } from "../../interface/api/stores/lease-definitions.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { LineLease } from "../../services/context/line-leases.js";
import { noServerRuns } from "../devices/device-errors.js";

export async function leasesOf(
  { fleets, live }: OperationsContext,
  { fleet }: OperationInput<"leases">,
): Promise<CallOutput<"leases">> {
  const repository = await fleets.get(fleet);
  const models = repository.leases.list().map((each): ListedLease => {
    const { id, versionId, further = [], holder = "a transfer", expiresAtMs, sinceMs, by } = each;
    const leased = [versionId, ...further].flatMap((one) => repository.get(one) ?? []);
    return {
      lease: id,
      models: leased.map((one) => ({ versionId: one.versionId, name: one.name, version: one.version })),
      ...{ holder, expiresAtMs },
      ...defined({ sinceMs, by }),
    };
  });
  const lines = (await live?.fleet(fleet))?.lineLeases.list() ?? [];
  return [...models, ...lines.map(lineRow)].sort((a, b) => a.expiresAtMs - b.expiresAtMs);
}

/** @throws SERVER_UNREACHABLE, USAGE for a line that may do a device's work, TRAINING_REFUSED, LEASE_UNKNOWN */
export async function leaseLine(
  { fleets, live, caller }: OperationsContext,
  { fleet, line, leaseKey: key, holder }: OperationInput<"leaseLine">,
): Promise<ListedLease> {
  refuseOtherLine(line);
  if (live === undefined) throw noServerRuns("Devices are reached");
  const rollout = (await fleets.get(fleet))
    .rollouts()
    .find((each) => each.line === line && each.phase === "running");
  if (rollout !== undefined) throw lineRollsOut(line, rollout.name);
  return lineRow((await live.fleet(fleet)).lineLeases.take({ key, line, holder, ...byOf({ by: caller }) }));
}

export async function endLease(
  { fleets, live, caller }: OperationsContext,
  { fleet, lease }: OperationInput<"endLease">,
): Promise<CallOutput<"endLease">> {
  const by = caller === undefined ? "this server" : describeCaller(caller);
  const isLine = (await live?.fleet(fleet))?.lineLeases.end(lease, by) === true;
  if (!isLine) await (await fleets.get(fleet)).leases.end(lease);
  return { lease };
}

const lineRow = ({ id, ...lease }: LineLease): ListedLease => ({ lease: id, ...lease });
