/** What `stemma bench flows --distributed` says: tables for the terminal, a report in Markdown, a chart. Pure. */
import { formatBytes } from "../../shared/cli/output.js";
import { renderTable } from "../../shared/cli/table.js";
import type { DistributedFigures, DistributedUseCase } from "./flows-distributed.js";
import { lineChart, type Line, type LinePanel } from "./line-chart.js";
import { markdownTable, type ReportColumn } from "./report-table.js";
import { median } from "./save-floors.js";

export interface DistributedResults {
  readonly rounds: number;
  /** Medians over the rounds (medianOfRuns). */
  readonly flows: readonly DistributedFigures[];
  /** On which they were measured, first and last, where that was not today. */
  readonly days?: readonly string[];
}

interface FlowRow extends DistributedUseCase {
  readonly flow: DistributedFigures;
}

const nameOf = ({ nodes, approach }: DistributedFigures): string => `DIST-${nodes}, ${approach}`;

/** Medians over the fine-tunes of a flow. */
function rowOf(flow: DistributedFigures): FlowRow {
  const middle = (value: (one: DistributedUseCase) => number): number => median(flow.fineTunes.map(value));
  return {
    flow,
    useCase: "U3",
    saveMs: middle(({ saveMs }) => saveMs),
    saveFloorMs: middle(({ saveFloorMs }) => saveFloorMs),
    reportMs: middle(({ reportMs }) => reportMs),
    wireBytes: middle(({ wireBytes }) => wireBytes),
    recoverMs: middle(({ recoverMs }) => recoverMs),
    recoverFloorMs: middle(({ recoverFloorMs }) => recoverFloorMs),
  };
}

const ms = (value: number): string => `${value.toFixed(value < 10 ? 1 : 0)} ms`;
const ratio = (value: number): string => value.toFixed(2);

const times: readonly ReportColumn<DistributedUseCase>[] = [
  { title: "SAVE", value: ({ saveMs }) => ms(saveMs), align: "right" },
  { title: "RATIO", value: ({ saveMs, saveFloorMs }) => ratio(saveMs / saveFloorMs), align: "right" },
  {
    title: "REPORT",
    value: ({ reportMs }) => (reportMs === 0 ? "-" : `${(reportMs / 1000).toFixed(1)} s`),
    align: "right",
  },
  { title: "RECOVER", value: ({ recoverMs }) => ms(recoverMs), align: "right" },
  {
    title: "RATIO",
    value: ({ recoverMs, recoverFloorMs }) => ratio(recoverMs / recoverFloorMs),
    align: "right",
  },
];
const wire: ReportColumn<DistributedUseCase> = {
  title: "WIRE",
  value: ({ wireBytes }) => (wireBytes === 0 ? "-" : formatBytes(wireBytes)),
  align: "right",
};
const flowColumns: readonly ReportColumn<FlowRow>[] = [
  { title: "FLOW", value: ({ flow }) => nameOf(flow) },
  { title: "STORED", value: ({ flow }) => formatBytes(flow.storedBytes), align: "right" },
  wire,
  ...times,
];
const caseColumns: readonly ReportColumn<FlowRow>[] = [
  { title: "FLOW", value: ({ flow }) => nameOf(flow) },
  { title: "USE CASE", value: ({ useCase }) => useCase },
  wire,
  ...times,
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

const serverLimit = 512e6;

/** Nothing lost, and the server's memory. */
export function distributedReaches({ flows }: DistributedResults): readonly Reach[] {
  return flows.flatMap((flow): Reach[] => {
    const memory = flow.serverBytes;
    return [
      {
        what: `models lost, ${nameOf(flow)}`,
        aim: "0",
        measured: `${flow.lost} of ${flow.models}`,
        isMet: flow.lost === 0,
      },
      ...(memory === undefined
        ? []
        : [
            {
              what: `memory of the server, ${nameOf(flow)}`,
              aim: `≤ ${formatBytes(serverLimit)}`,
              measured: formatBytes(memory),
              isMet: memory <= serverLimit,
            },
          ]),
    ];
  });
}

export function distributedText(results: DistributedResults): string {
  return [
    renderTable(results.flows.map(rowOf), flowColumns),
    "",
    renderTable(distributedReaches(results), reachColumns),
    "",
  ].join("\n");
}

/**
 * @param chart file name of the chart
 * @param machine what it was measured on, a sentence
 */
export function distributedMarkdown(results: DistributedResults, chart: string, machine: string): string {
  const { flows, rounds } = results;
  const perPhase = flows[0]?.perPhase ?? 0;
  const rowsOf = (part: "fineTunes" | "onServer"): readonly FlowRow[] =>
    flows.flatMap((flow) => flow[part].map((useCase): FlowRow => ({ ...useCase, flow })));
  return `# MMlib's distributed flow

\`\`\`sh
./stemma bench flows --distributed --markdown docs/flows-distributed.md
\`\`\`

The distributed flows of MMlib's evaluation (§4.6), for MobileNetV2, fully updated. A server has an initial model, U1.
Each of 5, 10 or 20 nodes, which are agents in processes of their own with stores of their own, gets it over MQTT,
fine-tunes it ${perPhase} times, each time from the model before, and reports every model (U3-1-1 to U3-1-${perPhase}). Then the server
makes U2 from U1 and sends it to all nodes, and each fine-tunes that ${perPhase} times (U3-2-1 to U3-2-${perPhase}). All nodes work at
once, on one machine with the server. That makes 2 + 2 × ${perPhase} models a node, and U2 is trained from U1 (MM2).

At the end each model is recovered from the server's store, and the hash of its bytes is compared with that of what its
node saved: a model that is not there or differs counts as *lost*.

*Stored* is what a fine-tune adds to the server's disk, *wire* what the server received for it; the link is fast, so a
node sends changed tensors as they are (\`coding: auto\` in its profile). The time to *save* is the device's, until the
model is durable in its outbox; *report* is the time from the announcement until the server has it. The *ratio* is to a
floor: to save, SHA-256 of all bytes and one fsynced write of them, by the same node in turn with its saves, while the
others work; to recover, a cached read and SHA-256. The whole machine shares its cores and its disk among all nodes, so
times grow with the nodes; MMlib had a machine for each. The server has the memory settings of the services
([operating.md](operating.md), "Services"). Medians over the nodes, of ${rounds === 1 ? "one run" : `${rounds} runs their medians, of loss and memory the worst`} (MM5).

${markdownTable(flows.map(rowOf), flowColumns)}

## Aims

${markdownTable(distributedReaches(results), reachColumns)}

MMlib's own figures for DIST-20: just under 0.1 s to save a snapshot or an update, to a document store in its network,
without fsync.

## Chart

![time to save, to report and to recover, by use case](${chart})

## U1 and U2

The server makes these itself, so nothing arrives over MQTT. The time to save is that of an import over its socket.

${markdownTable(rowsOf("onServer"), caseColumns)}

## All fine-tunes

${markdownTable(rowsOf("fineTunes"), caseColumns)}

${machine}
`;
}

/** Times of each use case, as in the paper's figures 12 and 15. */
export function distributedChart({ flows }: DistributedResults): string {
  const labels = flows[0]?.fineTunes.map(({ useCase }) => useCase.replace("U3-", "")) ?? [];
  const panel = (title: string, yAxis: string, value: (one: DistributedUseCase) => number): LinePanel => ({
    title,
    yAxis,
    xAxis: "",
    xLabels: labels,
    lines: flows.map((flow): Line => ({
      name: nameOf(flow),
      points: flow.fineTunes.map((one, x) => ({ x, y: value(one) })),
    })),
  });
  return lineChart("MobileNetV2 in the distributed flow, by fine-tune U3-phase-number", [
    panel("time to save", "multiples of the floor", (one) => one.saveMs / one.saveFloorMs),
    panel("time to report", "seconds", ({ reportMs }) => reportMs / 1000),
    panel("time to recover", "multiples of the floor", (one) => one.recoverMs / one.recoverFloorMs),
  ]);
}
