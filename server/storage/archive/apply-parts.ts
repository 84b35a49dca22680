/** Stores a fleet as planned, part by part, and sums what was planned for the parts and what applying the plans did. */
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { ApplyReport } from "./plan-application.js";
import type { ArchivePlan, ArchiveSummary, KindSummary, RecreationSummary } from "./archive-plan.js";

/** A plan without how each tensor is stored. */
export type PlanOverview = Omit<ArchivePlan, "plan" | "members">;
/** A part's plan, and what applying it did. */
export interface AppliedPart {
  readonly planned: PlanOverview;
  readonly report: ApplyReport;
}

export interface PartSteps {
  /** Plans the part after a version; undefined: the first one. */
  readonly plan: (after: Hash | undefined) => Promise<ArchivePlan>;
  /** Applies a plan; undefined: without a limit of time. */
  readonly apply: (plan: ArchivePlan, timeMs: number | undefined) => Promise<AppliedPart>;
}

/**
 * Plans each part and stores it so before the next one is planned, whose tensors may be encoded against this one's.
 * @param timeMs limit of the time of applying, of all parts together
 */
export async function applyParts({ plan, apply }: PartSteps, timeMs?: number): Promise<AppliedPart> {
  let sum: AppliedPart | undefined;
  for (let after: Hash | undefined; ;) {
    const part = await plan(after);
    sum = addPart(sum, await apply(part, timeMs && Math.max(1, timeMs - (sum?.report.durationMs ?? 0))));
    after = part.part?.last;
    if (after === undefined || !sum.report.hasNext || sum.report.stopped !== null) return sum;
  }
}

function addPart(sum: AppliedPart | undefined, part: AppliedPart): AppliedPart {
  if (sum === undefined) return part;
  const { part: place, ...planned } = part.planned;
  return {
    planned: {
      ...planned,
      madeAtMs: sum.planned.madeAtMs,
      summary: addSummaries(sum.planned.summary, part.planned.summary),
      ...(place?.hasNext === true ? { part: place } : {}),
    },
    report: addReports(sum.report, part.report),
  };
}

function addReports(a: ApplyReport, b: ApplyReport): ApplyReport {
  return {
    fleet: b.fleet,
    dryRun: b.dryRun,
    stopped: b.stopped,
    rewritten: a.rewritten + b.rewritten,
    left: a.left + b.left,
    already: a.already + b.already,
    notSmaller: a.notSmaller + b.notSmaller,
    kept: a.kept + b.kept,
    unplanned: a.unplanned + b.unplanned,
    stale: [...a.stale, ...b.stale],
    failed: [...a.failed, ...b.failed],
    bytesBefore: a.bytesBefore + b.bytesBefore,
    bytesPredicted: a.bytesPredicted + b.bytesPredicted,
    bytesReached: a.bytesReached + b.bytesReached,
    writtenBytes: a.writtenBytes + b.writtenBytes,
    packs: a.packs + b.packs,
    freedBytes: a.freedBytes + b.freedBytes,
    durationMs: a.durationMs + b.durationMs,
    hasNext: b.hasNext,
  };
}

function addSummaries(a: ArchiveSummary, b: ArchiveSummary): ArchiveSummary {
  const versions = [a.versions, b.versions] as const;
  return {
    versions: a.versions + b.versions,
    tensors: a.tensors + b.tensors,
    unreadable: a.unreadable + b.unreadable,
    tensorBytes: a.tensorBytes + b.tensorBytes,
    bytesNow: a.bytesNow + b.bytesNow,
    bytesPlanned: a.bytesPlanned + b.bytesPlanned,
    rewrittenTensors: a.rewrittenTensors + b.rewrittenTensors,
    rewrittenBytes: a.rewrittenBytes + b.rewrittenBytes,
    kinds: addKinds([...a.kinds, ...b.kinds]),
    materialised: addRecreations(a.materialised, b.materialised, versions),
    now: a.now === null || b.now === null ? null : addRecreations(a.now, b.now, versions),
    planned: addRecreations(a.planned, b.planned, versions),
    // One part is applied after the other.
    diskNeeded: Math.max(a.diskNeeded, b.diskNeeded),
    applyMs: a.applyMs + b.applyMs,
  };
}

function addKinds(all: readonly KindSummary[]): readonly KindSummary[] {
  const sums = new Map<string, KindSummary>();
  for (const { kind, tensors, storedBytes } of all) {
    const known = sums.get(kind);
    sums.set(kind, {
      kind,
      tensors: tensors + (known?.tensors ?? 0),
      storedBytes: storedBytes + (known?.storedBytes ?? 0),
    });
  }
  return [...sums.values()].sort((a, b) => b.storedBytes - a.storedBytes);
}

function addRecreations(
  a: RecreationSummary,
  b: RecreationSummary,
  [versionsOfA, versionsOfB]: readonly [number, number],
): RecreationSummary {
  const versions = versionsOfA + versionsOfB;
  return {
    largestUs: Math.max(a.largestUs, b.largestUs),
    meanUs: versions === 0 ? 0 : (versionsOfA * a.meanUs + versionsOfB * b.meanUs) / versions,
  };
}
