/** Decides which earlier model a line of a device returns to. */
import { StemmaError } from "../../../shared/errors.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

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
  if (named !== undefined && named.record.device !== device && !ran.includes(named.versionId))
    throw new StemmaError(
      "NOT_ALLOWED",
      `${device} neither made nor ran ${named.name}:${named.version} on ${line}. To give it another model: ` +
        `stemma device assign ${device} ${line} ${named.name}:${named.version}`,
      { device, line },
    );
  const before = named?.versionId ?? ran.findLast((versionId) => versionId !== present);
  const summary = before === undefined ? undefined : repository.get(before);
  if (summary === undefined)
    throw new StemmaError(
      "MODEL_NOT_FOUND",
      `${line} of ${device} ran no other model that is known here. Name one with --to, or assign one: ` +
        `stemma device assign ${device} ${line} MODEL`,
      { device, line },
    );
  if (summary.state === "retired")
    throw new StemmaError(
      "MODEL_RETIRED",
      `${summary.name}:${summary.version}, which ${line} of ${device} ran before, is retired. Name another one with --to.`,
      { versionId: summary.versionId },
    );
  return summary;
}
