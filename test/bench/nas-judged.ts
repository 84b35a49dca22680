/** A table of searches with candidates judged early, beside the same without: `stemma bench nas --judge-after N`. */
import { renderTable } from "../../shared/cli/table.js";
import { firstWith } from "./nas-report.js";
import type { MeasuredSearch } from "./nas-runs.js";
import type { ReportColumn } from "./report-table.js";

export interface JudgedResult {
  readonly seed: string;
  readonly judgeAfter: number;
  readonly judgeShare: number;
  readonly candidates: number;
  readonly whole: MeasuredSearch;
  readonly judged: MeasuredSearch;
}

const bestOf = ({ points }: MeasuredSearch): number => Math.max(...points.map(({ accuracy }) => accuracy));
const spentOf = ({ points }: MeasuredSearch): number => points.at(-1)?.processorS ?? 0;
const secondsText = (value: number | undefined): string =>
  value === undefined ? "-" : `${value.toFixed(1)} s`;
/** Seconds of the processor until a candidate was as good as the best of the search without judgements. */
const toBest = ({ whole }: JudgedResult, search: MeasuredSearch): number | undefined =>
  firstWith(search.points, bestOf(whole))?.processorS;

const columns: readonly ReportColumn<JudgedResult>[] = [
  { title: "SEED", value: ({ seed }) => seed, align: "right" },
  { title: "AFTER", value: ({ judgeAfter }) => `step ${judgeAfter}`, align: "right" },
  { title: "SHARE", value: ({ judgeShare }) => String(judgeShare), align: "right" },
  {
    title: "ENDED",
    value: ({ candidates, judged }) => String(candidates - judged.points.length),
    align: "right",
  },
  { title: "BEST", value: ({ whole }) => `${bestOf(whole).toFixed(1)} %`, align: "right" },
  { title: "JUDGED", value: ({ judged }) => `${bestOf(judged).toFixed(1)} %`, align: "right" },
  { title: "TO BEST", value: (row) => secondsText(toBest(row, row.whole)), align: "right" },
  { title: "JUDGED", value: (row) => secondsText(toBest(row, row.judged)), align: "right" },
  { title: "ALL", value: ({ whole }) => secondsText(spentOf(whole)), align: "right" },
  { title: "JUDGED", value: ({ judged }) => secondsText(spentOf(judged)), align: "right" },
];

export function judgedText(results: readonly JudgedResult[]): string {
  return `${renderTable(results, columns)}\n`;
}
