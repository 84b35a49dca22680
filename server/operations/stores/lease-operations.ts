/** Lists leases, takes those of lines, and ends any: the work that holds one sees that when it needs it next. */
import { defined } from "../../../shared/defined.js";
import { byOf, describeCaller } from "../../../shared/journal/caller.js";
import { refuseOtherLine } from "../../learning/nas/search-errors.js";
import type { CallOutput, OperationInput } from "../../interface/api/server-operations.js";
import type { ListedLease } from "../../interface/api/stores/lease-definitions.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { LineLease } from "../../storage/repository/line-leases.js";
import { noServerRuns } from "../devices/device-errors.js";

export function leasesOf(repository: FleetRepository): CallOutput<"leases"> {
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
  return [...models, ...repository.lineLeases.list().map(lineRow)].sort(
    (a, b) => a.expiresAtMs - b.expiresAtMs,
  );
}

/** @throws SERVER_UNREACHABLE, USAGE for a line that may do a device's work, TRAINING_REFUSED, LEASE_UNKNOWN */
export async function leaseLine(
  { fleets, live, caller }: OperationsContext,
  { fleet, line, lease: id, holder }: OperationInput<"leaseLine">,
): Promise<ListedLease> {
  if (live === undefined) throw noServerRuns("Devices are reached");
  refuseOtherLine(line);
  return lineRow((await fleets.get(fleet)).lineLeases.take({ id, line, holder, ...byOf({ by: caller }) }));
}

export async function endLease(
  { fleets, caller }: OperationsContext,
  { fleet, lease }: OperationInput<"endLease">,
): Promise<CallOutput<"endLease">> {
  const repository = await fleets.get(fleet);
  const by = caller === undefined ? "this server" : describeCaller(caller);
  if (!repository.lineLeases.end(lease, by)) await repository.leases.end(lease);
  return { lease };
}

const lineRow = ({ id, ...lease }: LineLease): ListedLease => ({ lease: id, ...lease });
