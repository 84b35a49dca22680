/** Limits how much of a model may be held in memory while it is saved or installed. Pure. */
import type { Profile } from "../settings/profile.js";

/** The share of a training's memory: it may run at the same time. */
const share = 0.25;

/** Bytes; larger models are streamed, and read again where that is needed. */
export function heldBytes({ training }: Pick<Profile, "training">): number {
  return training.memoryLimitMb * 2 ** 20 * share;
}
