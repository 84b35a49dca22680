/**
 * Applies retention rules to one fleet's versions. Sets rules as facts, plans over the fleet's state,
 * forecasts the bytes that a plan would free, and applies plans through the commit queue. retention-plan.ts
 * decides which versions are kept. Retention itself frees no space; collections do.
 */
import { defined } from "../../../../shared/defined.js";
import { messageOf } from "../../../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { appendFacts, checkRetirable } from "../state/append-facts.js";
import { planCollection, planCollectionWithout, planWithTiers, refuseUnknownFacts } from "../collection.js";
import type { RepositoryContext } from "../context.js";
import type {
  FleetRetention,
  Fate,
  RetentionForecast,
  RetentionOptions,
  RetentionOutcome,
  RetentionSetting,
} from "./fleet-retention.js";
import { describeHold } from "../state/hold.js";
import { ownDevice } from "../state/naming.js";
import {
  planRetention,
  printScope,
  type Retired,
  type KeepReason,
  type RetainableVersion,
  type RetentionPlan,
  type RetentionScope,
  type ScopedRule,
} from "./retention-plan.js";
import { parseRetentionRule, printRetentionRule } from "./retention-rules.js";
import { compareScopes, membersOf, scopeOf } from "./scopes.js";
import { retentionKey } from "../state/retention-state.js";
import { versionsInUse } from "../state/versions-in-use.js";
import type { VersionState } from "../state/version-state.js";

/** A version as input of the plan, with the state that it was made from. */
interface Candidate extends RetainableVersion {
  readonly state: VersionState;
}

export function fleetRetention(context: RepositoryContext): FleetRetention {
  return {
    settings: () => settingsOf(context),
    set: (scope, rule) => setRetention(context, scope, rule),
    forecast: (options) => forecastRetention(context, options),
    apply: (options) => applyRetention(context, options),
  };
}

/** The fleet's rule first, then lines, then names. */
function settingsOf({ state }: RepositoryContext): readonly RetentionSetting[] {
  return [...state.retention.values()]
    .map(({ rule, atMs, by, ...members }) => ({
      scope: scopeOf(members),
      rule,
      setAtMs: atMs,
      ...defined({ by }),
    }))
    .sort((a, b) => compareScopes(a.scope, b.scope));
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

/** The rules in force; `trying` replaces the rule of its scope. @throws RETENTION_RULE_INVALID */
function rulesOf(context: RepositoryContext, trying: RetentionOptions["trying"]): readonly ScopedRule[] {
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

function planNow(
  context: RepositoryContext,
  rules: readonly ScopedRule[],
  nowMs: number,
  {
    busy,
    ignored = new Set(),
    inUse = versionsInUse(context.state),
  }: {
    readonly busy: RetentionOptions["busy"];
    readonly ignored?: ReadonlySet<string>;
    readonly inUse?: ReadonlyMap<Hash, string>;
  },
): RetentionPlan<Candidate> {
  const { state } = context;
  const underWay = busy?.() ?? new Map<Hash, string>();
  const candidates: Candidate[] = [];
  for (const version of state.versions.values()) {
    if (version.retired !== undefined) continue;
    const { needed, ...candidate } = candidateOf(context, version, inUse, underWay);
    candidates.push(
      needed === undefined || ignored.has(needed.reason) ? candidate : { ...candidate, needed },
    );
  }
  return planRetention(candidates, rules, nowMs);
}

/** Keeps only what is kept whatever the rule. */
const ruleOfNothing: ScopedRule = {
  scope: { of: "fleet" },
  rule: { bases: false, releaseBases: false, keepAllFor: { count: 0, unit: "day" }, stages: [] },
};

/**
 * The kept versions in two parts: those that are kept whatever the rule (the newest of each line and name; tagged,
 * held, assigned ones, those that a device runs or running work needs), and all others.
 */
export function versionsAtRest(
  context: RepositoryContext,
  busy: RetentionOptions["busy"],
): Record<"near" | "atRest", readonly { versionId: Hash; name: string; version: number }[]> {
  // The device keeps its copy until release; that does not require the server's copy to be at hand.
  const ignored = new Set(["unreleased"]);
  const plan = planNow(context, [ruleOfNothing], Number.POSITIVE_INFINITY, { busy, ignored });
  return {
    near: plan.keep.map(({ version }) => version),
    atRest: plan.retire.map(({ version }) => version),
  };
}

/**
 * Versions whose tensors stay at hand whatever a rule says, each with the reason: those that are kept whatever the
 * retention rule. That another version is recovered from one is not a reason: a base can be made again, too.
 */
export function keptForAnyRule(
  context: RepositoryContext,
  busy: RetentionOptions["busy"],
): ReadonlyMap<Hash, string> {
  const plan = planNow(context, [ruleOfNothing], Number.POSITIVE_INFINITY, {
    busy,
    inUse: versionsInUse(context.state, { withBasesOfDropped: false }),
  });
  return new Map(plan.keep.map(({ version, because }) => [version.versionId, because]));
}

function candidateOf(
  context: RepositoryContext,
  version: VersionState,
  inUse: ReadonlyMap<Hash, string>,
  underWay: ReadonlyMap<Hash, string>,
): Candidate {
  const { versionId, name, version: number, position, recordedAtMs, tags } = version;
  const record = context.records.get(versionId);
  const needed = neededBecause(context, version, inUse, underWay);
  return {
    state: version,
    versionId,
    name,
    version: number,
    position,
    recordedAtMs,
    tags: [...tags],
    distributed: context.state.distributed.has(versionId),
    // A version whose record cannot be read is a series of its own, so that no other version is retired for
    // it.
    device: record?.device ?? `\0${versionId}`,
    line: record?.line ?? "",
    bases: record?.bases ?? [],
    ...defined({ needed }),
  };
}

/** Returns why a version is kept whatever the rule. */
function neededBecause(
  { state, records }: RepositoryContext,
  version: VersionState,
  inUse: ReadonlyMap<Hash, string>,
  underWay: ReadonlyMap<Hash, string>,
): RetainableVersion["needed"] {
  const { versionId, hold: held } = version;
  if (held !== undefined) return { reason: "held", because: `held ${describeHold(held)}` };
  const use = inUse.get(versionId);
  if (use !== undefined) return { reason: "in-use", because: use };
  const record = records.get(versionId);
  if (record === undefined)
    return { reason: "refused", because: "its record cannot be read; see stemma storage check" };
  if (record.device !== ownDevice && version.released === undefined && state.devices.has(record.device))
    return { reason: "unreleased", because: `${record.device} may not delete it yet` };
  const busy = underWay.get(versionId);
  if (busy !== undefined) return { reason: "busy", because: busy };
  // Any other reason for which the repository would refuse.
  try {
    checkRetirable(state, versionId, inUse);
    return undefined;
  } catch (error) {
    return { reason: "refused", because: messageOf(error) };
  }
}

function fateOf(
  context: RepositoryContext,
  { version: { state: version }, because }: { readonly version: Candidate; readonly because: string },
): Fate {
  const record = context.records.get(version.versionId);
  return {
    versionId: version.versionId,
    name: version.name,
    version: version.version,
    device: record?.device ?? "",
    line: record?.line ?? "",
    recordedAtMs: version.recordedAtMs,
    tensorBytes: version.tensorBytes,
    ownBytes: version.ownBytes,
    ...defined({ storedBytes: version.storedBytes }),
    because,
  };
}

function reasonOf({ scope, because }: Retired<Candidate>): string {
  return `retention of ${printScope(scope)}: ${because}`;
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
  const { keep, retire } = planNow(context, rulesOf(context, trying), nowMs, { busy });
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

/**
 * Retires versions by the rules. Each batch is decided exclusively, against the state that it is appended to.
 * So versions that were held, tagged, assigned or activated meanwhile are kept. After a crash, the next
 * application retires the remaining versions, with the same result.
 * @throws RETENTION_RULE_INVALID, COLLECTION_REFUSED where facts of a newer Stemma may keep something
 */
async function applyRetention(
  context: RepositoryContext,
  { busy, batchSize = 2048 }: Pick<RetentionOptions, "busy" | "batchSize"> = {},
): Promise<RetentionOutcome> {
  refuseUnknownFacts(context);
  const nowMs = context.clock.now();
  const retired: Fate[] = [];
  for (;;) {
    let batch: readonly Retired<Candidate>[] = [];
    let kept = 0;
    await context.queue.submit({
      requiredObjects: [],
      isExclusive: true,
      decide: () => {
        const plan = planNow(context, rulesOf(context, undefined), nowMs, { busy });
        batch = plan.retire.slice(0, batchSize);
        kept = plan.keep.length;
        return batch.map((going) => ({
          type: "retired",
          atMs: nowMs,
          versionId: going.version.versionId,
          because: reasonOf(going),
        }));
      },
      onApplied: () => {
        context.versionsChanged(batch.map(({ version }) => version.versionId));
      },
    });
    retired.push(
      ...batch.map((going) => fateOf(context, { version: going.version, because: reasonOf(going) })),
    );
    if (batch.length < batchSize) return { nowMs, retired, kept };
  }
}
