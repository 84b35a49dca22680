/** Compares the transfers of a rollout with what was planned when each device's wave began. Pure. */
import { defined } from "../../../shared/defined.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { RolloutReportAnswer } from "../../interface/api/rollouts/rollout-definitions.js";
import type { Delivery } from "../../storage/repository/state/device-state.js";
import type { RolloutState } from "../../storage/repository/state/rollout-state.js";
import { medianError } from "./transfer-times.js";

export function reportOf(
  { name, versionId, members, phase }: Pick<RolloutState, "name" | "versionId" | "members" | "phase">,
  deliveriesOf: (device: string) => readonly Delivery[],
): Omit<RolloutReportAnswer, "excluded"> {
  const devices = [...members.values()].map(({ device, wave, joinedAtMs, planned, judged }) => {
    const delivery = deliveryOf(deliveriesOf(device), versionId, joinedAtMs);
    return defined({
      device,
      wave,
      planned,
      actual: delivery && { bytes: delivery.bytes, ms: delivery.durationMs, atMs: delivery.atMs },
      decidedMs: judged && Math.max(0, judged.atMs - joinedAtMs),
    });
  });
  const pairs = devices.flatMap(({ planned, actual }) =>
    planned === undefined || actual === undefined ? [] : [{ planned, actual }],
  );
  const timed = pairs.flatMap(({ planned, actual }) =>
    planned.ms === null ? [] : [{ planned: planned.ms, actual: actual.ms }],
  );
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
  return {
    name,
    phase,
    devices,
    compared: pairs.length,
    plannedBytes: sum(pairs.map(({ planned }) => planned.bytes)),
    actualBytes: sum(pairs.map(({ actual }) => actual.bytes)),
    bytesError: medianError(
      pairs.map(({ planned, actual }) => ({ planned: planned.bytes, actual: actual.bytes })),
    ),
    timeError: medianError(timed),
  };
}

/** The first delivery of the version since the device joined. */
function deliveryOf(
  deliveries: readonly Delivery[],
  versionId: Hash,
  joinedAtMs: number,
): Delivery | undefined {
  return deliveries.find((one) => one.versionId === versionId && one.atMs >= joinedAtMs);
}
