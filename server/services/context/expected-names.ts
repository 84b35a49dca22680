/** Refuses names of lines and fleets that are new and near to a known one: what they begin stays in the journal. */
import { StemmaError } from "../../../shared/errors.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { RetentionScope } from "../../storage/repository/retention/retention-plan.js";
import { nearName } from "./near-name.js";

/** @throws NAME_UNLIKELY */
export function refuseMisspeltLines(
  { fleet, lines }: Pick<FleetRepository, "fleet" | "lines">,
  named: readonly string[],
): void {
  const known = lines();
  for (const line of named) {
    const near = nearName(line, known);
    if (near !== undefined)
      throw new StemmaError(
        "NAME_UNLIKELY",
        `The fleet ${fleet} has no line ${JSON.stringify(line)}, and has the line ${JSON.stringify(near)}: did you ` +
          "mean that one? Nothing was changed. For a new line of this name, repeat it with --force (over HTTP: force).",
        { line, near },
      );
  }
}

/** A rule of a line that is misspelt protects nothing. @throws NAME_UNLIKELY */
export function refuseMisspeltScope(
  repository: Pick<FleetRepository, "fleet" | "lines">,
  scope: RetentionScope,
): void {
  if (scope.of === "line") refuseMisspeltLines(repository, [scope.line]);
}

/** @throws NAME_UNLIKELY */
export function refuseMisspeltFleet(fleet: string, known: readonly string[]): void {
  const near = nearName(fleet, known);
  if (near === undefined) return;
  throw new StemmaError(
    "NAME_UNLIKELY",
    `There is no fleet ${JSON.stringify(fleet)} here, and there is ${JSON.stringify(near)}: did you mean that one? ` +
      "Nothing was changed. For a new fleet of this name, enrol its first device or import its first model with " +
      "--force (over HTTP: force).",
    { fleet, near },
  );
}
