/** Shows what a search made: a row for each candidate, and words about its events and its end. */
import { formatBytes, formatDuration, type Column } from "../../../../shared/cli/output.js";
import type { SearchState } from "../../../learning/nas/run-search.js";
import type { SearchEvent } from "../../../learning/nas/search-log.js";
import type { KeptSettings } from "../../../learning/nas/settings.js";

export interface CandidateRow {
  readonly candidate: number;
  readonly model: string;
  readonly versionId: string;
  readonly root: string;
  /** The accuracy in per cent. */
  readonly accuracy: number;
  readonly choices: readonly number[];
  readonly parent?: number | undefined;
  readonly frozen: number;
  readonly layers: number;
  readonly bytes: number;
  readonly newBytes: number;
  readonly totalMs: number;
  readonly isRetired: boolean;
  /** The device that trained it; absent: the machine of the search. */
  readonly device?: string | undefined;
}

/** A candidate whose training was ended early: no model, and no quality. */
export interface EndedRow {
  readonly candidate: number;
  readonly choices: readonly number[];
  readonly parent?: number | undefined;
  /** The step after which it was judged, and the mean loss until then. */
  readonly endedAfter: number;
  readonly loss: number;
}
export type SearchRow = CandidateRow | EndedRow;

/** The candidates that were ended, the lowest loss first. */
export function endedRowsOf({ ended, proposed }: SearchState): readonly EndedRow[] {
  return [...ended.values()]
    .map(({ candidate, step, loss }) => ({
      candidate,
      choices: proposed.get(candidate)?.choices ?? [],
      parent: proposed.get(candidate)?.parent,
      endedAfter: step,
      loss,
    }))
    .sort((a, b) => a.loss - b.loss || a.candidate - b.candidate);
}

/** The best first; of equal ones the one with fewer bytes. */
export function rowsOf({ done, proposed, retired }: SearchState): readonly CandidateRow[] {
  return [...done.values()]
    .map((event) => ({
      candidate: event.candidate,
      model: event.versionId.slice(0, 12),
      versionId: event.versionId,
      root: event.root,
      accuracy: event.quality,
      choices: proposed.get(event.candidate)?.choices ?? [],
      parent: proposed.get(event.candidate)?.parent,
      frozen: event.frozen,
      layers: event.layers,
      bytes: event.bytes,
      newBytes: event.newBytes,
      totalMs: event.totalMs,
      isRetired: retired.has(event.candidate),
      device: event.device,
    }))
    .sort((a, b) => b.accuracy - a.accuracy || a.bytes - b.bytes || a.candidate - b.candidate);
}

export function describeEvent(event: SearchEvent, candidates: number): string | undefined {
  if (event.event === "failed") return `candidate ${event.candidate} failed: ${event.message}`;
  if (event.event === "judged" && event.isEnded)
    return (
      `candidate ${event.candidate + 1} of ${candidates}: ended after step ${event.step}, ` +
      `loss ${event.loss.toPrecision(4)}`
    );
  if (event.event !== "done") return undefined;
  const { candidate, quality, frozen, layers, newBytes, bytes, totalMs, device } = event;
  return (
    `candidate ${candidate + 1} of ${candidates}: ${quality.toFixed(1)} %, ${frozen} of ${layers} layers kept, ` +
    `${formatBytes(newBytes)} of ${formatBytes(bytes)} new, ${formatDuration(totalMs)}` +
    (device === undefined ? "" : `, ${device}`)
  );
}

/** A sentence or two about a search that is finished. */
export function describeEnd(
  rows: readonly CandidateRow[],
  { ended, isJudged }: Pick<SearchState, "ended" | "isJudged">,
  { keepAll, judgeAfter }: KeptSettings,
): string {
  const [best] = rows;
  if (best === undefined) return "no candidate could be trained; lower --learning-rate, or look at the space";
  const sum = (of: (row: CandidateRow) => number): number => rows.reduce((total, row) => total + of(row), 0);
  return [
    `the best of ${rows.length}: candidate ${best.candidate} (${best.model}), ${best.accuracy.toFixed(1)} %`,
    ...(judgeAfter === undefined
      ? []
      : [
          isJudged
            ? `${ended.size} more were ended after step ${judgeAfter}`
            : `no candidate was judged: none came to step ${judgeAfter}`,
        ]),
    `stored ${formatBytes(sum(({ newBytes }) => newBytes))} of ${formatBytes(sum(({ bytes }) => bytes))}` +
      (keepAll ? "" : "; stemma storage gc frees what was retired"),
  ].join("\n");
}

const columns: readonly Column<SearchRow>[] = [
  { title: "#", value: (row) => String(row.candidate), align: "right" },
  { title: "ACCURACY", value: ofMade((row) => `${row.accuracy.toFixed(1)} %`), align: "right" },
  { title: "CHOICES", value: (row) => row.choices.join(" ") },
  { title: "FROM", value: (row) => (row.parent === undefined ? "-" : `#${row.parent}`) },
  { title: "KEPT", value: ofMade((row) => `${row.frozen}/${row.layers}`), align: "right" },
  { title: "NEW", value: ofMade((row) => formatBytes(row.newBytes)), align: "right" },
  { title: "TIME", value: ofMade((row) => formatDuration(row.totalMs)), align: "right" },
  { title: "MODEL", value: modelText },
];
const deviceColumn: Column<SearchRow> = { title: "DEVICE", value: ofMade((row) => row.device ?? "-") };

/** The columns of a search; that of devices only where one of them trained. */
export function columnsOf(made: readonly CandidateRow[]): readonly Column<SearchRow>[] {
  return made.some(({ device }) => device !== undefined) ? [...columns, deviceColumn] : columns;
}

function ofMade(text: (row: CandidateRow) => string): (row: SearchRow) => string {
  return (row) => ("loss" in row ? "-" : text(row));
}

function modelText(row: SearchRow): string {
  if ("loss" in row) return `ended, loss ${row.loss.toPrecision(4)}`;
  return row.isRetired ? "retired" : row.model;
}
