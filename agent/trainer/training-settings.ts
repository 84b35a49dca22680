/** The profile's settings for every training and for saving its result. Pure. */
import type { TrainingStateLimits } from "../../shared/save/result-uses.js";
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

/** Returns the limits for a training's checkpoints and optimizer state that are kept and reported. */
export function stateLimitsOf({ save }: Profile): TrainingStateLimits {
  return { checkpoints: save.keepCheckpoints, optimizer: save.keepOptimizer, bytes: save.stateBytes };
}
