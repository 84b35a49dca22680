/** What `stemma bench flows` says of its measurements: tables for the terminal, a report in Markdown, charts. */
import { formatBytes } from "../../shared/cli/output.js";
import { renderTable } from "../../shared/cli/table.js";
import type { CodedStoreFigures } from "./flows-coded.js";
import { codedMarkdown, codedText } from "./flows-coded-report.js";
import type { DepthFigures, FirstAndDeep } from "./flows-depth.js";
import { recoverMs } from "./flows-home.js";
import { saveMs, type FlowFigures, type UseCaseFigures } from "./flows-standard.js";
import type { ProvenanceFigures } from "./flows-provenance.js";
import { provenanceMarkdown, provenanceText } from "./flows-provenance-report.js";
import type { PictureFigures } from "./flows-pictures.js";
import { picturesText } from "./flows-pictures-report.js";
import { lineChart, type Line, type LinePanel } from "./line-chart.js";
import { machineLine } from "./machine.js";
import { markdownTable, type ReportColumn } from "./report-table.js";
import { median } from "./save-floors.js";

export interface FlowResults {
  readonly rounds: number;
  readonly flows: readonly FlowFigures[];
  /** Recoveries from encoded stores, measured once. */
  readonly coded: readonly CodedStoreFigures[];
  readonly depths: readonly (DepthFigures & { readonly update: string })[];
  readonly provenance?: ProvenanceFigures;
  readonly pictures?: readonly PictureFigures[];
  /** First and last day of the measurement; absent: today. */
  readonly days?: readonly string[];
}

/**
 * MMlib's own figures: bytes as published (figure 7 and 8), times as multiples of the same floors, measured again on
 * one thread without its check of the environment.
 */
interface MmlibFigures {
  readonly model: string;
  readonly approach: string;
  readonly save: string;
  readonly recover: string;
  readonly storedBytes: string;
}
const mmlib: readonly MmlibFigures[] = [
  {
    model: "MobileNetV2",
    approach: "snapshot",
    save: "3.0",
    recover: "8.7 → 8.7",
    storedBytes: "14,340,632 B",
  },
  {
    model: "MobileNetV2",
    approach: "update, full",
    save: "3.6",
    recover: "8.7 → 34",
    storedBytes: "14,322,561 B",
  },
  {
    model: "MobileNetV2",
    approach: "update, partial",
    save: "3.8",
    recover: "8.7 → 28",
    storedBytes: "5,195,659 B",
  },
  { model: "ResNet-18", approach: "snapshot", save: "2.4", recover: "7.3", storedBytes: "46,871,495 B" },
  { model: "ResNet-18", approach: "update, full", save: "2.5", recover: "→ 21", storedBytes: "46,859,837 B" },
  {
    model: "ResNet-18",
    approach: "update, partial",
    save: "2.6",
    recover: "→ 16",
    storedBytes: "2,079,879 B",
  },
  { model: "ResNet-152", approach: "snapshot", save: "3.6", recover: "6.0", storedBytes: "241,888,831 B" },
  {
    model: "ResNet-152",
    approach: "update, full",
    save: "4.1",
    recover: "→ 31",
    storedBytes: "241,863,473 B",
  },
  {
    model: "ResNet-152",
    approach: "update, partial",
    save: "2.9",
    recover: "→ 17",
    storedBytes: "8,400,979 B",
  },
];

interface FlowRow {
  readonly model: string;
  readonly approach: string;
  readonly storedBytes: number;
  readonly codedBytes: number | undefined;
  readonly save: number;
  readonly saveRatio: number;
  readonly recover: number;
  readonly recoverRatio: number;
  /** At U3-1-1 and at the end of the flow's first phase, U3-1-4. */
  readonly recoverRatios: readonly [first: number, last: number];
}

const isFineTune = ({ useCase }: UseCaseFigures): boolean => useCase.startsWith("U3");

/** Medians over the fine-tunes of a flow; the other use cases are in the table of all. */
function rowOf({ model, update, approach, useCases }: FlowFigures): FlowRow {
  const fineTunes = useCases.filter(isFineTune);
  const middle = (value: (figures: UseCaseFigures) => number): number => median(fineTunes.map(value));
  const ratioAt = (useCase: string): number => {
    const found = useCases.find((each) => each.useCase === useCase);
    return found === undefined ? Number.NaN : recoverMs(found) / found.recoverFloorMs;
  };
  const coded = fineTunes.flatMap(({ codedBytes }) => codedBytes ?? []);
  return {
    model,
    approach: approach === "snapshot" ? `snapshot ${update}` : `update ${update}`,
    storedBytes: middle(({ storedBytes }) => storedBytes),
    codedBytes: coded.length === 0 ? undefined : median(coded),
    save: middle(saveMs),
    saveRatio: middle((figures) => saveMs(figures) / figures.saveFloorMs),
    recover: middle(recoverMs),
    recoverRatio: middle((figures) => recoverMs(figures) / figures.recoverFloorMs),
    recoverRatios: [ratioAt("U3-1-1"), ratioAt("U3-1-4")],
  };
}

const ms = (value: number): string => `${value.toFixed(value < 10 ? 1 : 0)} ms`;
const ratio = (value: number): string => value.toFixed(2);

const flowColumns: readonly ReportColumn<FlowRow>[] = [
  { title: "MODEL", value: ({ model }) => model },
  { title: "APPROACH", value: ({ approach }) => approach },
  { title: "STORED", value: ({ storedBytes }) => formatBytes(storedBytes), align: "right" },
  {
    title: "CODED",
    value: ({ codedBytes }) => (codedBytes === undefined ? "-" : formatBytes(codedBytes)),
    align: "right",
  },
  { title: "SAVE", value: ({ save }) => ms(save), align: "right" },
  { title: "RATIO", value: ({ saveRatio }) => ratio(saveRatio), align: "right" },
  { title: "RECOVER", value: ({ recover }) => ms(recover), align: "right" },
  { title: "RATIO", value: ({ recoverRatio }) => ratio(recoverRatio), align: "right" },
];
/** The terminal has no room for it. */
const firstToLast: ReportColumn<FlowRow> = {
  title: "U3-1-1 → U3-1-4",
  value: ({ recoverRatios }) => recoverRatios.map(ratio).join(" → "),
  align: "right",
};

type StepRow = UseCaseFigures & { readonly of: string };
const stepColumns: readonly ReportColumn<StepRow>[] = [
  { title: "FLOW", value: ({ of }) => of },
  { title: "USE CASE", value: ({ useCase }) => useCase },
  { title: "STORED", value: ({ storedBytes }) => formatBytes(storedBytes), align: "right" },
  {
    title: "CODED",
    value: ({ codedBytes }) => (codedBytes === undefined ? "-" : formatBytes(codedBytes)),
    align: "right",
  },
  { title: "EXTRACT", value: ({ save }) => ms(save.extractMs), align: "right" },
  { title: "PERSIST", value: ({ save }) => ms(save.persistMs), align: "right" },
  { title: "FLOOR", value: ({ saveFloorMs }) => ms(saveFloorMs), align: "right" },
  { title: "LOAD", value: ({ recover }) => ms(recover.loadMs), align: "right" },
  { title: "REBUILD", value: ({ recover }) => ms(recover.rebuildMs), align: "right" },
  { title: "CHECK", value: ({ recover }) => ms(recover.checkEnvironmentMs), align: "right" },
  { title: "VERIFY", value: ({ recover }) => ms(recover.verifyMs), align: "right" },
  { title: "FLOOR", value: ({ recoverFloorMs }) => ms(recoverFloorMs), align: "right" },
];

interface Reach {
  readonly what: string;
  readonly aim: string;
  readonly measured: string;
  readonly isMet: boolean;
}

const reachColumns: readonly ReportColumn<Reach>[] = [
  { title: "WHAT", value: ({ what }) => what },
  { title: "AIM", value: ({ aim }) => aim, align: "right" },
  { title: "MEASURED", value: ({ measured }) => measured, align: "right" },
  { title: "", value: ({ isMet }) => (isMet ? "met" : "missed") },
];

/** What a server keeps of an update, computed: its tensors coded, and all else that the save stored. */
function keptByServer({ storedBytes, changedBytes, codedBytes }: UseCaseFigures): number | undefined {
  return codedBytes === undefined ? undefined : codedBytes + storedBytes - changedBytes;
}

/** Medians over the fine-tunes of each flow, beside their aims. */
export function reachesOf({ flows, depths }: FlowResults): readonly Reach[] {
  const reaches: Reach[] = [];
  const partial = flows.filter(({ approach, update }) => approach === "update" && update === "partial");
  for (const { model, modelBytes, useCases } of partial.filter((flow) => flow.model === "resnet-152")) {
    const fineTunes = useCases.filter(isFineTune);
    const stored = median(fineTunes.map(({ storedBytes }) => storedBytes)) / modelBytes;
    const coded = median(fineTunes.flatMap((figures) => keptByServer(figures) ?? [])) / modelBytes;
    reaches.push(atMost(`${model}, partial, not coded, of a snapshot`, 100 * stored, 2.6, "%"));
    reaches.push(atMost(`${model}, partial, coded, of a snapshot`, 100 * coded, 2.6, "%"));
  }
  for (const flow of flows.filter(({ approach }) => approach === "update")) {
    const { saveRatio, recoverRatio } = rowOf(flow);
    const of = `${flow.model}, ${flow.update} update`;
    reaches.push(atMost(`save ${of}, of the floor`, saveRatio, 1.5, "×"));
    reaches.push(atMost(`recover ${of}, of the floor`, recoverRatio, 2, "×"));
  }
  for (const { depth, update, opened, oneTensor, ...all } of depths) {
    const reach = (how: string, { deepMs, firstMs }: FirstAndDeep): void =>
      void reaches.push(
        atMost(`recover depth ${depth}, ${update}${how}, of depth 1`, deepMs / firstMs, 1.15, "×"),
      );
    reach("", all);
    reach(", newly opened", opened);
    reach(", one tensor", oneTensor);
  }
  return reaches;
}

function atMost(what: string, value: number, limit: number, unit: string): Reach {
  return { what, aim: `≤ ${limit} ${unit}`, measured: `${value.toFixed(2)} ${unit}`, isMet: value <= limit };
}

export function flowsText(results: FlowResults): string {
  return [
    renderTable(results.flows.map(rowOf), flowColumns),
    "",
    ...(results.coded.length === 0 ? [] : [codedText(results.coded)]),
    renderTable(reachesOf(results), reachColumns),
    "",
    ...(results.provenance === undefined ? [] : [provenanceText(results.provenance)]),
    ...(results.pictures === undefined ? [] : [picturesText(results.pictures)]),
  ].join("\n");
}

/**
 * @param charts file names of the charts, by model
 * @param pictures the section on provenance with MMlib's sizes of data
 */
export function flowsMarkdown(
  results: FlowResults,
  charts: ReadonlyMap<string, string>,
  pictures = "",
): string {
  const steps = results.flows.flatMap(({ model, update, approach, useCases }) =>
    useCases.map((figures): StepRow => ({ ...figures, of: `${model}, ${approach}, ${update}` })),
  );
  return `# MMlib's evaluation flow

\`\`\`sh
./stemma bench flows --resume flows.jsonl --markdown docs/flows.md
\`\`\`

All rounds together take hours. What has ended is kept in the file of \`--resume\`: the command can be stopped at any
time, and the same command goes on in another quiet hour, on the same machine and commit.

The standard flow of MMlib's evaluation (§4.1): U1 is an initial model with seeded weights; four fine-tunes follow from
it, each from the one before (U3-1-1 to U3-1-4); U2 is trained from U1; four fine-tunes follow from that. An update
moves all tensors (*full*) or the two of the last layer (*partial*) by about 0.0002, which is what a fine-tune with a
small learning rate does. *Snapshot* keeps each model whole in a home of its own, *update* stores what differs from
the model before.

*Stored* counts all files that a save adds, without those of its base (MM6); *coded* is what the codec makes of the
changed tensors: what a device sends and a server keeps. Times are of a store that is not coded; those of one that is
are [below](#from-a-coded-store). The time to save is extract and persist, the time to recover
load, rebuild, check and verify. The *ratio* is to a floor of the same run: to save, SHA-256 of all bytes and one
fsynced write of those that are stored (MMlib does not fsync); to recover, a cached read and SHA-256. A recovery
reads tensors while it hashes others, so it can take less than its floor, which does one after the other. Medians of
${results.rounds === 1 ? "one round" : `${results.rounds} rounds`}, and over the eight fine-tunes.

${markdownTable(results.flows.map(rowOf), [...flowColumns, firstToLast])}

## Aims

${markdownTable(reachesOf(results), reachColumns)}

${results.coded.length === 0 ? "" : `${codedMarkdown(results.coded)}\n\n`}## MMlib's figures

Bytes at a U3 as published; times as multiples of the same floors, measured again with MMlib on one thread and without
its check of the environment. The paper's own times contain more than a second of that check, so its recovery of the
update approach doubles only after 18 models; without it, it is 3.8 times as long at the fourth (MM14).

${markdownTable(mmlib, [
  { title: "MODEL", value: ({ model }) => model },
  { title: "APPROACH", value: ({ approach }) => approach },
  { title: "SAVE", value: ({ save }) => save, align: "right" },
  { title: "RECOVER U1 → U3-1-4", value: ({ recover }) => recover, align: "right" },
  { title: "STORED AT U3", value: ({ storedBytes }) => storedBytes, align: "right" },
])}

## Charts

${[...charts].map(([model, file]) => `![${model}: bytes, time to save, time to recover](${file})`).join("\n\n")}

${results.provenance === undefined ? "" : `${provenanceMarkdown(results.provenance)}\n`}${pictures === "" ? "" : `${pictures}\n`}## All use cases

${markdownTable(steps, stepColumns)}

Sections that do not say it themselves: ${machineLine(results.days).replace("Measured", "measured")}
`;
}

/** Bytes, time to save and time to recover of each use case of a network, as in the paper's figures 7, 10 and 14. */
export function flowChart(model: string, flows: readonly FlowFigures[]): string {
  const own = flows.filter((flow) => flow.model === model);
  const labels = own[0]?.useCases.map(({ useCase }) => useCase) ?? [];
  const linesOf = (value: (figures: UseCaseFigures) => number, suffix = ""): readonly Line[] =>
    own.map(({ approach, update, useCases }) => ({
      name: `${approach}, ${update}${suffix}`,
      points: useCases.map((figures, x) => ({ x, y: value(figures) })).filter(({ y }) => !Number.isNaN(y)),
    }));
  const panel = (title: string, yAxis: string, lines: readonly Line[]): LinePanel => ({
    title,
    yAxis,
    xAxis: "",
    xLabels: labels,
    lines: lines.filter(({ points }) => points.length > 0),
  });
  const coded = linesOf(({ codedBytes }) => (codedBytes ?? Number.NaN) / 1e6, ", coded");
  return lineChart(`${model} in the standard flow`, [
    panel("stored", "MB", [...linesOf(({ storedBytes }) => storedBytes / 1e6), ...coded]),
    panel(
      "time to save",
      "multiples of the floor",
      linesOf((figures) => saveMs(figures) / figures.saveFloorMs),
    ),
    panel(
      "time to recover",
      "multiples of the floor",
      linesOf((figures) => recoverMs(figures) / figures.recoverFloorMs),
    ),
  ]);
}
