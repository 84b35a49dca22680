/** Gates on what a version costs on a device and how far its outputs move, beside what the device runs. Pure. */
import type { RolloutTrial } from "../../../shared/journal/facts/rollout-facts.js";
import type { RolloutPolicy } from "../../../shared/journal/facts/rollout-policy.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { CallOutput } from "../../interface/api/server-operations.js";

type GatePolicy = Pick<RolloutPolicy, "maxSlowdown" | "maxMoreMemoryMb" | "maxChange">;

const mib = 2 ** 20;

/** Returns a device's measurements of both versions; those that it did not make are absent. */
export function trialOf(
  { versions, change }: Pick<CallOutput<"evaluateOnDevice">, "versions" | "change">,
  versionId: Hash,
  before: Hash,
): RolloutTrial {
  const costOf = (id: Hash) => versions.find((version) => version.versionId === id)?.inference;
  const [next, last] = [costOf(versionId), costOf(before)];
  return {
    ...(next === undefined || last === undefined
      ? {}
      : {
          // A clock that did not move tells nothing of the ratio.
          ...(last.milliseconds > 0 ? { slowdown: next.milliseconds / last.milliseconds } : {}),
          moreBytes: next.peakBytes - last.peakBytes,
        }),
    ...(typeof change === "number" ? { change } : {}),
  };
}

interface Gate {
  readonly limit: number | undefined;
  readonly measured: number | undefined;
  readonly what: string;
  readonly text: (value: number) => string;
}

/** `failed`: a gate is not passed. `unmeasured`: a gate that the policy has could not be answered. */
export type GateOutcome = { readonly failed: string } | { readonly unmeasured: string } | undefined;

export function throughGates(policy: GatePolicy, trial: RolloutTrial): GateOutcome {
  const gates: readonly Gate[] = [
    {
      limit: policy.maxSlowdown,
      measured: trial.slowdown,
      what: "time of a sample",
      text: (value) => `a sample takes ${value.toPrecision(3)} times as long as with what it runs`,
    },
    {
      limit: policy.maxMoreMemoryMb,
      measured: trial.moreBytes === undefined ? undefined : trial.moreBytes / mib,
      what: "memory",
      text: (value) => `it needs ${value.toPrecision(3)} MiB more memory than what it runs`,
    },
    {
      limit: policy.maxChange,
      measured: trial.change,
      what: "change of the outputs",
      text: (value) => `its outputs differ by ${value.toPrecision(3)} from what it runs`,
    },
  ];
  for (const { limit, measured, text } of gates)
    if (limit !== undefined && measured !== undefined && measured > limit)
      return { failed: `${text(measured)}, more than ${limit}` };
  const open = gates.filter(({ limit, measured }) => limit !== undefined && measured === undefined);
  return open.length === 0
    ? undefined
    : { unmeasured: `the device did not measure: ${open.map(({ what }) => what).join(", ")}` };
}
