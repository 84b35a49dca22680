/** Rollouts as text for the terminal. Pure. */
import { formatBytes } from "../../../shared/cli/output.js";
import type { RolloutAnswer, RolloutDetailAnswer } from "../../interface/api/rollouts/rollout-definitions.js";

const sinceThen = "given another version or enrolled again since";
const beforeThat = "given another version, enrolled again or no longer served before";

/** A few lines: what it gives to whom, how far it is and why. */
export function headOfRollout({
  name,
  model,
  line,
  phase,
  because,
  wave,
  policy,
  devices,
}: RolloutAnswer): readonly string[] {
  const { passed, switched, undecided, kept, worse, failed, left, unknown } = devices;
  const { replaced = 0, missed = 0 } = devices;
  const counted = [
    [switched, replaced === 0 ? "switched" : `switched (${replaced} ${sinceThen})`],
    [passed - switched - missed, "switching"],
    [missed, `${beforeThat} they switched`],
    [undecided, "undecided"],
    [kept, "kept their own"],
    [worse, "worse"],
    [failed, "failed"],
    [left, "left"],
    [unknown, "unknown"],
  ] as const;
  const shown = counted.filter(([number]) => number > 0).map(([number, what]) => `${number} ${what}`);
  return [
    `${name}: ${model} to ${line}, ${phase}, wave ${wave} of ${policy.waves.length}`,
    ...(because === "" ? [] : [`  ${because}`]),
    ...(policy.priority === undefined ? [] : [`  priority ${policy.priority}`]),
    ...(policy.maxBytesPerSecond === undefined
      ? []
      : [`  sends at most ${formatBytes(policy.maxBytesPerSecond)}/s to all its devices together`]),
    ...(shown.length === 0 ? [] : [`  devices: ${shown.join(", ")}`]),
  ];
}

/** Describes a device's result, in one line. */
export function describeMember({
  device,
  wave,
  verdict,
  switched,
  givenOther,
  because,
}: RolloutDetailAnswer["members"][number]): string {
  const passed = switched
    ? `switched${givenOther === true ? `, ${sinceThen}` : ""}`
    : givenOther === true
      ? `${beforeThat} it switched`
      : "switching";
  const state = verdict === "passed" ? passed : (verdict ?? "undecided");
  return `${wave} ${device} ${state}${because === "" ? "" : `: ${because}`}`;
}

/** Describes what is new since the last look. Pure. */
export function changesOf(
  before: RolloutDetailAnswer | undefined,
  now: RolloutDetailAnswer,
): readonly string[] {
  const known = new Map(before?.members.map((member) => [member.device, member]));
  const newPhase = before?.phase === now.phase ? [] : [`${now.name} is ${now.phase}`];
  const newWave = (before?.wave ?? 0) < now.wave ? [`wave ${now.wave} of ${now.policy.waves.length}`] : [];
  const members = now.members.filter((member) => {
    const last = known.get(member.device);
    return (
      last?.verdict !== member.verdict ||
      last.switched !== member.switched ||
      last.givenOther !== member.givenOther
    );
  });
  const outcomes = members.map(describeMember);
  const isOver = now.phase !== "created" && now.phase !== "running";
  return isOver ? [...newWave, ...outcomes, ...newPhase] : [...newPhase, ...newWave, ...outcomes];
}
