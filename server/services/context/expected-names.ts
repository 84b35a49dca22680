/** Refuses names of lines and fleets that are new and near to a known one: what they begin stays in the journal. */
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { RetentionScope } from "../../storage/repository/retention/retention-plan.js";
import { fleetMisspelt, lineMisspelt } from "./context-errors.js";
import { nearName } from "./near-name.js";

/** @throws NAME_UNLIKELY */
export function refuseMisspeltLines(
  { fleet, lines }: Pick<FleetRepository, "fleet" | "lines">,
  named: readonly string[],
): void {
  const known = lines();
  for (const line of named) {
    const near = nearName(line, known);
    if (near !== undefined) throw lineMisspelt(fleet, line, near);
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
  throw fleetMisspelt(fleet, near);
}
