/** Refuses profiles with which no training can ever run. Pure. */
import { requireTrainable } from "./capability.js";

/**
 * Native alone is enough: a TensorFlow may be linked on the device.
 * @param where names the profile in messages
 * @throws PROFILE_INVALID naming the field
 */
export function requireTrainableProfile(
  training: { readonly backends: readonly string[] },
  where: string,
): void {
  if (!training.backends.includes("native")) requireTrainable(training, where);
}
