/** The retention rules that facts have set in a fleet. */
import { defined } from "../../../../shared/defined.js";
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import type { RepositoryContext } from "../context.js";
import { retentionKey } from "../state/retention-state.js";
import type { RetentionOptions, RetentionSetting } from "./fleet-retention.js";
import { printScope, type ScopedRule } from "./retention-plan.js";
import { parseRetentionRule } from "./retention-rules.js";
import { compareScopes, membersOf, scopeOf } from "./scopes.js";

/** The fleet's rule first, then lines, then names. */
export function settingsOf({ state }: Pick<RepositoryContext, "state">): readonly RetentionSetting[] {
  return [...state.retention.values()]
    .map(({ rule, atMs, by, ...members }) => ({
      scope: scopeOf(members),
      rule,
      setAtMs: atMs,
      ...defined({ by }),
    }))
    .sort((a, b) => compareScopes(a.scope, b.scope));
}

/** The rules in force; `trying` replaces the rule of its scope. @throws RETENTION_RULE_INVALID */
export function rulesOf(
  context: Pick<RepositoryContext, "state">,
  trying: RetentionOptions["trying"],
): readonly ScopedRule[] {
  const rules = new Map<string, ScopedRule>();
  for (const { scope, rule } of settingsOf(context)) {
    try {
      rules.set(retentionKey(membersOf(scope)), { scope, rule: parseRetentionRule(rule) });
    } catch (cause) {
      throw isStemmaError(cause)
        ? new StemmaError(
            "RETENTION_RULE_INVALID",
            `The rule of ${printScope(scope)}, ${JSON.stringify(rule)}, was set by a newer Stemma and cannot be read by this one, so nothing is retired. Use the newer one, or set the rule again.`,
            { cause, scope },
          )
        : cause;
    }
  }
  if (trying === undefined) return [...rules.values()];
  const key = retentionKey(membersOf(trying.scope));
  if (trying.rule === null) rules.delete(key);
  else rules.set(key, { scope: trying.scope, rule: parseRetentionRule(trying.rule) });
  return [...rules.values()];
}
