/** A simulation as text for the terminal, 80 columns wide. Pure. */
import { formatBytes, formatDuration } from "../../../shared/cli/output.js";
import { counted } from "../../../shared/printable.js";
import type { RolloutOutcome, SimulationSummary } from "./simulation.js";

/** The number of the newest troubles that are shown; `-o json` has more, in full. */
const shownExamples = 3;
const textColumns = 66;

function firstWords(text: string): string {
  return text.length <= textColumns ? text : `${text.slice(0, textColumns - 1)}…`;
}

export function summaryText(summary: SimulationSummary): string {
  const { devices, connected, wasStopped, tookMs, reports, breaks, server, troubles, examples } = summary;
  const { saved, recorded, stored, released, lost, waiting, recordedAfterMs } = reports;
  return [
    `${devices} simulated devices in ${formatDuration(tookMs)}${wasStopped ? ", stopped before the end" : ""}; ${connected} connected at the end`,
    `  reports   ${counted(saved, "model")} saved, ${recorded} recorded, ${stored} stored, ${released} released`,
    `            ${lost} lost, ${waiting} without a receipt${waiting > 0 ? ", which the devices keep" : ""}`,
    ...(recordedAfterMs === null
      ? []
      : [
          `            announced to recorded: half in ${formatDuration(recordedAfterMs.median)}, 99 % in ${formatDuration(recordedAfterMs.p99)}`,
        ]),
    `  traffic   ${formatBytes(summary.bytesDown)} to devices, ${formatBytes(summary.bytesUp)} from them, ${breaks} links broke`,
    `  memory    server at most ${server.peakBytes === null ? "unknown (another machine)" : formatBytes(server.peakBytes)}, devices ${formatBytes(summary.devicesBytes)} together`,
    ...(summary.rollout === null ? [] : rolloutText(summary.rollout)),
    ...Object.entries(troubles).map(([event, count]) => `  agents logged ${event} ${counted(count, "time")}`),
    ...examples.slice(-shownExamples).map((text) => `            ${firstWords(text)}`),
  ].join("\n");
}

function rolloutText({
  phase,
  because,
  devices,
  plannedBytes,
  plannedMs,
  tookMs,
  compared,
}: RolloutOutcome): readonly string[] {
  const counted = Object.entries(devices)
    .filter(([, count]) => count > 0)
    .map(([what, count]) => `${count} ${what}`);
  const error = (value: number | null): string =>
    value === null ? "unknown" : `${(100 * value).toFixed(1)} %`;
  return [
    `  rollout   ${phase}${because === "" ? "" : `: ${because}`}`,
    `            ${counted.join(", ")}`,
    `            planned ${formatBytes(plannedBytes)}${plannedMs === null ? "" : ` and ${formatDuration(plannedMs)} of transfers`}; it took ${formatDuration(tookMs)}`,
    `            of ${compared.devices} devices: ${formatBytes(compared.plannedBytes)} planned, ${formatBytes(compared.actualBytes)} sent; median`,
    `            error of the bytes ${error(compared.bytesError)}, of the time ${error(compared.timeError)}`,
  ];
}
