/** The transfers of a rollout to devices, as they are expected from what the devices have and from earlier ones. */
import type { PlannedTransfer } from "../../shared/journal/fact.js";
import type { LiveFleet, PredictedBytes } from "../context/operations-context.js";
import type { FleetRepository, VersionSummary } from "../repository/fleet-repository.js";
import { plannedTransfers } from "./transfer-times.js";

export type PlannedDelivery = PlannedTransfer & Pick<PredictedBytes, "isEstimated" | "metered">;

/** By device. @throws OBJECT_MISSING */
export async function planTransfers(
  repository: Pick<FleetRepository, "device" | "devices" | "deliveries">,
  live: Pick<LiveFleet, "predict">,
  { summary, line, devices }: PlannedVersion,
): Promise<ReadonlyMap<string, PlannedDelivery>> {
  const predicted = await live.predict(summary, line, devices);
  const of = (device: string) => repository.deliveries(device);
  const planned = plannedTransfers(
    [...predicted].map(([device, { bytes }]) => ({
      device,
      profile: repository.device(device)?.profile ?? "",
      bytes,
      deliveries: of(device),
    })),
    repository.devices().map(({ device, profile }) => ({ profile, deliveries: of(device) })),
  );
  return new Map(
    [...predicted].map(([device, { bytes, isEstimated, metered }]) => [
      device,
      { bytes, ms: planned.get(device)?.ms ?? null, isEstimated, metered },
    ]),
  );
}

interface PlannedVersion {
  readonly summary: VersionSummary;
  readonly line: string;
  readonly devices: readonly string[];
}
