/** What `stemma bench flows` says of the flow by provenance. Pure. */
import { formatBytes, formatDuration } from "../../shared/cli/output.js";
import { renderTable } from "../../shared/cli/table.js";
import type { ProvenanceFigures, ProvenanceUseCase } from "./flows-provenance.js";
import { markdownTable, type ReportColumn } from "./report-table.js";
import { median } from "./save-floors.js";

const columns: readonly ReportColumn<ProvenanceUseCase>[] = [
  { title: "PROVENANCE", value: ({ useCase }) => useCase },
  { title: "DEPTH", value: ({ depth }) => String(depth), align: "right" },
  {
    title: "SENT",
    value: ({ wireBytes }) => (wireBytes === undefined ? "-" : formatBytes(wireBytes)),
    align: "right",
  },
  { title: "DATA", value: ({ hasData }) => (hasData ? "sent" : "known") },
  { title: "TRAINED IN", value: ({ trainMs }) => formatDuration(trainMs), align: "right" },
  { title: "REPLAY", value: ({ replayMs }) => formatDuration(replayMs), align: "right" },
  { title: "FROM U1", value: ({ recoverMs }) => formatDuration(recoverMs), align: "right" },
];

export function provenanceText({ useCases }: ProvenanceFigures): string {
  return `${renderTable(useCases, columns)}\n`;
}

/** The three ways to count what a fine-tune takes (MM3). */
interface Counted {
  readonly data: string;
  readonly bytes: number;
  readonly replay: string;
}

function counted({ modelBytes, useCases }: ProvenanceFigures): readonly Counted[] {
  const sent = (hasData: boolean): number =>
    median(
      useCases
        .filter((one) => one.hasData === hasData)
        .flatMap(({ wireBytes }) => (wireBytes === undefined ? [] : [wireBytes])),
    );
  return [
    { data: "come with each model, as with MMlib", bytes: sent(true), replay: "yes" },
    { data: "are known to the server", bytes: sent(false), replay: "yes" },
    { data: "stay on the device", bytes: modelBytes, replay: "no: the parameters are sent" },
  ];
}

/** A section of the report. */
export function provenanceMarkdown(figures: ProvenanceFigures): string {
  const { pictures, modelBytes, useCases } = figures;
  return `## Provenance

The same flow with trainings that are real, and short, as MMlib shortens them (§4.4): a device fine-tunes MobileNetV2
(with a head for ten classes, ${formatBytes(modelBytes)} of tensors) for one epoch of ${pictures} small pictures and reports how it made each
model instead of its parameters; the server trains U1 and U2. What is *sent* is all that arrived until the server knew
how the model was made. Then the server makes the model again, bit for bit (*replay*), and only then the device may
delete its own. Recovered *from U1*, a model takes the replays of all those between: MMlib's provenance approach pays
this with each recovery, Stemma once, for the proof: it keeps what it has proved as an update. Times were measured once.

${markdownTable(useCases, columns)}

What a fine-tune takes on the wire, counted three ways (MM3). \`data\` of another size move the first row only; those of
MMlib's sizes follow.

${markdownTable(counted(figures), [
  { title: "DATA", value: ({ data }) => data },
  { title: "BYTES", value: ({ bytes }) => formatBytes(bytes), align: "right" },
  {
    title: "OF A SNAPSHOT",
    value: ({ bytes }) => `${((100 * bytes) / modelBytes).toFixed(2)} %`,
    align: "right",
  },
  { title: "REPLAYED", value: ({ replay }) => replay },
])}
`;
}
