/** Rules and policies of a fleet's state, by scope: the fleet, a line or a name. Pure. */
import { byOf } from "../../../../shared/journal/caller.js";
import type { FactOf } from "../../../../shared/journal/fact.js";
import type { DropPolicy } from "../../../../shared/journal/facts/version-facts.js";

/** A retention rule as it was set; retention-rules.ts parses the text of `rule`. */
export interface RetentionState {
  readonly line: string | null;
  readonly name: string | null;
  readonly rule: string;
  readonly atMs: number;
  readonly by?: string;
}

/** A policy for dropping tensors as it was set. */
export interface DropPolicyState {
  readonly line: string | null;
  readonly name: string | null;
  readonly policy: DropPolicy;
  readonly atMs: number;
  readonly by?: string;
}

export function retentionKey({ line, name }: Pick<RetentionState, "line" | "name">): string {
  return name !== null ? `name ${name}` : line !== null ? `line ${line}` : "fleet";
}

export function applyRetention(rules: Map<string, RetentionState>, fact: FactOf<"retention">): void {
  const { line, name, rule, atMs } = fact;
  if (rule === null) rules.delete(retentionKey({ line, name }));
  else
    rules.set(retentionKey({ line, name }), {
      line,
      name,
      rule,
      atMs,
      ...byOf(fact),
    });
}

export function applyDropPolicy(policies: Map<string, DropPolicyState>, fact: FactOf<"drop-policy">): void {
  const { line, name, policy, atMs } = fact;
  const key = retentionKey({ line, name });
  if (policy === null) policies.delete(key);
  else policies.set(key, { line, name, policy, atMs, ...byOf(fact) });
}
