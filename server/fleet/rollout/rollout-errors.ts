/** Errors of rollouts: what cannot be made, and what ends one early. */
import { errorOf, StemmaError } from "../../../shared/errors.js";
import { whyNobody, type Unreached } from "./unreached.js";

const invalid = errorOf("ROLLOUT_INVALID");

export const rolloutInvalid = (why: string): StemmaError =>
  invalid(
    `The rollout cannot be made: ${why}. Correct it; \`stemma rollout create --help\` shows the options.`,
  );
export const windowInvalid = (window: string): StemmaError =>
  invalid(
    `${JSON.stringify(window.slice(0, 80))} is not a window. Write it as "22:00-05:00" or "mon-fri 22:00-05:00"; \`stemma rollout create --help\` shows the options.`,
    { window },
  );
export const reachesNobody = (name: string, unreached: readonly Unreached[]): StemmaError =>
  new StemmaError(
    "ROLLOUT_REACHES_NOBODY",
    `The rollout ${name} would reach no device now, and nothing was changed: ${whyNobody(unreached)}. Correct its selection, line or version, or create one with --wait for devices that come later.`,
    { rollout: name },
  );
export const serverStops = (): StemmaError =>
  new StemmaError("INTERRUPTED", "The server stops; the rollout goes on when it is started again.");
