/** What `stemma bench nas` says of its measurements: tables, a report in Markdown, a chart. */
import { basename } from "node:path";
import { formatBytes } from "../../shared/cli/output.js";
import { renderTable } from "../../shared/cli/table.js";
import { lineChart, type Line, type LinePoint } from "./line-chart.js";
import { machineLine } from "./machine.js";
import { markdownTable, type ReportColumn } from "./report-table.js";
import type { MeasuredSearch, SearchPoint } from "./nas-runs.js";
import { median } from "./save-floors.js";

interface SearchSize {
  readonly candidates: number;
  readonly population: number;
  readonly sample: number;
}

export interface NasResults {
  readonly data: string;
  /** Training images of each candidate. */
  readonly trainedImages: number;
  /** The searches that are timed, and those whose bytes are measured. */
  readonly timedSearch: SearchSize;
  readonly storedSearch: SearchSize;
  /** The same search with transfer and from scratch, by seed. */
  readonly pairs: readonly {
    readonly seed: string;
    readonly transfer: MeasuredSearch;
    readonly scratch: MeasuredSearch;
  }[];
  /** With transfer, in files of whole models; and random candidates with transfer. Of the first seed. */
  readonly files: MeasuredSearch;
  readonly random: MeasuredSearch;
  /** With nothing retired, and with only the population kept; both stores have the same models. */
  readonly kept: MeasuredSearch;
  readonly retired: MeasuredSearch;
}

/** A search with transfer beside one from scratch, up to the best accuracy of the latter. */
export interface GoalTimes {
  readonly seed: string;
  /** The best accuracy that the search from scratch found, in per cent. */
  readonly goal: number;
  /** Seconds and candidates until it was reached; undefined: the search with transfer did not reach it. */
  readonly transfer: SearchPoint | undefined;
  readonly scratch: SearchPoint;
}

/** The first candidate that is at least so good. */
export function firstWith(points: readonly SearchPoint[], accuracy: number): SearchPoint | undefined {
  return points.find((point) => point.accuracy >= accuracy);
}

export function goalTimes({ seed, transfer, scratch }: NasResults["pairs"][number]): GoalTimes {
  const goal = Math.max(...scratch.points.map(({ accuracy }) => accuracy));
  return {
    seed,
    goal,
    transfer: firstWith(transfer.points, goal),
    scratch: firstWith(scratch.points, goal) as SearchPoint,
  };
}

/**
 * How many times faster the goal was reached with transfer; 0 where it was not. Processor time counts: other work on
 * the machine disturbs it less than the time on the clock.
 */
export function speedUp({ transfer, scratch }: GoalTimes, by: "wallS" | "processorS"): number {
  return transfer === undefined ? 0 : scratch[by] / transfer[by];
}

const thresholds = 8;
const thresholdStep = 2;

/** Up to what the searches with transfer reach, in the median of the seeds, in per cent. */
function thresholdsOf({ pairs }: NasResults): readonly number[] {
  const best = pairs.map(({ transfer }) => Math.max(...transfer.points.map(({ accuracy }) => accuracy)));
  const highest = Math.floor(median(best));
  return Array.from({ length: thresholds }, (_, i) => highest - thresholdStep * (thresholds - 1 - i)).filter(
    (each) => each > 0,
  );
}

interface ThresholdRow {
  readonly accuracy: number;
  /** Seconds of the processor, medians of the seeds; undefined where most did not reach it. */
  readonly transferS: number | undefined;
  readonly scratchS: number | undefined;
  readonly filesS: number | undefined;
  readonly randomS: number | undefined;
}

function thresholdRows(results: NasResults): readonly ThresholdRow[] {
  const seconds = (all: readonly MeasuredSearch[], accuracy: number): number | undefined => {
    const times = all.map(({ points }) => firstWith(points, accuracy)?.processorS ?? Infinity);
    const middle = median(times);
    return Number.isFinite(middle) ? middle : undefined;
  };
  return thresholdsOf(results).map((accuracy) => ({
    accuracy,
    transferS: seconds(
      results.pairs.map(({ transfer }) => transfer),
      accuracy,
    ),
    scratchS: seconds(
      results.pairs.map(({ scratch }) => scratch),
      accuracy,
    ),
    filesS: seconds([results.files], accuracy),
    randomS: seconds([results.random], accuracy),
  }));
}

interface BytesRow {
  readonly what: string;
  readonly candidates: number;
  readonly fileBytes: number;
  readonly stemmaBytes: number;
  readonly aim: string;
}

function bytesRows({ kept, retired }: NasResults): readonly BytesRow[] {
  const row = (what: string, { stored }: MeasuredSearch, aim: string): readonly BytesRow[] => {
    const last = stored.at(-1);
    return last === undefined ? [] : [{ what, ...last, aim }];
  };
  return [...row("nothing retired", kept, "0.33"), ...row("only the population", retired, "0.60")];
}

const secondsText = (value: number | undefined): string =>
  value === undefined ? "-" : `${value.toFixed(1)} s`;
const ratioText = (value: number): string => (value === 0 ? "not reached" : `${value.toFixed(2)} ×`);

const goalColumns: readonly ReportColumn<GoalTimes>[] = [
  { title: "SEED", value: ({ seed }) => seed, align: "right" },
  { title: "GOAL", value: ({ goal }) => `${goal.toFixed(1)} %`, align: "right" },
  { title: "FROM SCRATCH", value: ({ scratch }) => secondsText(scratch.processorS), align: "right" },
  { title: "WITH TRANSFER", value: ({ transfer }) => secondsText(transfer?.processorS), align: "right" },
  { title: "FASTER", value: (row) => ratioText(speedUp(row, "processorS")), align: "right" },
  { title: "BY THE CLOCK", value: (row) => ratioText(speedUp(row, "wallS")), align: "right" },
];
const thresholdColumns: readonly ReportColumn<ThresholdRow>[] = [
  { title: "ACCURACY", value: ({ accuracy }) => `${accuracy} %`, align: "right" },
  { title: "FROM SCRATCH", value: ({ scratchS }) => secondsText(scratchS), align: "right" },
  { title: "WITH TRANSFER", value: ({ transferS }) => secondsText(transferS), align: "right" },
  { title: "IN FILES", value: ({ filesS }) => secondsText(filesS), align: "right" },
  { title: "RANDOM", value: ({ randomS }) => secondsText(randomS), align: "right" },
];
const bytesColumns: readonly ReportColumn<BytesRow>[] = [
  { title: "STORED", value: ({ what }) => what },
  { title: "CANDIDATES", value: ({ candidates }) => String(candidates), align: "right" },
  { title: "FILES", value: ({ fileBytes }) => formatBytes(fileBytes), align: "right" },
  { title: "STEMMA", value: ({ stemmaBytes }) => formatBytes(stemmaBytes), align: "right" },
  { title: "RATIO", value: (row) => (row.stemmaBytes / row.fileBytes).toFixed(2), align: "right" },
  { title: "AIM", value: ({ aim }) => aim, align: "right" },
];

function summaryOf(results: NasResults): string {
  const goals = results.pairs.map(goalTimes);
  const by = (what: "wallS" | "processorS"): string =>
    ratioText(median(goals.map((each) => speedUp(each, what))));
  return `median: ${by("processorS")} as fast to the goal, by the clock ${by("wallS")} (aim: 1.25 ×)`;
}

/** For the terminal. */
export function nasText(results: NasResults): string {
  return [
    renderTable(results.pairs.map(goalTimes), goalColumns),
    summaryOf(results),
    "",
    renderTable(thresholdRows(results), thresholdColumns),
    "",
    renderTable(bytesRows(results), bytesColumns),
    "",
  ].join("\n");
}

/** @param chart path of its chart, which is named by its last part */
export function nasMarkdown(results: NasResults, chart: string): string {
  const { timedSearch, storedSearch } = results;
  return `# Architecture search: figures

\`\`\`sh
./stemma bench nas --markdown docs/architecture-search-figures.md
\`\`\`

[Architecture search](architecture-search.md) on ${results.data}, in a space whose bytes are spread over ten stages. Each
candidate is trained for one epoch of ${results.trainedImages.toLocaleString("en")} images by one worker with one thread.

![accuracy over time, and bytes stored](${basename(chart)})

## Time to a goal

${timedSearch.candidates} candidates, a population of ${timedSearch.population}, the best of ${timedSearch.sample} is
changed; with transfer and from scratch. The goal is the best accuracy that the search from scratch found at all; the
seconds are those of the processor until a candidate was at least so good, which other work on the machine disturbs less
than the time on the clock.

${markdownTable(results.pairs.map(goalTimes), goalColumns)}

The ${summaryOf(results)}.

Seconds of the processor until a candidate with a given accuracy was found, medians of the seeds; "-" where most seeds had
none. *In files*
is the search with transfer on files of whole models behind one lock, *random* draws every candidate at random
with transfer; both with the first seed only.

${markdownTable(thresholdRows(results), thresholdColumns)}

## Bytes

${storedSearch.candidates} candidates, a population of ${storedSearch.population}, the best of ${storedSearch.sample}: all
files of the fleet after a collection, beside files of whole models with their descriptions. Both hold the
same models.

${markdownTable(bytesRows(results), bytesColumns)}

${machineLine()}
`;
}

export function nasChart({ pairs, files, random, kept, retired }: NasResults): string {
  const [first] = pairs;
  const best = (name: string, { points }: MeasuredSearch): Line => ({
    name,
    points: bestSoFar(points),
    isStepped: true,
  });
  const megabytes = (name: string, { stored }: MeasuredSearch, of: "stemmaBytes" | "fileBytes"): Line => ({
    name,
    points: [{ x: 0, y: 0 }, ...stored.map((point) => ({ x: point.candidates, y: point[of] / 1e6 }))],
  });
  const bytes = (search: MeasuredSearch): readonly Line[] => [
    megabytes("files of whole models", search, "fileBytes"),
    megabytes("Stemma", search, "stemmaBytes"),
  ];
  const worst = Math.min(...[files, random].flatMap(({ points }) => bestSoFar(points).map(({ y }) => y)));
  return lineChart("Searching architectures, with and without transfer", [
    {
      title: "best candidate so far",
      yAxis: "accuracy in per cent",
      xAxis: "seconds of the processor",
      fromY: Math.floor(worst / 5) * 5,
      lines:
        first === undefined
          ? []
          : [
              best("from scratch", first.scratch),
              best("with transfer", first.transfer),
              best("with transfer, in files", files),
              best("random, with transfer", random),
            ],
    },
    { title: "stored, nothing retired", yAxis: "MB", xAxis: "candidates", lines: bytes(kept) },
    { title: "stored, only the population", yAxis: "MB", xAxis: "candidates", lines: bytes(retired) },
  ]);
}

function bestSoFar(points: readonly SearchPoint[]): readonly LinePoint[] {
  let best = -Infinity;
  return points.map(({ processorS, accuracy }) => {
    best = Math.max(best, accuracy);
    return { x: processorS, y: best };
  });
}
