/** Scopes of rules and policies: how facts name them, and their order in lists. Pure. */
import { printScope, type RetentionScope } from "./retention-plan.js";

/** The members by which facts name a scope: of a line, of a name, or of the whole fleet. */
export interface ScopeMembers {
  readonly line: string | null;
  readonly name: string | null;
}

export function scopeOf({ line, name }: ScopeMembers): RetentionScope {
  return name !== null ? { of: "name", name } : line !== null ? { of: "line", line } : { of: "fleet" };
}

export function membersOf(scope: RetentionScope): ScopeMembers {
  return { line: scope.of === "line" ? scope.line : null, name: scope.of === "name" ? scope.name : null };
}

const order = { fleet: 0, line: 1, name: 2 };

/** The fleet's first, then lines, then names. */
export function compareScopes(a: RetentionScope, b: RetentionScope): number {
  return order[a.of] - order[b.of] || (printScope(a) < printScope(b) ? -1 : 1);
}
