/** Versions of models as tables and lines show them. */
import { formatBytes, formatTime, type Column } from "../../shared/cli/output.js";
import type { RecoveryReport } from "../interface/api/models/version-schemas.js";
import type { Ended, VersionSummary } from "../storage/repository/answers/version-answers.js";

/** " by ann@workshop (command)"; nothing where nobody is known. */
export function describeBy(by: string | undefined): string {
  return by === undefined ? "" : ` by ${by}`;
}

/** "2026-11-21 09:30 by ann@workshop (command): sold". */
export function describeEnd({ atMs, because, by }: Ended): string {
  return `${formatTime(atMs)}${describeBy(by)}${because === "" ? "" : `: ${because}`}`;
}

/** The error above which what a clock shows says little of when something happened. */
export const doubtfulMs = 3_600_000;

interface SavingTimes {
  readonly savedAtMs: number;
  /** The known error of the clock by which it was saved; null: unknown. */
  readonly clockErrorMs: number | null;
  readonly recordedAtMs: number;
}

/** The time at which a version was saved, marked where that clock is known to be wrong or later than the recording. */
export function timeOfSaving(times: SavingTimes): string {
  return formatTime(times.savedAtMs) + doubtOf(times);
}

/** The same to the minute. */
export function minuteOfSaving(times: SavingTimes): string {
  return formatTime(times.savedAtMs).slice(0, 16) + doubtOf(times);
}

function doubtOf({ savedAtMs, clockErrorMs, recordedAtMs }: SavingTimes): string {
  return Math.max(clockErrorMs ?? 0, savedAtMs - recordedAtMs) > doubtfulMs ? " (doubtful)" : "";
}

export function nameOf(version: { readonly name: string; readonly version: number }): string {
  return `${version.name}:${version.version}`;
}

/** Describes a version's state, such as "released #best held". */
export function stateOf({ state, tags, held }: Pick<VersionSummary, "state" | "tags" | "held">): string {
  return [state, ...tags.map((tag) => `#${tag}`), ...(held ? ["held"] : [])].join(" ");
}

/** Describes how exact a recovered model is. A reduced one is what was recorded, but not what was trained. */
export function exactnessOf(report: Pick<RecoveryReport, "scheme"> | undefined): string {
  return report?.scheme === undefined ? "yes" : `yes, reduced (${report.scheme})`;
}

/** Bytes that a version added to the store when it was recorded; "-" where nobody noted them. */
export function addedBytes({ storedBytes }: { readonly storedBytes?: number | undefined }): string {
  return storedBytes === undefined ? "-" : formatBytes(storedBytes);
}

/** The device that made a version; "-" for none of this fleet. */
export function makerText({ record, received }: Pick<VersionSummary, "record" | "received">): string {
  return received === true || record.device === "" ? "-" : record.device;
}

/** The time at which a version was saved, of its record. */
export function savedOf({ record, recordedAtMs }: Pick<VersionSummary, "record" | "recordedAtMs">): string {
  return timeOfSaving({ ...record, recordedAtMs });
}

export const versionColumns: readonly Column<VersionSummary>[] = [
  { title: "MODEL", value: (row) => nameOf(row) },
  { title: "ID", value: (row) => row.versionId.slice(0, 12) },
  { title: "DEVICE", value: makerText },
  { title: "LINE", value: (row) => row.record.line || "-" },
  {
    title: "APPROACH",
    value: (row) =>
      row.record.scheme === undefined ? row.record.approach : `${row.record.approach}, ${row.record.scheme}`,
  },
  { title: "SIZE", value: (row) => formatBytes(row.tensorBytes), align: "right" },
  { title: "NEW", value: addedBytes, align: "right" },
  { title: "STATE", value: (row) => stateOf(row) },
  { title: "SAVED", value: savedOf },
];
