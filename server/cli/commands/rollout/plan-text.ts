/** The plan of a rollout as text for the terminal. Pure. */
import { formatBytes, formatDuration } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import { unreachedLines } from "../../../fleet/rollout/unreached.js";
import type { RolloutPlanAnswer } from "../../../interface/api/rollouts/rollout-definitions.js";

/** Devices of a wave that are named in a plan. */
const namedDevices = 6;
/** The limits of every count and time above it. */
const unknowns = "not known: which devices will be away, and how fast their processors compare";

export function describePlan({
  model,
  line,
  waves,
  notReached,
  excluded,
  goingBack,
  gates,
  deferring,
  takes,
  noModel,
  offline,
  refusing,
  doubts = [],
  bytes,
  storageBytes,
  transfers,
  expectedMs,
  policy,
  fleetBytesPerSecond,
}: RolloutPlanAnswer): string {
  const devices = waves.flat().length;
  return [
    `${model} to ${line} of ${plural(devices)}`,
    ...doubts.map((doubt) => `would be refused: ${doubt}`),
    ...waves.map(
      (wave, index) => `wave ${index + 1}: ${wave.length === 0 ? "no device is left" : someOf(wave)}`,
    ),
    ...(notReached > 0 ? [`in no wave: ${plural(notReached)}; end the waves with rest to reach all`] : []),
    ...(goingBack > 0 ? [`back from versions that others trained from it: ${plural(goingBack)}`] : []),
    ...(noModel > 0 ? [`without a comparison, since they run nothing: ${plural(noModel)}`] : []),
    ...(refusing.length > 0
      ? [`would refuse it, since it is not a valid release: ${someOf(refusing)}; see stemma release list`]
      : []),
    ...(offline > 0 ? [`not connected now: ${offline}`] : []),
    ...(transfers === undefined
      ? [`at most ${formatBytes(bytes)} to each device, less what it has already`]
      : describeTransfers(transfers, expectedMs ?? null)),
    unknowns,
    ...describeLongest(waves, policy),
    ...describeRates(policy.maxBytesPerSecond, fleetBytesPerSecond),
    `needs ${formatBytes(storageBytes)} free on each device`,
    ...describeGates(gates, policy),
    ...deferring.slice(0, 20).map(({ device, because }) => `would wait: ${device}, ${because}`),
    ...(deferring.length > 20 ? [`would wait: ${deferring.length - 20} more`] : []),
    ...[...new Set(takes.map(({ rollout }) => rollout))].map((loser) => {
      const devices = takes.filter(({ rollout }) => rollout === loser).map(({ device }) => device);
      return `goes before the rollout ${loser}: ${someOf(devices)}`;
    }),
    ...unreachedLines(excluded).map((each) => `not: ${each}`),
  ].join("\n");
}

/** Describes how many devices can answer each kind of gate, why others cannot, and what measures them. */
function describeGates(
  gates: RolloutPlanAnswer["gates"],
  policy: Pick<RolloutPlanAnswer["policy"], "live" | "unmeasured">,
): readonly string[] {
  return (
    [
      ["losses", "losses by labels"],
      ["outputs", "change of outputs, time and memory"],
      ...(policy.live === undefined ? [] : [["live", "both on their live inputs"] as const]),
    ] as const
  ).flatMap(([gate, what]) => {
    if (gates.length === 0) return [];
    const reasons = [...new Set(gates.map((each) => each[gate]).filter((because) => because !== ""))];
    const able = gates.filter((each) => each[gate] === "").length;
    return [
      `can tell ${what}: ${able} of ${gates.length} connected`,
      ...reasons.slice(0, 5).map((because) => {
        const devices = gates.filter((each) => each[gate] === because).map(({ device }) => device);
        return `  not ${someOf(devices)}: ${because}`;
      }),
      ...(gate === "losses" ? describeMeasuring(gates, policy) : []),
    ];
  });
}

/** Describes which devices measure with a program of their own, and what becomes of those that measure nothing. */
function describeMeasuring(
  gates: RolloutPlanAnswer["gates"],
  { live, unmeasured }: Pick<RolloutPlanAnswer["policy"], "live" | "unmeasured">,
): readonly string[] {
  const [programs, nothing] = (["program", "nothing"] as const).map((by) =>
    gates.filter(({ measuredBy }) => measuredBy === by).map(({ device }) => device),
  ) as [string[], string[]];
  const would = unmeasured === "switch" ? "would switch unmeasured" : "would fail";
  return [
    ...(programs.length === 0 ? [] : [`  by a program of the device, not the engine: ${someOf(programs)}`]),
    ...(nothing.length === 0 || live !== undefined
      ? []
      : [`  ${would} (--unmeasured ${unmeasured}): ${someOf(nothing)}`]),
  ];
}

/** Describes the time that no run without a pause exceeds: each wave waits for its devices so long. */
function describeLongest(
  waves: RolloutPlanAnswer["waves"],
  { wait, timeoutMinutes, soakMinutes, deadlineMinutes = Infinity }: RolloutPlanAnswer["policy"],
): readonly string[] {
  const used = waves.filter((wave) => wave.length > 0).length;
  if (used === 0 || (wait === true && !Number.isFinite(deadlineMinutes))) return [];
  const ofWaves = wait === true ? Infinity : used * timeoutMinutes + (used - 1) * soakMinutes;
  const why = deadlineMinutes < ofWaves ? "--deadline" : "--wave-timeout and --soak";
  const mostMs = Math.min(ofWaves, deadlineMinutes) * 60_000;
  return [`at most ${formatDuration(mostMs)} unless paused, by ${why}`];
}

function describeRates(ofRollout: number | undefined, ofFleet: number | undefined): readonly string[] {
  const limits = [
    ...(ofRollout === undefined ? [] : [`${formatBytes(ofRollout)}/s to all its devices together`]),
    ...(ofFleet === undefined ? [] : [`${formatBytes(ofFleet)}/s to the fleet`]),
  ];
  return limits.length === 0 ? [] : [`sends at most ${limits.join(", and ")}`];
}

/** Describes the transfers in all and by link; the devices with the most bytes by name. */
function describeTransfers(
  transfers: NonNullable<RolloutPlanAnswer["transfers"]>,
  expectedMs: number | null,
): readonly string[] {
  const sum = (some: typeof transfers): number => some.reduce((total, { bytes }) => total + bytes, 0);
  const metered = transfers.filter((one) => one.metered);
  const largest = [...transfers].sort((a, b) => b.bytes - a.bytes).slice(0, namedDevices);
  const shown = largest.map(({ device, bytes, ms }) => {
    const time = ms === null ? "" : ` in ${formatDuration(ms)}`;
    return `${device} ${formatBytes(bytes)}${time}`;
  });
  const isRough = transfers.some(({ isEstimated }) => isEstimated);
  return [
    `${isRough ? "about " : ""}${formatBytes(sum(transfers))} in all, ${formatBytes(sum(metered))} of it on metered links`,
    ...(shown.length === 0 ? [] : [`most: ${shown.join(", ")}`]),
    expectedMs === null
      ? "time: not known before a transfer was measured"
      : `time: ${formatDuration(expectedMs)} of transfers and soak, of devices that are connected`,
  ];
}

function someOf(devices: readonly string[]): string {
  const named = devices.slice(0, namedDevices).join(", ");
  return devices.length > namedDevices ? `${plural(devices.length)}: ${named} …` : named;
}

function plural(devices: number): string {
  return counted(devices, "device");
}
