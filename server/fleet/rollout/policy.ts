/** The policy of a rollout as it is asked for, and what its waves mean. Pure. */
import { sha256 } from "../../../shared/tensor/hash.js";
import { defaultPolicy, type RolloutPolicy } from "../../../shared/journal/facts/rollout-policy.js";
import { rolloutInvalid } from "./rollout-errors.js";
import { parseWindow } from "./windows.js";

/** @throws ROLLOUT_INVALID */
export function policyOf(changes: {
  readonly [Key in keyof RolloutPolicy]?: RolloutPolicy[Key] | undefined;
}): RolloutPolicy {
  const given = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined));
  const policy: RolloutPolicy = { ...defaultPolicy, ...given };
  policy.waves.forEach((wave, index) => {
    if (!/^(?:[1-9]\d{0,6}|(?:100|[1-9]\d?)%|rest)$/.test(wave))
      throw rolloutInvalid(
        `a wave is a number of devices, a share such as 10%, or rest, not ${JSON.stringify(wave)}`,
      );
    if (wave === "rest" && index < policy.waves.length - 1)
      throw rolloutInvalid("only the last wave can be the rest");
  });
  if (!(policy.level > 0 && policy.level < 1))
    throw rolloutInvalid("the level is above 0 and below 1, such as 0.05");
  for (const window of policy.windows ?? []) parseWindow(window);
  return policy;
}

/**
 * Returns the number of devices that join in a wave.
 * @param total devices that the selection means, with those of earlier waves
 */
export function waveSize(wave: string, total: number): number {
  if (wave === "rest") return Infinity;
  return wave.endsWith("%") ? Math.ceil((total * Number.parseInt(wave, 10)) / 100) : Number(wave);
}

/**
 * The order in which devices join: another one in each rollout, so that not always the same devices are the first, and
 * the same each time that it is asked for.
 */
export function rolloutOrder(rollout: string, devices: readonly string[]): readonly string[] {
  const keyed = devices.map((device) => ({ device, key: sha256(`stemma-rollout ${rollout} ${device}`) }));
  return keyed.sort((a, b) => (a.key < b.key ? -1 : 1)).map(({ device }) => device);
}
