/** The tables at the end of the demo: one row for each saved version, with figures measured in this run. */
import {
  formatBytes,
  formatDuration,
  renderTable,
  type Column,
  type Output,
} from "../../../shared/cli/output.js";
import type { ResultMetadata } from "../../../shared/train/result-metadata.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import { demoFleet } from "./demo-plan.js";
import type { FleetWatch, ReportFigures } from "./fleet-watch.js";
import type { Proof } from "./prove-recoveries.js";

export interface DemoRow {
  readonly model: VersionSummary;
  readonly figures: ReportFigures | undefined;
  readonly metric: string;
  readonly proof: Proof | undefined;
}

/** The measured values that a training recorded with its version. An imported model has none. */
type MetricMetadata = Partial<ResultMetadata>;

export async function demoRows(
  operations: ServerOperations,
  watch: FleetWatch,
  proofs: readonly Proof[],
): Promise<DemoRow[]> {
  const rows: DemoRow[] = [];
  const initial = new Map<string, number | undefined>();
  for (const model of await operations.models({ fleet: demoFleet })) {
    const metadata = ((await operations.model({ fleet: demoFleet, model: model.versionId })).metadata ??
      {}) as MetricMetadata;
    const line = `${model.record.device}\0${model.record.line}\0${model.name}`;
    if (!initial.has(line)) initial.set(line, metadata["metric.before"]);
    rows.push({
      model,
      figures: watch.figures.get(model.versionId),
      metric: describeMetric(metadata, initial.get(line)),
      proof: proofs.find((proof) => proof.versionId === model.versionId),
    });
  }
  const order = ({ model }: DemoRow): string =>
    [
      model.record.bases.length === 0 ? "" : model.record.device,
      model.record.line,
      model.name,
      String(model.version).padStart(8),
    ].join("\0");
  return rows.sort((a, b) => (order(a) < order(b) ? -1 : 1));
}

/**
 * "SoH error 3.1 % → 1.9 %": the metric of the line's first base on this device's held-out data, and the
 * metric of this version.
 */
export function describeMetric(
  metadata: MetricMetadata,
  before: number | undefined = metadata["metric.before"],
): string {
  const { "metric.name": name, "metric.unit": unit = "", "metric.after": after } = metadata;
  if (name === undefined || before === undefined || after === undefined) return "-";
  return `${name} ${before.toFixed(1)} ${unit} → ${after.toFixed(1)} ${unit}`;
}

/** "75 KiB / 200 KiB (37 %)": all bytes received for a version, compared with a full snapshot of it. */
export function describeWire(wireBytes: number | undefined, tensorBytes: number): string {
  if (wireBytes === undefined) return `- / ${formatBytes(tensorBytes)}`;
  return `${formatBytes(wireBytes)} / ${formatBytes(tensorBytes)} (${Math.round((100 * wireBytes) / Math.max(1, tensorBytes))} %)`;
}

const versionColumn: Column<DemoRow> = {
  title: "VERSION",
  value: ({ model }) => `${model.name}:${model.version}`,
};

const savedColumns: readonly Column<DemoRow>[] = [
  { title: "DEVICE", value: ({ model }) => model.record.device || "server" },
  { title: "LINE", value: ({ model }) => model.record.line || "-" },
  versionColumn,
  {
    title: "APPROACH",
    value: ({ model }) => (model.claim?.isProved === true ? "proved" : model.record.approach),
  },
  {
    title: "ON THE WIRE / FULL",
    value: ({ model, figures }) => describeWire(figures?.wireBytes, model.tensorBytes),
    align: "right",
  },
];

const measuredColumns: readonly Column<DemoRow>[] = [
  versionColumn,
  {
    title: "SAVE",
    value: ({ figures }) => (figures === undefined ? "-" : formatDuration(figures.tookMs)),
    align: "right",
  },
  {
    title: "RECOVER",
    value: ({ proof }) =>
      proof?.report === undefined
        ? "-"
        : formatDuration(Object.values(proof.report.steps).reduce((sum, ms) => sum + ms, 0)),
    align: "right",
  },
  {
    title: "EXACT",
    value: ({ proof }) => (proof === undefined ? "not picked" : proof.exact ? "yes" : "NO"),
  },
  { title: "HELD-OUT: INITIAL → THIS", value: ({ metric }) => metric },
];

/** What was saved, then what was measured: two tables of the same rows, each at most 80 columns wide. */
export function renderDemoTables(rows: readonly DemoRow[]): string {
  return `${renderTable(rows, savedColumns)}\n${renderTable(rows, measuredColumns)}`;
}

/** Explains the columns. */
const legend = `ON THE WIRE: bytes received for a version, its tensors encoded against those
that device and server share. FULL: bytes of all its tensors.
proved: the vehicle sent how it made the model and no parameters; the server
made it again, bit for bit.
SAVE: from the announcement to the signed receipt after fsync.
RECOVER: load, rebuild, check the environment, verify.
HELD-OUT: the line's initial model → this version, on the device's held-out
data.`;

export function printDemoTable(rows: readonly DemoRow[], proofs: readonly Proof[], output: Output): void {
  const exact = proofs.filter((proof) => proof.exact).length;
  const withFile = proofs.filter((proof) => proof.comparedWith === "the device's own file").length;
  const summary = `${exact} of ${proofs.length} recoveries are exact, bit for bit: ${withFile} compared with the file on
the device, ${proofs.length - withFile} with the recorded Merkle root.`;
  output.print({
    data: {
      rows: rows.map(({ model, figures, metric, proof }) => ({
        versionId: model.versionId,
        name: model.name,
        version: model.version,
        device: model.record.device,
        line: model.record.line,
        approach: model.record.approach,
        claim: model.claim,
        tensorBytes: model.tensorBytes,
        figures,
        metric,
        proof,
      })),
    },
    names: rows.map(({ model }) => `${model.name}:${model.version}`),
    text: `\n${renderDemoTables(rows)}\n${summary}\n${legend}`,
  });
}
