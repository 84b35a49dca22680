/** The transfers of a rollout to devices, as they are expected from what the devices have and from earlier ones. */
import type { PlannedTransfer } from "../../../shared/journal/facts/rollout-facts.js";
import type { LiveFleet, PredictedBytes } from "../../services/context/operations-context.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { fetchRateOf } from "../ingest/downloads/send-rates.js";
import { plannedTransfers } from "./transfer-times.js";

export type PlannedDelivery = PlannedTransfer & Pick<PredictedBytes, "isEstimated" | "metered">;

/** Plans transfers by device. @throws OBJECT_MISSING */
export async function planTransfers(
  repository: Pick<FleetRepository, "device" | "devices" | "deliveries">,
  live: Pick<LiveFleet, "predict" | "sendBytesPerSecond">,
  { summary, line, devices, maxBytesPerSecond = null }: PlannedVersion,
): Promise<ReadonlyMap<string, PlannedDelivery>> {
  const predicted = await live.predict(summary, line, devices);
  const sharedRates = [maxBytesPerSecond, live.sendBytesPerSecond];
  const of = (device: string) => repository.deliveries(device);
  const planned = plannedTransfers(
    [...predicted].map(([device, { bytes }]) => ({
      device,
      profile: repository.device(device)?.profile ?? "",
      bytes,
      deliveries: of(device),
      maxBytesPerSecond: leastOf(fetchRateOf(repository, device), ...sharedRates),
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
  /** The most bytes a second that all devices of the rollout are sent. */
  readonly maxBytesPerSecond?: number | null | undefined;
}

/** The lowest limit; null: there is none. */
export function leastOf(...limits: readonly (number | null)[]): number | null {
  const known = limits.filter((limit) => limit !== null);
  return known.length === 0 ? null : Math.min(...known);
}
