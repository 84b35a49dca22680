/** Decides which earlier model a line of a device returns to. */
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { versionRetired } from "../../storage/repository/state/state-errors.js";
import { neverRan, ranNoOther } from "./device-errors.js";
import { makerOf } from "../../storage/repository/state/version-state.js";

/**
 * The model that the line ran before the present one, or the one that is named, which it must have run or made.
 * @throws DEVICE_UNKNOWN, MODEL_NOT_FOUND, MODEL_RETIRED, NOT_ALLOWED
 */
export function modelBefore(
  repository: Pick<FleetRepository, "ran" | "get" | "resolve">,
  { device, line, to }: { readonly device: string; readonly line: string; readonly to?: string | undefined },
): VersionSummary {
  const ran = repository.ran(device, line);
  const present = ran.at(-1);
  const named = to === undefined ? undefined : repository.resolve(to);
  if (named !== undefined && makerOf(named, named.record) !== device && !ran.includes(named.versionId))
    throw neverRan(device, line, `${named.name}:${named.version}`);
  const before = named?.versionId ?? ran.findLast((versionId) => versionId !== present);
  const summary = before === undefined ? undefined : repository.get(before);
  if (summary === undefined) throw ranNoOther(device, line);
  if (summary.state === "retired")
    throw versionRetired(summary, `cannot run again on ${line} of ${device} (--to names another)`);
  return summary;
}
