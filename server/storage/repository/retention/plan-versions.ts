/** Plans which versions of a fleet are kept, over its state. retention-plan.ts decides. */
import { inSteps } from "../../../../shared/concurrency/in-steps.js";
import { defined } from "../../../../shared/defined.js";
import { messageOf } from "../../../../shared/error-text.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { RepositoryContext } from "../context.js";
import { checkRetirable } from "../state/append-facts.js";
import { describeHold } from "../state/hold.js";
import { ownDevice } from "../state/naming.js";
import type { VersionState } from "../state/version-state.js";
import { versionsInUse } from "../state/versions-in-use.js";
import type { Fate, RetentionOptions } from "./fleet-retention.js";
import {
  planRetention,
  printScope,
  type RetainableVersion,
  type Retired,
  type RetentionPlan,
  type ScopedRule,
} from "./retention-plan.js";
import { makerOf } from "../state/version-state.js";

/** The parts of a repository that a plan looks at. */
type Planned = Pick<RepositoryContext, "state" | "records">;

/** A version as input of the plan, with the state that it was made from. */
export interface Candidate extends RetainableVersion {
  readonly state: VersionState;
}

interface PlanOptions {
  readonly busy: RetentionOptions["busy"];
  readonly ignored?: ReadonlySet<string>;
  readonly inUse?: ReadonlyMap<Hash, string>;
}

/** Plans while the event loop has its turns; versions may change meanwhile. */
export async function planInSteps(
  context: Planned,
  rules: readonly ScopedRule[],
  nowMs: number,
  busy: RetentionOptions["busy"],
): Promise<RetentionPlan<Candidate>> {
  const candidates: Candidate[] = [];
  for await (const candidate of inSteps(candidatesOf(context, { busy }))) candidates.push(candidate);
  return planRetention(candidates, rules, nowMs);
}

export function planNow(
  context: Planned,
  rules: readonly ScopedRule[],
  nowMs: number,
  options: PlanOptions,
): RetentionPlan<Candidate> {
  return planRetention([...candidatesOf(context, options)], rules, nowMs);
}

function* candidatesOf(
  context: Planned,
  { busy, ignored = new Set(), inUse = versionsInUse(context.state) }: PlanOptions,
): Iterable<Candidate> {
  const { state } = context;
  const underWay = busy?.() ?? new Map<Hash, string>();
  for (const version of state.versions.values()) {
    if (version.retired !== undefined) continue;
    const { needed, ...candidate } = candidateOf(context, version, inUse, underWay);
    yield needed === undefined || ignored.has(needed.reason) ? candidate : { ...candidate, needed };
  }
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
  context: Planned,
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
export function keptForAnyRule(context: Planned, busy: RetentionOptions["busy"]): ReadonlyMap<Hash, string> {
  const plan = planNow(context, [ruleOfNothing], Number.POSITIVE_INFINITY, {
    busy,
    inUse: versionsInUse(context.state, { withBasesOfDropped: false }),
  });
  return new Map(plan.keep.map(({ version, because }) => [version.versionId, because]));
}

export function candidateOf(
  context: Planned,
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
    device: record === undefined ? `\0${versionId}` : makerOf(version, record),
    line: record?.line ?? "",
    bases: record?.bases ?? [],
    ...defined({ needed }),
  };
}

/** Returns why a version is kept whatever the rule. */
function neededBecause(
  { state, records }: Planned,
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
  const maker = makerOf(version, record);
  if (maker !== ownDevice && version.released === undefined && state.devices.has(maker))
    return { reason: "unreleased", because: `${maker} may not delete it yet` };
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

export function fateOf(
  context: Planned,
  { version: { state: version }, because }: { readonly version: Candidate; readonly because: string },
): Fate {
  const record = context.records.get(version.versionId);
  return {
    versionId: version.versionId,
    name: version.name,
    version: version.version,
    device: record === undefined ? "" : makerOf(version, record),
    line: record?.line ?? "",
    recordedAtMs: version.recordedAtMs,
    tensorBytes: version.tensorBytes,
    ownBytes: version.ownBytes,
    ...defined({ storedBytes: version.storedBytes }),
    because,
  };
}

export function reasonOf({ scope, because }: Retired<Candidate>): string {
  return `retention of ${printScope(scope)}: ${because}`;
}
