/** What `stemma bench flows` says of recoveries from encoded stores. Pure. */
import { formatBytes } from "../../shared/cli/output.js";
import { renderTable } from "../../shared/cli/table.js";
import type { CodedStoreFigures } from "./flows-coded.js";
import { recoverMs, type RecoveryFigures } from "./flows-home.js";
import { markdownTable, type ReportColumn } from "./report-table.js";
import { median } from "./save-floors.js";

const ratioOf = (figures: RecoveryFigures): number => recoverMs(figures) / figures.recoverFloorMs;
const ratio = (value: number): string => value.toFixed(2);
const ms = (value: number): string => `${value.toFixed(value < 10 ? 1 : 0)} ms`;

/** Medians over all models of the flow. */
const of = (
  { useCases }: CodedStoreFigures,
  store: "raw" | "coded",
  value: (figures: RecoveryFigures) => number = recoverMs,
): number => median(useCases.map((each) => value(each[store])));

const columns: readonly ReportColumn<CodedStoreFigures>[] = [
  { title: "TEN MODELS", value: ({ model }) => model },
  { title: "UPDATE", value: ({ update }) => update },
  { title: "STORED", value: ({ rawBytes }) => formatBytes(rawBytes), align: "right" },
  { title: "CODED", value: ({ codedBytes }) => formatBytes(codedBytes), align: "right" },
  {
    title: "CHAIN",
    value: ({ useCases }) => String(Math.max(...useCases.map(({ chain }) => chain))),
    align: "right",
  },
  { title: "RECOVER", value: (flow) => ms(of(flow, "raw")), align: "right" },
  { title: "CODED", value: (flow) => ms(of(flow, "coded")), align: "right" },
  {
    title: "RATIO",
    value: (flow) => (["raw", "coded"] as const).map((store) => ratio(of(flow, store, ratioOf))).join(" → "),
    align: "right",
  },
];

export function codedText(flows: readonly CodedStoreFigures[]): string {
  return `${renderTable(flows, columns)}\n`;
}

export function codedMarkdown(flows: readonly CodedStoreFigures[]): string {
  return `## From a coded store

The ten models of a flow in one store, as they were saved and after \`stemma storage apply\`, whose default budget is the
smallest store in which a model takes at most 1.6 times as long to recover as from its smallest form without
differences. *Chain* is how many tensors are decoded one after the other at most. Each recovery is from a newly opened
store, which has decoded nothing yet, so that a first one is compared with a first one; medians of three, over the ten
models. The *ratio* is to a cached read and SHA-256, as saved → coded.

${markdownTable(flows, columns)}`;
}
