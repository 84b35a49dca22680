/** Finds claims of a device that is about to be revoked or replaced. Nobody else has what the server lacks of them. */
import { StemmaError } from "../../../shared/errors.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

/** Counts the claims of a device that wait for a replay, for its parameters, or for nothing any more. */
export function claimsOf(
  repository: Pick<FleetRepository, "claims">,
  device: string,
): { readonly waiting: number; readonly wanted: number; readonly lost: number } {
  const claims = repository.claims().filter(({ record }) => record.device === device);
  const lost = claims.filter(({ isRecoverable }) => !isRecoverable).length;
  const waiting = claims.filter(({ ended }) => ended === undefined).length;
  return { waiting, wanted: claims.length - lost - waiting, lost };
}

/**
 * Asks the device for the parameters of its claims, and refuses while there are any.
 * @throws CLAIMS_OPEN
 */
export async function refuseOpenClaims(
  { live }: Pick<OperationsContext, "live">,
  repository: FleetRepository,
  {
    device,
    evenIfClaimed = false,
  }: { readonly device: string; readonly evenIfClaimed?: boolean | undefined },
): Promise<void> {
  const { waiting, wanted } = claimsOf(repository, device);
  if (evenIfClaimed || waiting + wanted === 0 || repository.device(device)?.state !== "enrolled") return;
  const liveFleet = await live?.fleet(repository.fleet);
  await liveFleet?.wantClaims(device);
  const asked =
    liveFleet?.isOnline(device) === true
      ? "The device is asked for them now: try again when `stemma replay list` shows none of its claims."
      : "The device is not connected: connect it, or let the server replay them, and try again then.";
  throw new StemmaError(
    "CLAIMS_OPEN",
    `The parameters of ${waiting + wanted === 1 ? "a model" : `${waiting + wanted} models`} that ${device} reported ` +
      `are on that device only. ${asked} ` +
      `--even-if-claimed goes on without them: those that no replay proves are lost then.`,
    { device, waiting, wanted },
  );
}
