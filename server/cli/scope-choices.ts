/** The scope of a rule or policy that options name. */
import { StemmaError } from "../../shared/errors.js";
import type { RetentionScope } from "../storage/repository/retention/retention-plan.js";

export const scopeOptions = {
  line: "<line> only for this line of every device",
  name: "<name> only for models of this name",
} as const;

export interface ScopeChoices {
  readonly line: string | undefined;
  readonly name: string | undefined;
}

/** @throws USAGE for both a line and a name */
export function scopeOfChoices({ line, name }: ScopeChoices): RetentionScope {
  if (line !== undefined && name !== undefined)
    throw new StemmaError(
      "USAGE",
      "A rule applies to a line or to a name. Give --line or --name, or neither for the fleet.",
    );
  return name !== undefined
    ? { of: "name", name }
    : line !== undefined
      ? { of: "line", line }
      : { of: "fleet" };
}
