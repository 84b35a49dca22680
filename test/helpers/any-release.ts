/** Of an agent that does not look at releases. */
import type { ReleaseTrust } from "../../agent/releases/release-trust.js";

export const anyRelease: Pick<ReleaseTrust, "requireInstallable" | "requireOffered"> = {
  requireInstallable: () => Promise.resolve(),
  requireOffered: () => Promise.resolve(),
};
