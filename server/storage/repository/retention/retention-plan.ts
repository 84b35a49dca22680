/**
 * Plans which versions retention rules keep and which they retire: a pure function of versions, rules and
 * time. retention.ts applies the plan.
 *
 * Some versions are kept whatever the rule: the head of a series, held and tagged versions, versions that a
 * device runs or was assigned last, versions that a device was not yet allowed to delete, versions that
 * running work needs, and versions that the repository would refuse to retire.
 *
 * Properties (tested): retiring any part of the plan does not change the rest of it, and a version that is
 * retired at one time is retired at every later time. Both hold because the *oldest* version of a period is
 * kept: no version that ages later can take its place.
 */
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { ageMs, periodName, printAge, type RetentionRule, type ThinningStage } from "./retention-rules.js";

/**
 * The versions that a rule applies to. A name's rule takes precedence over its line's, and a line's over the fleet's.
 */
export type RetentionScope =
  | { readonly of: "fleet" }
  | { readonly of: "line"; readonly line: string }
  | { readonly of: "name"; readonly name: string };
export interface ScopedRule {
  readonly scope: RetentionScope;
  readonly rule: RetentionRule;
}

/** The data of a version that the plan needs; only for versions that are not retired. */
export interface RetainableVersion {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
  readonly device: string;
  readonly line: string;
  /** Position in the journal. */
  readonly position: number;
  /** Time by the server's clock, because a device's clock may be wrong. */
  readonly recordedAtMs: number;
  readonly bases: readonly Hash[];
  readonly tags: readonly string[];
  /** True if it was ever assigned to a device. */
  readonly distributed: boolean;
  /** The reason why it cannot be retired now, whatever the rule. */
  readonly needed?: {
    readonly reason: "held" | "in-use" | "unreleased" | "busy" | "refused";
    readonly because: string;
  };
}

export type KeepReason =
  | "held"
  | "in-use"
  | "unreleased"
  | "busy"
  | "refused"
  | "tagged"
  | "head"
  | "no-rule"
  | "for-ever"
  | "young"
  | "release-base"
  | "one-of"
  | "base";

export interface Kept<Version> {
  readonly version: Version;
  readonly reason: KeepReason;
  readonly because: string;
}
export interface Retired<Version> {
  readonly version: Version;
  readonly scope: RetentionScope;
  readonly because: string;
}
export interface RetentionPlan<Version> {
  readonly keep: readonly Kept<Version>[];
  readonly retire: readonly Retired<Version>[];
}

/** The rule that applies to a version: the most specific one. */
export function ruleFor<Rule extends Pick<ScopedRule, "scope">>(
  rules: readonly Rule[],
  { name, line }: Pick<RetainableVersion, "name" | "line">,
): Rule | undefined {
  return (
    rules.find(({ scope }) => scope.of === "name" && scope.name === name) ??
    rules.find(({ scope }) => scope.of === "line" && scope.line === line) ??
    rules.find(({ scope }) => scope.of === "fleet")
  );
}

export function printScope(scope: RetentionScope): string {
  return scope.of === "fleet"
    ? "the fleet"
    : scope.of === "line"
      ? `the line ${scope.line}`
      : `the name ${scope.name}`;
}

/** Plans what to keep and what to retire; both lists are in journal order and together contain every version once. */
export function planRetention<Version extends RetainableVersion>(
  versions: readonly Version[],
  rules: readonly ScopedRule[],
  nowMs: number,
): RetentionPlan<Version> {
  const keep = new Map<Hash, Kept<Version>>();
  const retire = new Map<Hash, Retired<Version>>();
  for (const series of seriesOf(versions)) judgeSeries(series, { rules, nowMs, keep, retire });
  keepBases(versions, rules, keep, retire);
  const inOrder = [...versions].sort(byPosition);
  return {
    keep: inOrder.flatMap(({ versionId }) => keep.get(versionId) ?? []),
    retire: inOrder.flatMap(({ versionId }) => retire.get(versionId) ?? []),
  };
}

function byPosition(a: RetainableVersion, b: RetainableVersion): number {
  return a.position - b.position;
}

/**
 * The versions of one device, line and name form a series. Each series has its own head and is thinned
 * separately.
 */
function seriesOf<Version extends RetainableVersion>(versions: readonly Version[]): Iterable<Version[]> {
  const all = new Map<string, Version[]>();
  for (const version of versions) {
    const key = `${version.device}\0${version.line}\0${version.name}`;
    const series = all.get(key);
    if (series === undefined) all.set(key, [version]);
    else series.push(version);
  }
  return all.values();
}

interface Judgement<Version> {
  readonly rules: readonly ScopedRule[];
  readonly nowMs: number;
  /** The kept versions, filled by judgeSeries. */
  readonly keep: Map<Hash, Kept<Version>>;
  readonly retire: Map<Hash, Retired<Version>>;
}

function judgeSeries<Version extends RetainableVersion>(
  series: Version[],
  { rules, nowMs, keep, retire }: Judgement<Version>,
): void {
  series.sort(byPosition);
  const head = series.at(-1);
  const first = series[0];
  if (head === undefined || first === undefined) return;
  const scoped = ruleFor(rules, first);
  const verdicts =
    scoped === undefined ? new Map<Version, Verdict>() : judgeByAge(series, scoped.rule, nowMs);
  for (const version of series) {
    const verdict = verdicts.get(version) ?? { reason: "no-rule" as const, because: "no rule holds for it" };
    const kept =
      reasonBeforeRules(version, head) ??
      (scoped?.rule.releaseBases === true && version.distributed
        ? { reason: "release-base" as const, because: "it was given to a device" }
        : undefined);
    if (kept !== undefined) keep.set(version.versionId, { version, ...kept });
    else if ("reason" in verdict) keep.set(version.versionId, { version, ...verdict });
    else if (scoped !== undefined)
      retire.set(version.versionId, { version, scope: scoped.scope, because: verdict.retireBecause });
  }
}

type Verdict = { readonly reason: KeepReason; readonly because: string } | { readonly retireBecause: string };

function reasonBeforeRules(
  version: RetainableVersion,
  head: RetainableVersion,
): { readonly reason: KeepReason; readonly because: string } | undefined {
  if (version.needed !== undefined) return version.needed;
  if (version.tags.length > 0) return { reason: "tagged", because: `tagged ${version.tags.join(", ")}` };
  return version === head ? { reason: "head", because: "the newest of its line and name" } : undefined;
}

/** A rule's verdict on each version of a series by age, without the reasons that take precedence. */
function judgeByAge<Version extends RetainableVersion>(
  series: readonly Version[],
  { keepAllFor, stages }: RetentionRule,
  nowMs: number,
): Map<Version, Verdict> {
  const verdicts = new Map<Version, Verdict>();
  if (keepAllFor === null) {
    for (const version of series)
      verdicts.set(version, { reason: "for-ever", because: "its rule keeps everything" });
    return verdicts;
  }
  const olderThan =
    (limitMs: number) =>
    (version: Version): boolean =>
      nowMs - version.recordedAtMs > limitMs;
  const isOld = olderThan(ageMs(keepAllFor));
  for (const version of series)
    verdicts.set(
      version,
      isOld(version)
        ? {
            retireBecause:
              keepAllFor.count === 0 ? "nothing in its rule keeps it" : `older than ${printAge(keepAllFor)}`,
          }
        : { reason: "young", because: `not older than ${printAge(keepAllFor)}` },
    );
  // Oldest first; versions with equal times are ordered by position.
  let candidates = series.filter(isOld).sort((a, b) => a.recordedAtMs - b.recordedAtMs || byPosition(a, b));
  for (const stage of stages) {
    const survivors = thin(candidates, stage, verdicts);
    if (stage.until === null) break;
    const { until } = stage;
    candidates = survivors.filter(olderThan(ageMs(until)));
    for (const version of candidates)
      verdicts.set(version, { retireBecause: `older than ${printAge(until)}` });
  }
  return verdicts;
}

/** Keeps the oldest version of each period, and returns these versions. `candidates` must be oldest first. */
function thin<Version extends RetainableVersion>(
  candidates: readonly Version[],
  { every }: ThinningStage,
  verdicts: Map<Version, Verdict>,
): Version[] {
  const oldest = new Map<string, Version>();
  for (const version of candidates) {
    const period = periodName(every, version.recordedAtMs);
    const stays = oldest.get(period);
    if (stays === undefined) {
      oldest.set(period, version);
      verdicts.set(version, { reason: "one-of", because: `the one of ${period}` });
    } else verdicts.set(version, { retireBecause: `${stays.name}:${stays.version} is the one of ${period}` });
  }
  return [...oldest.values()];
}

/**
 * Keeps the direct bases of kept versions where the bases' rule asks for it; all ancestors would be too many.
 */
function keepBases<Version extends RetainableVersion>(
  versions: readonly Version[],
  rules: readonly ScopedRule[],
  keep: Map<Hash, Kept<Version>>,
  retire: Map<Hash, Retired<Version>>,
): void {
  const saved: Kept<Version>[] = [];
  for (const child of versions) {
    if (!keep.has(child.versionId)) continue;
    for (const base of child.bases) {
      const going = retire.get(base);
      if (going === undefined || ruleFor(rules, going.version)?.rule.bases !== true) continue;
      retire.delete(base);
      saved.push({
        version: going.version,
        reason: "base",
        because: `${child.name}:${child.version} was trained from it`,
      });
    }
  }
  // Added last: a base that is kept for its child does not keep its own base.
  for (const kept of saved) keep.set(kept.version.versionId, kept);
}
