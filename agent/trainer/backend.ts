/** The backend that trains on this device. */
import { chooseBackend } from "../../shared/train/backends/choose.js";
import type { Profile } from "../settings/profile.js";

/** Its name, and why it is this one. */
export function describeBackend({ training }: Pick<Profile, "training">): string {
  const { backend, reason } = chooseBackend({ preferred: training.backends[0] });
  return `${backend}: ${reason}`;
}
