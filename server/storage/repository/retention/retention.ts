/**
 * Retention of one fleet's versions: sets rules as facts, forecasts the bytes that applying them would free, and
 * applies them. Retention itself frees no space; collections do.
 */
import { defined } from "../../../../shared/defined.js";
import { StemmaError } from "../../../../shared/errors.js";
import { planCollection, planCollectionWithout, planWithTiers } from "../collection.js";
import type { RepositoryContext } from "../context.js";
import { appendFacts } from "../state/append-facts.js";
import { retentionKey } from "../state/retention-state.js";
import { applyRetention } from "./apply-retention.js";
import type {
  FleetRetention,
  RetentionForecast,
  RetentionOptions,
  RetentionSetting,
} from "./fleet-retention.js";
import { fateOf, planInSteps, reasonOf } from "./plan-versions.js";
import { printScope, type KeepReason, type RetentionScope } from "./retention-plan.js";
import { parseRetentionRule, printRetentionRule } from "./retention-rules.js";
import { membersOf } from "./scopes.js";
import { rulesOf, settingsOf } from "./rules-in-force.js";

export function fleetRetention(context: RepositoryContext): FleetRetention {
  return {
    settings: () => settingsOf(context),
    set: (scope, rule) => setRetention(context, scope, rule),
    forecast: (options) => forecastRetention(context, options),
    apply: (options) => applyRetention(context, options),
  };
}

/** @throws RETENTION_RULE_INVALID, NAME_INVALID, NOT_FOUND where there is no rule to remove */
async function setRetention(
  context: RepositoryContext,
  scope: RetentionScope,
  text: string | null,
): Promise<readonly RetentionSetting[]> {
  const members = membersOf(scope);
  if (text === null && !context.state.retention.has(retentionKey(members)))
    throw new StemmaError(
      "NOT_FOUND",
      `No retention rule is set for ${printScope(scope)}. \`stemma storage retention show\` lists those that are.`,
      { scope },
    );
  const rule = text === null ? null : printRetentionRule(parseRetentionRule(text));
  await appendFacts(context, [{ type: "retention", atMs: context.clock.now(), ...members, rule }]);
  return settingsOf(context);
}

/**
 * The versions that would be retired now, and the bytes that a collection would free afterwards. The store
 * plans that collection, so shared tensors, leases, packs and encodings are all taken into account.
 * @throws RETENTION_RULE_INVALID, COLLECTION_REFUSED
 */
async function forecastRetention(
  context: RepositoryContext,
  { trying, busy, listKept = false }: RetentionOptions = {},
): Promise<RetentionForecast> {
  const nowMs = context.clock.now();
  const { keep, retire } = await planInSteps(context, rulesOf(context, trying), nowMs, busy);
  const kept: Partial<Record<KeepReason, number>> = {};
  for (const { reason } of keep) kept[reason] = (kept[reason] ?? 0) + 1;
  const [now, after] = [
    await planCollection(context),
    await planWithTiers(
      context,
      await planCollectionWithout(
        context,
        retire.map(({ version }) => version.versionId),
      ),
    ),
  ];
  return {
    nowMs,
    settings: settingsOf(context),
    kept,
    retire: retire.map((going) => fateOf(context, { version: going.version, because: reasonOf(going) })),
    ...(listKept ? { keep: keep.map((one) => ({ ...fateOf(context, one), reason: one.reason })) } : {}),
    bytesBefore: after.bytesBefore,
    freedBytes: after.bytesBefore - after.bytesAfter,
    freeableBytes: now.bytesBefore - now.bytesAfter,
    ...defined({ tiers: after.tiers }),
  };
}
