/** Which of the selected devices can take part in a rollout, and why others cannot. Pure. */
import type { Hash } from "../../shared/tensor/tensor.js";
import type { DeviceSummary } from "../repository/fleet-repository.js";
import { isOpen, type RolloutState } from "../repository/state/rollout-state.js";
import { rolloutOrder } from "./policy.js";

export interface ChosenDevices {
  /** In the order in which they join. */
  readonly candidates: readonly string[];
  readonly excluded: readonly { readonly device: string; readonly because: string }[];
}

/**
 * @param selected the devices that the selection means
 * @param others all rollouts of the fleet
 * @param family the version and everything that was trained from it
 */
export function chooseDevices(
  rollout: Pick<RolloutState, "name" | "line" | "supersedes">,
  selected: readonly Pick<DeviceSummary, "device" | "state" | "lines" | "active">[],
  others: readonly RolloutState[],
  family: ReadonlySet<Hash>,
): ChosenDevices {
  const rivals = others.filter(
    (other) =>
      other.name !== rollout.name &&
      other.name !== rollout.supersedes &&
      other.line === rollout.line &&
      isOpen(other),
  );
  const excluded: { device: string; because: string }[] = [];
  const candidates: string[] = [];
  for (const { device, state, lines, active } of selected) {
    const runs = active[rollout.line]?.versionId;
    // A rival that has not chosen the device yet does not hold it.
    const rival = rivals.find(({ members }) => members.has(device));
    const because =
      state !== "enrolled"
        ? `is ${state}`
        : !lines.includes(rollout.line)
          ? `has no line ${rollout.line}`
          : rival !== undefined
            ? `is in the rollout ${rival.name} of this line`
            : runs !== undefined && family.has(runs)
              ? "runs the version, or one trained from it"
              : undefined;
    if (because === undefined) candidates.push(device);
    else excluded.push({ device, because });
  }
  return { candidates: rolloutOrder(rollout.name, candidates), excluded };
}
