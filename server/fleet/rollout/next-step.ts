/** Decides what a running rollout does next. Pure: its state and what its devices do in, one step out. */
import {
  comparisonsOf,
  type RolloutMember,
  type RolloutState,
} from "../../storage/repository/state/rollout-state.js";
import { evidenceOnFleet, fleetThreshold } from "./evidence.js";
import { waveSize } from "./policy.js";
import { unreachedLines, whyNobody, type Unreached } from "./unreached.js";
import { counted } from "../../../shared/printable.js";

export type Step =
  /** The step in which these devices fetch the version and measure it, unless they do so already. */
  | { readonly do: "judge"; readonly devices: readonly string[] }
  /** The devices of the next wave are to be chosen: see nextWave. */
  | { readonly do: "choose" }
  /** The step of waiting until this time, in ms since 1970, unless a device changes. */
  | { readonly do: "wait"; readonly untilMs: number }
  | { readonly do: "fail"; readonly because: string }
  /** The deadline has passed. */
  | { readonly do: "expire"; readonly because: string }
  | { readonly do: "end" };

/** The state of a fleet's devices that a rollout's next step depends on. */
export interface RolloutView {
  readonly nowMs: number;
  /** True if the device has run the version since it was assigned, or got another assignment, or is gone. */
  hasSwitched(device: string): boolean;
}

const minuteMs = 60_000;

export function nextStep(rollout: RolloutState, view: RolloutView): Step {
  const failure = failureOf(rollout);
  if (failure !== undefined) return { do: "fail", because: failure };
  const { deadlineMinutes } = rollout.policy;
  const { startedAtMs = Infinity } = rollout;
  if (deadlineMinutes !== undefined && view.nowMs >= startedAtMs + deadlineMinutes * minuteMs)
    return { do: "expire", because: `it was to end within ${deadlineMinutes} minutes of its start` };
  if (rollout.wave > 0) {
    const step = waveStep(rollout, view);
    if (step !== undefined) return step;
  }
  return { do: rollout.wave >= rollout.policy.waves.length ? "end" : "choose" };
}

/**
 * The devices of the next wave; none: the rollout has reached all.
 * @param candidates devices that can take part, in the order in which they join
 */
export function nextWave(
  { policy, members, wave }: Pick<RolloutState, "policy" | "members" | "wave">,
  candidates: readonly string[],
): readonly string[] {
  const waiting = candidates.filter((device) => !members.has(device));
  const size = policy.waves[wave];
  return size === undefined ? [] : waiting.slice(0, waveSize(size, waiting.length + members.size));
}

/**
 * The step where no device can join the next wave. A rollout that has reached nobody is not done.
 * @param unreached the selected devices that cannot join
 */
export function stepWithoutDevices(
  { policy, members }: Pick<RolloutState, "policy" | "members">,
  unreached: readonly Unreached[],
): { readonly phase: "done" | "paused"; readonly because: string } | undefined {
  if (policy.wait === true) return undefined;
  if (members.size === 0) return { phase: "paused", because: whyNobody(unreached) };
  const others = unreached.length === 0 ? "" : `; not reached: ${unreachedLines(unreached).join("; ")}`;
  return { phase: "done", because: `no device is left that can take part${others}` };
}

/** Returns why the rollout must not go on, by what was measured since it last went on. */
export function failureOf({ name, policy, members, wave, resumedAtMs }: RolloutState): string | undefined {
  const judged = [...members.values()].filter(({ judged: since }) => (since?.atMs ?? 0) > resumedAtMs);
  const ofWave = [...members.values()].filter((member) => member.wave === wave);
  const failed = judged.filter((member) => member.wave === wave && isFailed(member));
  if (failed.length > policy.maxFailed * ofWave.length) {
    const named = failed
      .slice(0, 3)
      .map(({ device, judged: why }) => `${device} ${why?.verdict ?? ""}: ${why?.because ?? ""}`);
    const others = failed.length > named.length ? `, and ${failed.length - named.length} more` : "";
    return `${failed.length} of the ${ofWave.length} in wave ${wave} of ${name} failed (${named.join("; ")}${others})`;
  }
  const since = [...members.values()].map((member) =>
    comparisonsOf(member).flatMap(({ atMs, compared }) => (atMs > resumedAtMs ? [compared] : [])),
  );
  const devices = since.filter((comparisons) => comparisons.length > 0).length;
  return evidenceOnFleet(since.flat(), policy.margin) >= fleetThreshold(policy.level)
    ? `by the samples of ${plural(devices)} together, the version is worse than what they ran`
    : undefined;
}

function isFailed({ judged }: RolloutMember): boolean {
  return judged?.verdict === "worse" || judged?.verdict === "failed";
}

/** Returns the next step of the newest wave; undefined: the next wave can begin. */
function waveStep(rollout: RolloutState, view: RolloutView): Step | undefined {
  const { policy, members, wave, waveAtMs, resumedAtMs, name } = rollout;
  const { nowMs } = view;
  const ofWave = [...members.values()].filter((member) => member.wave === wave);
  // Whoever is silent in one wave may still answer in a later one.
  const undecided = [...members.values()].filter(({ judged }) => judged === undefined);
  const pending = ofWave.filter(
    ({ device, judged }) =>
      judged === undefined || (judged.verdict === "passed" && !view.hasSwitched(device)),
  );
  const deadlineMs = waveAtMs + policy.timeoutMinutes * minuteMs;
  if (pending.length > 0 && nowMs < deadlineMs)
    return undecided.length > 0
      ? { do: "judge", devices: undecided.map(({ device }) => device) }
      : { do: "wait", untilMs: deadlineMs };
  // A device that cannot tell is as silent as one that does not answer.
  const answered = ofWave.filter(({ judged }) => judged !== undefined && judged.verdict !== "unknown");
  const isAccepted = resumedAtMs > waveAtMs && (pending.length === 0 || resumedAtMs >= deadlineMs);
  if (!isAccepted && answered.length < policy.minAnswered * ofWave.length)
    return {
      do: "fail",
      because: `only ${answered.length} of the ${ofWave.length} devices of wave ${wave} of ${name} answered within ${policy.timeoutMinutes} minutes`,
    };
  const settledMs =
    pending.length > 0 ? deadlineMs : Math.max(waveAtMs, ...ofWave.map(({ judged }) => judged?.atMs ?? 0));
  const soakedMs = settledMs + policy.soakMinutes * minuteMs;
  if (nowMs < soakedMs && wave < policy.waves.length) return { do: "wait", untilMs: soakedMs };
  return undefined;
}

function plural(devices: number): string {
  return counted(devices, "device");
}
