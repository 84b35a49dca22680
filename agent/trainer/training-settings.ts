/** The profile's settings for every training and for saving its result. Pure. */
import type { Profile } from "../settings/profile.js";

export function settingsOf({ training, save }: Profile): {
  readonly threads: number;
  readonly memoryLimitMb: number;
  readonly stateEverySeconds: number;
  readonly approach: Profile["save"]["approach"];
} {
  const { threads, memoryLimitMb, stateEverySeconds } = training;
  return { threads, memoryLimitMb, stateEverySeconds, approach: save.approach };
}
