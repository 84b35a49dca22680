/**
 * Chooses, of the versions that a device has, those that a model is coded against for it. Devices for which the choice
 * is the same share one coded stream, so a rollout to a thousand devices that all trained on takes one coding and not a
 * thousand. It does not depend on what else is being coded: a transfer that is resumed gets the same stream. Pure.
 */
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { HeldVersion } from "../../../../shared/wire/coding/references.js";

export interface CodingChoice {
  /** Versions whose tensors take the place of the model's, as its bases do. */
  readonly bases: readonly Hash[];
  /** The held versions, and what each was trained from where the device has that too. */
  readonly references: readonly Hash[];
}

/**
 * The versions that the model was made from, where the device has all of them: the shortest differences, or an average
 * that is found again. Otherwise one that the server sent: what a device trained itself is a step away from that in
 * a direction of its own, which only makes the difference longer. Otherwise all of them.
 * @param bases of the model, in its record's order
 * @param held by the device, best first
 * @param wasSent whether the server sent the version to the device
 */
export function chooseCoding(
  bases: readonly Hash[],
  held: readonly Pick<HeldVersion, "versionId" | "bases">[],
  wasSent: (versionId: Hash) => boolean,
): CodingChoice {
  const ids = held.map(({ versionId }) => versionId);
  const madeFrom = bases.filter((id) => ids.includes(id));
  const hasAll = madeFrom.length === bases.length;
  // Best first: the first that is not empty.
  const choices = [hasAll ? madeFrom : madeFrom.filter(wasSent), ids.filter(wasSent).slice(0, 1), ids];
  const chosen = new Set(choices.find((choice) => choice.length > 0));
  const before = held.filter(({ versionId }) => chosen.has(versionId)).flatMap((version) => version.bases);
  return {
    bases: [...chosen],
    references: ids.filter((id) => chosen.has(id) || before.includes(id)),
  };
}
