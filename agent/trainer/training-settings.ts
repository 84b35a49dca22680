/** What a profile says of every training and of how its result is saved. Pure. */
import type { Profile } from "../settings/profile.js";

export function settingsOf({ training, save }: Profile): {
  readonly threads: number;
  readonly memoryLimitMb: number;
  readonly approach: Profile["save"]["approach"];
} {
  return { threads: training.threads, memoryLimitMb: training.memoryLimitMb, approach: save.approach };
}
