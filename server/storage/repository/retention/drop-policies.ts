/**
 * Defines policies that drop tensors of proved models by themselves. They say after how long, and how long a recovery
 * may train, for the fleet, a line or a name. They are facts. drop-plan.ts decides about the versions that they mean.
 */
import { defined } from "../../../../shared/defined.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { DropPolicy } from "../../../../shared/journal/facts/version-facts.js";
import type { RepositoryContext } from "../context.js";
import { appendFacts } from "../state/append-facts.js";
import { retentionKey } from "../state/retention-state.js";
import { printScope, type RetentionScope } from "./retention-plan.js";
import { compareScopes, membersOf, scopeOf } from "./scopes.js";

/** A policy in force. */
export interface DropPolicySetting {
  readonly scope: RetentionScope;
  readonly policy: DropPolicy;
  readonly setAtMs: number;
  readonly by?: string;
}

export function dropPolicies({ state }: Pick<RepositoryContext, "state">): readonly DropPolicySetting[] {
  return [...state.dropPolicies.values()]
    .map(({ policy, atMs, by, ...members }) => ({
      scope: scopeOf(members),
      policy,
      setAtMs: atMs,
      ...defined({ by }),
    }))
    .sort((a, b) => compareScopes(a.scope, b.scope));
}

/**
 * Sets a scope's policy, or removes it (null). Returns all policies in force afterwards.
 * @throws USAGE where neither tensors nor data would stay; NAME_INVALID, NOT_FOUND where there is no policy to remove
 */
export async function setDropPolicy(
  context: RepositoryContext,
  scope: RetentionScope,
  policy: DropPolicy | null,
): Promise<readonly DropPolicySetting[]> {
  const members = membersOf(scope);
  if (policy?.afterDays != null && policy.dataAfterDays !== undefined)
    throw new StemmaError(
      "USAGE",
      "Where tensors go, the data of their training stay, because a recovery trains with them. Say that tensors are " +
        "kept (--keep) to drop the data (--data-after).",
    );
  if (policy === null && !context.state.dropPolicies.has(retentionKey(members)))
    throw new StemmaError(
      "NOT_FOUND",
      `No policy for dropping tensors is set for ${printScope(scope)}. \`stemma storage policy show\` lists those that are.`,
      { scope },
    );
  await appendFacts(context, [{ type: "drop-policy", atMs: context.clock.now(), ...members, policy }]);
  return dropPolicies(context);
}
