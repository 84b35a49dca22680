/** A storage plan, and its application, as text. Pure. */
import { formatBytes, formatDuration } from "../../shared/cli/output.js";
import { counted } from "../../shared/printable.js";
import type { StorageApplied } from "../interface/api/stores/planning-schemas.js";
import type { ArchivePlan, RecreationSummary } from "../storage/archive/archive-plan.js";
import type { ApplyReport } from "../storage/archive/plan-application.js";
import { planAlgorithmTexts } from "../storage/planner/storage-plan.js";
import { maxPlannedDepth } from "../storage/archive/planned-depth.js";

function microseconds(us: number): string {
  return formatDuration(us / 1000);
}

function percent(part: number, total: number): string {
  return total === 0 ? "100 %" : `${((100 * part) / total).toFixed(1)} %`;
}

/** @param fastest costs with everything stored for speed */
function describeRecreation({ meanUs, largestUs }: RecreationSummary, fastest: RecreationSummary): string {
  const factor = fastest.meanUs === 0 ? 1 : meanUs / fastest.meanUs;
  return `${microseconds(meanUs)} a version, ${microseconds(largestUs)} at most (${factor.toFixed(2)}x)`;
}

export function describePlan({
  fleet,
  ratio,
  scheme,
  layout,
  summary,
  plan,
}: StorageApplied["planned"] & { readonly plan?: ArchivePlan["plan"] }): readonly string[] {
  const { materialised, now, planned } = summary;
  return [
    describeGain(summary),
    `fleet ${fleet}: ${counted(summary.versions, "version")}, ${counted(summary.tensors, "tensor")}, ${formatBytes(summary.tensorBytes)}; budget ${describeBudget(ratio)}, ${scheme}, ${layout}`,
    ...(summary.unreadable === 0
      ? []
      : [
          `${counted(summary.unreadable, "tensor")} cannot be read now and will not change; see: stemma storage check`,
        ]),
    `stored    ${formatBytes(summary.bytesNow)} now, ${formatBytes(summary.bytesPlanned)} as planned (${percent(summary.bytesPlanned, summary.bytesNow)})`,
    ...summary.kinds.map(
      ({ kind, tensors, storedBytes }) =>
        `  ${kindTexts[kind] ?? kind}: ${counted(tensors, "tensor")}, ${formatBytes(storedBytes)}`,
    ),
    `rebuild   for speed ${describeRecreation(materialised, materialised)}`,
    ...(now === null ? [] : [`          now       ${describeRecreation(now, materialised)}`]),
    `          planned   ${describeRecreation(planned, materialised)}`,
    ...describeBound(ratio, summary, plan),
    `to write  ${counted(summary.rewrittenTensors, "tensor")}, ${formatBytes(summary.rewrittenBytes)}; about ${formatBytes(summary.diskNeeded)} of free disk meanwhile`,
  ];
}

/** Describes the plan's gain and its cost, in one line of at most 80 columns. */
export function describeGain({
  bytesNow,
  bytesPlanned,
  now,
  planned,
  rewrittenTensors,
  applyMs,
}: ArchivePlan["summary"]): string {
  if (rewrittenTensors === 0) return `nothing   to gain: ${formatBytes(bytesNow)} stays as it is stored`;
  const share = bytesNow === 0 ? 100 : Math.round((100 * bytesPlanned) / bytesNow);
  const rebuild = [...(now === null ? [] : [now]), planned].map(({ meanUs }) => shortDuration(meanUs / 1000));
  return [
    `${bytesPlanned > bytesNow ? "grows     " : "gain      "}${formatBytes(bytesNow)} → ${formatBytes(bytesPlanned)} (${share} %)`,
    `rebuild ${rebuild.join(" → ")}`,
    `apply ${shortDuration(applyMs)}`,
  ].join("; ");
}

/** A duration in one unit, at most eight characters: "7 ms", "1.8 s", "12 min", "3.4 h". */
function shortDuration(ms: number): string {
  if (ms < 60_000) return formatDuration(ms);
  const [value, unit] = ms < 3_600_000 ? [ms / 60_000, "min"] : [ms / 3_600_000, "h"];
  return `${value.toFixed(value < 10 ? 1 : 0)} ${unit}`;
}

function describeBudget(ratio: ArchivePlan["ratio"]): string {
  if (ratio === null) return "none";
  return ratio === "auto" ? ratio : `${ratio}x`;
}

/** Describes what limits the size of the plan, and how a smaller or faster one could be had. */
function describeBound(
  ratio: ArchivePlan["ratio"],
  { bytesNow, bytesPlanned }: ArchivePlan["summary"],
  plan: ArchivePlan["plan"] | undefined,
): readonly string[] {
  if (ratio === null)
    return [
      `bound     any rebuild time${plan === undefined ? "" : `; no plan takes less than ${formatBytes(plan.leastStorageCost)}`}`,
      `          chains end after ${maxPlannedDepth} tensors, and a tensor that is predicted from several`,
      "          comes after all of them; so that bound may be out of reach",
    ];
  return [
    ...(plan === undefined
      ? []
      : [`bound     without a budget at least ${formatBytes(plan.leastStorageCost)} (--budget none)`]),
    ...(bytesPlanned > bytesNow
      ? [`          this budget needs more bytes than now; --budget auto never takes more`]
      : []),
  ];
}

const kindTexts: Readonly<Record<string, string>> = {
  current: "as now",
  raw: "raw",
  packed: "packed",
  planes: "in byte planes",
  fixed: "in fixed planes",
  delta: "as differences",
  "delta-planes": "as differences in byte planes",
  "low-rank": "as differences from low-rank predictions",
};

export function describeCandidates({ plan }: ArchivePlan): readonly string[] {
  const reached = plan.candidates.map(
    ({ algorithm, storageCost, isWithinBudgets }) =>
      `  ${planAlgorithmTexts[algorithm]}: ${formatBytes(storageCost)}${isWithinBudgets ? "" : " (over budget)"}`,
  );
  const { algorithm, isRefined, isCutShort } = plan;
  const ends = `${isRefined ? "; improved" : ""}${isCutShort ? "; the search was cut short" : ""}`;
  return [`found by  ${planAlgorithmTexts[algorithm]}${ends}. All that were tried:`, ...reached];
}

/** Describes which versions a plan is for, and how the others are planned; nothing where it is for all. */
export function describePart({ part }: Pick<ArchivePlan, "part">): readonly string[] {
  if (part === undefined) return [];
  const { last, lastName, hasNext } = part;
  return hasNext
    ? [`part      up to ${lastName}; later versions are not in it`, `  next: --after ${last}`]
    : [`part      the last one, up to ${lastName}`];
}

const stopReasons: Readonly<Record<NonNullable<ApplyReport["stopped"]>, string>> = {
  time: "the time limit was reached",
  disk: "the disk, or the limit for it, is full; free some space, then apply again",
  interrupted: "it was interrupted",
};

/** Describes what an application did, or would do after a dry run. */
export function describeApplied({ planned, report }: StorageApplied): readonly string[] {
  return [
    ...(report.dryRun ? describePlan(planned) : []),
    describeWork(report),
    ...(report.dryRun ? [] : describeResult(report)),
    ...(report.stale.length === 0
      ? []
      : [
          `${counted(report.stale.length, "tensor")} no longer matching the plan: left as stored (PLAN_STALE)`,
        ]),
    ...(report.unplanned === 0
      ? []
      : [`${counted(report.unplanned, "tensor")} saved after the plan: left as stored`]),
    ...(report.hasNext ? ["later versions were not looked at and stay as they are"] : []),
    ...report.failed.map(({ tensor, code, message }) => `${tensor.slice(0, 16)}: ${message} [${code}]`),
  ];
}

function describeWork({ dryRun, rewritten, left, stopped, already, notSmaller }: ApplyReport): string {
  const reason = stopped === null ? "" : ` (${stopReasons[stopped]})`;
  return [
    dryRun ? `would rewrite ${counted(left, "tensor")}` : `${counted(rewritten, "tensor")} rewritten`,
    ...(dryRun || left === 0 ? [] : [`${left} left for the next time${reason}`]),
    ...(already === 0 ? [] : [`${already} were stored as planned already`]),
    ...(notSmaller === 0 ? [] : [`${notSmaller} kept because rewriting them gained nothing`]),
  ].join(", ");
}

function describeResult(report: ApplyReport): readonly string[] {
  const { bytesBefore, bytesReached, bytesPredicted, writtenBytes, packs, freedBytes, durationMs } = report;
  return [
    `stored    ${formatBytes(bytesBefore)} before, ${formatBytes(bytesReached)} now (${percent(bytesReached, bytesBefore)}); predicted ${formatBytes(bytesPredicted)}`,
    `wrote     ${formatBytes(writtenBytes)} in ${counted(packs, "pack")}, freed ${formatBytes(freedBytes)}, in ${formatDuration(durationMs)}`,
  ];
}
