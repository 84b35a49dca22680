/** What `stemma bench flows` says of provenance with data of MMlib's sizes. Pure. */
import { formatBytes } from "../../shared/cli/output.js";
import { renderTable } from "../../shared/cli/table.js";
import type { PictureFigures } from "./flows-pictures.js";
import { lineChart } from "./line-chart.js";
import { markdownTable, type ReportColumn } from "./report-table.js";

const columns: readonly ReportColumn<PictureFigures>[] = [
  { title: "DATA", value: ({ name }) => name },
  { title: "FOR", value: ({ useCase }) => useCase },
  { title: "PIXELS", value: ({ pixelBytes }) => formatBytes(pixelBytes), align: "right" },
  { title: "CARRIED", value: (figures) => formatBytes(carriedBytes(figures)), align: "right" },
  { title: "KNOWN", value: ({ storyBytes }) => formatBytes(storyBytes), align: "right" },
  { title: "LEFT", value: ({ sentBytes }) => formatBytes(sentBytes), align: "right" },
  { title: "SNAPSHOT", value: ({ modelBytes }) => formatBytes(modelBytes), align: "right" },
  {
    title: "REPLAY",
    value: ({ replayMs, trainMs }) => `${(replayMs / trainMs).toFixed(2)} ×`,
    align: "right",
  },
];
/** The terminal has no room for these. */
const widerColumns: readonly ReportColumn<PictureFigures>[] = [
  { title: "TRAINED IN", value: ({ trainMs }) => seconds(trainMs), align: "right" },
  { title: "REPLAYED IN", value: ({ replayMs }) => seconds(replayMs), align: "right" },
];

const seconds = (ms: number): string => `${Math.round(ms / 1000)} s`;
const carriedBytes = ({ codedBytes, storyBytes }: PictureFigures): number => codedBytes + storyBytes;

export function picturesText(figures: readonly PictureFigures[]): string {
  return `${renderTable(figures, columns)}\n`;
}

const heading = "## Provenance with data of MMlib's sizes";

/**
 * A section of the report.
 * @param machine a sentence on where and when it was measured, and of which commit
 */
export function picturesMarkdown(
  figures: readonly PictureFigures[],
  chart: string | undefined,
  machine: string,
): string {
  const [{ codedBytes, pixelBytes } = { codedBytes: Number.NaN, pixelBytes: 1 }] = figures;
  return `${heading}

MMlib's sets (table 1) as generated pictures: as many as it has, of such a size that their pixels, a byte each, have its
bytes. Pixels are random, the worst case for a coding: of samples, which are float32, ${(codedBytes / pixelBytes).toFixed(2)} bytes a pixel are
stored. A device fine-tunes MobileNetV2 on each set for two epochs of two batches (§4.4) of 16 pictures; the others of
the set are for validation and held out.

- *Carried*: the data with the model, as MMlib's approach saves them each time: the samples coded as \`data push\` stores
  them, and *known*. Stemma stores them once, for all models; a device sends at most 8 MiB of them with a model, so it
  sends none of these.
- *Known*: the data are stored at the server: the record, and all that says how the model was made. This has to
  stay of the model once its tensors are dropped, beside data and engine.
- *Left*: the data stay on the device: what it sent over MQTT, the parameters as an update, coded where the device
  found that faster than its link (here loopback). The server stores and serves the model, and cannot make it again:
  its replay ended as *unreplayable*.

With the data stored, the server's replay gave every model bit for bit. Both times, measured once,
include the validation and held-out pictures, which are most of a set; the replay's includes reading the stored data.

${markdownTable(figures, [...columns, ...widerColumns])}

${chart === undefined ? "" : `![bytes of a model, by data](${chart})\n\n`}This section: ${machine[0]?.toLowerCase()}${machine.slice(1)}
`;
}

/** The report with this section in the place of the one that it has. @throws Error where it has none */
export function withPictures(report: string, section: string): string {
  const at = report.indexOf(`${heading}\n`);
  if (at < 0) throw new Error(`The report has no section "${heading}". Measure all of it first.`);
  const end = report.indexOf("\n## ", at);
  return `${report.slice(0, at)}${section}${end < 0 ? "" : report.slice(end)}`;
}

/** Bytes of a model by data set and by how the data are counted, as in the paper's figure 9. */
export function picturesChart(figures: readonly PictureFigures[]): string {
  const line = (name: string, bytesOf: (figures: PictureFigures) => number) => ({
    name,
    points: figures.map((each, x) => ({ x, y: bytesOf(each) / 1e6 })),
  });
  return lineChart("MobileNetV2 by provenance", [
    {
      ...{ title: "bytes of a model", yAxis: "MB", xAxis: "" },
      xLabels: figures.map(({ name }) => name),
      lines: [
        line("data carried", carriedBytes),
        line("data known", ({ storyBytes }) => storyBytes),
        line("data left: an update", ({ sentBytes }) => sentBytes),
        line("snapshot", ({ modelBytes }) => modelBytes),
      ],
    },
  ]);
}
