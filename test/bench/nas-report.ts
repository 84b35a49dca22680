/** What `stemma bench nas` says of its measurements: tables, a report in Markdown, a chart. */
import { basename } from "node:path";
import { formatBytes } from "../../shared/cli/output.js";
import { renderTable } from "../../shared/cli/table.js";
import { lineChart, type Line, type LinePanel, type LinePoint } from "./line-chart.js";
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
  /** The same search with transfer, with transfer by files of whole models, and from scratch, by seed. */
  readonly pairs: readonly (Readonly<Record<Way, MeasuredSearch>> & { readonly seed: string })[];
  /** With nothing retired, and with only the population kept: both have the same models. Absent: not measured. */
  readonly kept?: MeasuredSearch;
  readonly retired?: MeasuredSearch;
}

const ways = { scratch: "from scratch", files: "by files", transfer: "with transfer" } as const;
type Way = keyof typeof ways;

/** A search with transfer beside one from scratch, up to the best accuracy of the latter. */
export interface GoalTimes {
  readonly seed: string;
  /** The best accuracy that the search from scratch found, in per cent. */
  readonly goal: number;
  /** Seconds and candidates until it was reached; undefined: the search with transfer did not reach it. */
  readonly transfer: SearchPoint | undefined;
  readonly files: SearchPoint | undefined;
  readonly scratch: SearchPoint;
}

/** The first candidate that is at least so good. */
export function firstWith(points: readonly SearchPoint[], accuracy: number): SearchPoint | undefined {
  return points.find((point) => point.accuracy >= accuracy);
}

export function goalTimes({ seed, transfer, files, scratch }: NasResults["pairs"][number]): GoalTimes {
  const goal = Math.max(...scratch.points.map(({ accuracy }) => accuracy));
  return {
    seed,
    goal,
    transfer: firstWith(transfer.points, goal),
    files: firstWith(files.points, goal),
    scratch: firstWith(scratch.points, goal) as SearchPoint,
  };
}

/**
 * How many times faster the goal was reached with transfer; 0 where it was not. Processor time counts: other work on
 * the machine disturbs it less than the time on the clock.
 */
export function speedUp(
  { transfer, scratch }: Pick<GoalTimes, "transfer" | "scratch">,
  by: "wallS" | "processorS",
): number {
  return transfer === undefined ? 0 : scratch[by] / transfer[by];
}

const thresholdCount = 5;
const thresholdStep = 2;

/** Up to what the median search of every way found, in per cent. */
export function thresholdsOf({ pairs }: Pick<NasResults, "pairs">): readonly number[] {
  const bests = (Object.keys(ways) as Way[]).map((way) =>
    median(pairs.map((each) => Math.max(...each[way].points.map(({ accuracy }) => accuracy)))),
  );
  const highest = Math.floor(Math.min(...bests));
  return Array.from({ length: thresholdCount }, (_, i) => highest - thresholdStep * (thresholdCount - 1 - i));
}

interface ThresholdRow {
  readonly accuracy: number;
  /** Seconds of the processor, medians of the seeds; undefined where most did not reach it. */
  readonly seconds: Readonly<Record<Way, number | undefined>>;
  /** Seeds that took longer with transfer than from scratch. */
  readonly slower: number;
}

export function thresholdRows(results: Pick<NasResults, "pairs">): readonly ThresholdRow[] {
  const { pairs } = results;
  const secondsTo = (way: Way, accuracy: number): readonly number[] =>
    pairs.map((each) => firstWith(each[way].points, accuracy)?.processorS ?? Infinity);
  return thresholdsOf(results).map((accuracy) => {
    const seconds = (way: Way): number | undefined => {
      const middle = median([...secondsTo(way, accuracy)]);
      return Number.isFinite(middle) ? middle : undefined;
    };
    const scratch = secondsTo("scratch", accuracy);
    return {
      accuracy,
      seconds: { scratch: seconds("scratch"), files: seconds("files"), transfer: seconds("transfer") },
      slower: secondsTo("transfer", accuracy).filter((each, at) => each > (scratch[at] ?? 0)).length,
    };
  });
}

interface PartsRow {
  readonly way: Way;
  /** Milliseconds of a candidate by the clock, medians of all candidates. */
  readonly ms: SearchPoint["ms"];
  /** Seconds of the processor for all candidates of a search, the median of the seeds. */
  readonly processorS: number;
}

/** The parts of a candidate's time. */
function partsRows({ pairs }: NasResults): readonly PartsRow[] {
  return (Object.keys(ways) as Way[]).map((way) => {
    const points = pairs.flatMap((each) => each[way].points);
    const of = (part: keyof SearchPoint["ms"]): number => median(points.map(({ ms }) => ms[part]));
    return {
      way,
      ms: { read: of("read"), train: of("train"), store: of("store"), all: of("all") },
      processorS: median(pairs.map((each) => each[way].points.at(-1)?.processorS ?? 0)),
    };
  });
}

interface BytesRow {
  readonly what: string;
  readonly candidates: number;
  readonly fileBytes: number;
  readonly stemmaBytes: number;
  readonly aim: string;
}

function bytesRows({ kept, retired }: NasResults): readonly BytesRow[] {
  const row = (what: string, measured: MeasuredSearch | undefined, aim: string): readonly BytesRow[] => {
    const last = measured?.stored.at(-1);
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
  { title: "BY FILES", value: ({ files }) => secondsText(files?.processorS), align: "right" },
  { title: "WITH TRANSFER", value: ({ transfer }) => secondsText(transfer?.processorS), align: "right" },
  { title: "FASTER", value: (row) => ratioText(speedUp(row, "processorS")), align: "right" },
  { title: "BY THE CLOCK", value: (row) => ratioText(speedUp(row, "wallS")), align: "right" },
];
const shorterText = ({ scratch, transfer }: ThresholdRow["seconds"]): string =>
  scratch === undefined || transfer === undefined ? "-" : `${(100 * (1 - transfer / scratch)).toFixed(0)} %`;
const thresholdColumns: readonly ReportColumn<ThresholdRow>[] = [
  { title: "ACCURACY", value: ({ accuracy }) => `${accuracy} %`, align: "right" },
  { title: "FROM SCRATCH", value: ({ seconds }) => secondsText(seconds.scratch), align: "right" },
  { title: "BY FILES", value: ({ seconds }) => secondsText(seconds.files), align: "right" },
  { title: "WITH TRANSFER", value: ({ seconds }) => secondsText(seconds.transfer), align: "right" },
  { title: "SHORTER", value: ({ seconds }) => shorterText(seconds), align: "right" },
  { title: "SLOWER SEEDS", value: ({ slower }) => String(slower), align: "right" },
];
const msText = (value: number): string => `${Math.round(value)} ms`;
const partsColumns: readonly ReportColumn<PartsRow>[] = [
  { title: "SEARCH", value: ({ way }) => ways[way] },
  { title: "READING", value: ({ ms }) => msText(ms.read), align: "right" },
  { title: "TRAINING", value: ({ ms }) => msText(ms.train), align: "right" },
  { title: "STORING", value: ({ ms }) => msText(ms.store), align: "right" },
  { title: "ALL", value: ({ ms }) => msText(ms.all), align: "right" },
  { title: "PROCESSOR, SEARCH", value: ({ processorS }) => secondsText(processorS), align: "right" },
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
    renderTable(partsRows(results), partsColumns),
    ...(results.kept === undefined ? [] : ["", renderTable(bytesRows(results), bytesColumns)]),
    "",
  ].join("\n");
}

/** @param chart path of its chart, which is named by its last part */
export function nasMarkdown(results: NasResults, chart: string): string {
  const { timedSearch } = results;
  return `# Architecture search: figures

\`\`\`sh
./stemma bench nas --candidates ${timedSearch.candidates}${imagesOption(results)}${results.kept === undefined ? " --times" : ""} --markdown docs/architecture-search-figures.md
\`\`\`

[Architecture search](architecture-search.md) on ${results.data}, in a space whose bytes are spread over ten stages. Each
candidate is trained for one epoch of ${results.trainedImages.toLocaleString("en")} images by one worker with one thread.

![accuracy over time${results.kept === undefined ? "" : ", and bytes stored"}](${basename(chart)})

## Time to a goal

${timedSearch.candidates} candidates, a population of ${timedSearch.population}, the best of ${timedSearch.sample} is
changed: from scratch, with transfer by files of whole models behind one lock, and with transfer by Stemma. The goal is
the best accuracy that the search from scratch found at all; the seconds are those of the processor until a candidate was
at least so good, which other work on the machine disturbs less than the time on the clock.

${markdownTable(results.pairs.map(goalTimes), goalColumns)}

The ${summaryOf(results)}.
Candidates that take over layers become other models than those from scratch, so the two searches of a seed part after
the first candidates: a seed can be slower though each candidate costs less.

Seconds of the processor until a candidate with a given accuracy was found, medians of the seeds; "-" where most seeds had
none. *Slower seeds* took longer with transfer than from scratch.

${markdownTable(thresholdRows(results), thresholdColumns)}

Where the time of a candidate goes by the clock, medians: what is not reading, training or storing starts the training,
and passes files to it. Last, the processor's time for a whole search.

${markdownTable(partsRows(results), partsColumns)}
${bytesMarkdown(results)}
${machineLine()}
`;
}

const usualImages = 1_000;

const imagesOption = ({ trainedImages }: NasResults): string =>
  trainedImages === usualImages ? "" : ` --images ${trainedImages}`;

function bytesMarkdown(results: NasResults): string {
  const { storedSearch } = results;
  if (results.kept === undefined) return "";
  return `
## Bytes

${storedSearch.candidates} candidates, a population of ${storedSearch.population}, the best of ${storedSearch.sample}: all
files of the fleet after a collection, beside files of whole models with their descriptions. Both hold the
same models.

${markdownTable(bytesRows(results), bytesColumns)}
`;
}

export function nasChart({ pairs, kept, retired }: NasResults): string {
  const [first] = pairs;
  const best = (name: string, { points }: MeasuredSearch): Line => ({
    name,
    points: bestSoFar(points),
    isStepped: true,
  });
  const megabytes = (
    name: string,
    stored: MeasuredSearch["stored"],
    of: "stemmaBytes" | "fileBytes",
  ): Line => ({
    name,
    points: [{ x: 0, y: 0 }, ...stored.map((point) => ({ x: point.candidates, y: point[of] / 1e6 }))],
  });
  const bytes = (title: string, search: MeasuredSearch | undefined): readonly LinePanel[] =>
    search === undefined
      ? []
      : [
          {
            ...{ title, yAxis: "MB", xAxis: "candidates" },
            lines: [
              megabytes("files of whole models", search.stored, "fileBytes"),
              megabytes("Stemma", search.stored, "stemmaBytes"),
            ],
          },
        ];
  const worst = Math.min(...bestSoFar(first?.files.points ?? []).map(({ y }) => y));
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
              best("with transfer, by files", first.files),
            ],
    },
    ...bytes("stored, nothing retired", kept),
    ...bytes("stored, only the population", retired),
  ]);
}

function bestSoFar(points: readonly SearchPoint[]): readonly LinePoint[] {
  let best = -Infinity;
  return points.map(({ processorS, accuracy }) => {
    best = Math.max(best, accuracy);
    return { x: processorS, y: best };
  });
}
