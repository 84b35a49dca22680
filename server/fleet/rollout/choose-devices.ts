/** Finds which of the selected devices can take part in a rollout, and why others cannot. Pure. */
import type { DeviceSummary } from "../../storage/repository/answers/device-answers.js";
import { isOpen, type RolloutState } from "../../storage/repository/state/rollout-state.js";
import type { Standing } from "./family.js";
import { rolloutOrder } from "./policy.js";
import type { Unreached } from "./unreached.js";

export interface ChosenDevices {
  /** The devices in the order in which they join. */
  readonly candidates: readonly string[];
  readonly excluded: readonly Unreached[];
  /** Candidates that run a version which others trained from this one: they return to it. */
  readonly goingBack: readonly string[];
  /** Candidates that an open rollout of lower priority has, too. */
  readonly takes: readonly { readonly device: string; readonly rollout: string }[];
}

type Choosing = Pick<RolloutState, "name" | "line" | "supersedes" | "policy"> & {
  /** The time of creation; undefined: it is planned only. */
  readonly createdAtMs?: number;
};
type Selected = Pick<DeviceSummary, "device" | "state" | "lines" | "active" | "assigned">;

/**
 * @param selected the devices that the selection means
 * @param others all rollouts of the fleet
 * @param standingOf how a device stands to the version (family.ts)
 */
export function chooseDevices(
  rollout: Choosing,
  selected: readonly Selected[],
  others: readonly RolloutState[],
  standingOf: (device: Selected) => Standing,
): ChosenDevices {
  const rivals = others.filter(
    (other) =>
      other.name !== rollout.name && other.name !== rollout.supersedes && other.line === rollout.line,
  );
  const excluded: Unreached[] = [];
  const candidates: string[] = [];
  const goingBack: string[] = [];
  const takes: { device: string; rollout: string }[] = [];
  for (const known of selected) {
    const { device, state, lines } = known;
    const standing = standingOf(known);
    const because =
      state !== "enrolled"
        ? `is ${state}`
        : !lines.includes(rollout.line)
          ? `has no line ${rollout.line}`
          : (rivalOf(rollout, rivals, known) ?? whyKept[standing]);
    if (because !== undefined) {
      excluded.push({ device, because });
      continue;
    }
    candidates.push(device);
    if (standing === "goes back") goingBack.push(device);
    // A rival that has not chosen the device yet does not hold it.
    const loser = rivals.find((rival) => isOpen(rival) && rival.members.has(device));
    if (loser !== undefined) takes.push({ device, rollout: loser.name });
  }
  return { candidates: rolloutOrder(rollout.name, candidates), excluded, goingBack, takes };
}

/** The reasons of devices that need not be given the version. */
const whyKept: Readonly<Partial<Record<Standing, string>>> = {
  has: "runs the version, or its own fine-tune of it",
  newer: "was given a version after this rollout was created that was trained from the version",
};

/** Returns why another rollout of the line keeps the device. */
function rivalOf(
  { policy, line, createdAtMs }: Choosing,
  rivals: readonly RolloutState[],
  { device, assigned }: Selected,
): string | undefined {
  const own = policy.priority ?? 0;
  for (const rival of rivals) {
    const member = rival.members.get(device);
    const other = rival.policy.priority ?? 0;
    if (member === undefined || other < own) continue;
    if (isOpen(rival) && other === own) return `is in the rollout ${rival.name} of this line`;
    if (other === own) continue;
    if (isOpen(rival) && member.judged === undefined)
      return `is in the rollout ${rival.name} of this line, which goes first`;
    // Two rollouts were open at the same time: the one that went first has decided what the device runs.
    const ours = assigned?.[line];
    const isDecided = ours?.rollout === rival.name && ours.versionId === rival.versionId;
    const wasOpen = isOpen(rival) || (rival.phase === "done" && (createdAtMs ?? Infinity) < rival.phaseAtMs);
    if (isDecided && wasOpen) return `got the version of the rollout ${rival.name}, which went first`;
  }
  return undefined;
}
