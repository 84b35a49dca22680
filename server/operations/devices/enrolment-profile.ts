/** Checks the profile that an enrolment names, where it is one of those that come with Stemma. */
import { fileURLToPath } from "node:url";
import type { Files } from "../../../shared/ports.js";
import { requireTrainableProfile } from "../../../shared/train/backends/trainable-profile.js";
import { profileUnreadable } from "./device-errors.js";

const profilesFolder = fileURLToPath(new URL("../../../firmware-profiles/", import.meta.url));
const profileName = /^[a-z0-9][a-z0-9-]{0,62}$/;

/**
 * Refuses a profile with which a device could never train. A profile that is not here is on the device, whose
 * agent checks it at its start.
 * @param folder that of the profiles that come with Stemma when absent
 * @throws PROFILE_INVALID naming the field
 */
export async function checkEnrolmentProfile(
  files: Files,
  profile: string,
  folder = profilesFolder,
): Promise<void> {
  if (!profileName.test(profile)) return;
  const path = `${folder}/${profile}.json`;
  if ((await files.stat(path)) === undefined) return;
  requireTrainableProfile(trainingOf(await files.read(path), path), profile);
}

function trainingOf(bytes: Uint8Array, path: string): { readonly backends: readonly string[] } {
  try {
    const { training } = JSON.parse(new TextDecoder().decode(bytes)) as {
      training: { backends: readonly unknown[] };
    };
    return { backends: training.backends.map(String) };
  } catch (cause) {
    throw profileUnreadable(path, cause);
  }
}
