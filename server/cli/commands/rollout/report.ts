/** `stemma rollout report`: what the transfers of a rollout took, beside what was planned. */
import { type Column, formatBytes, formatDuration } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import { unreachedLines } from "../../../fleet/rollout/unreached.js";
import type { RolloutReportAnswer } from "../../../interface/api/rollouts/rollout-definitions.js";
import { listed, plain } from "../../plain-command.js";

type Row = RolloutReportAnswer["devices"][number];

const bytesOf = (bytes: number | undefined): string => (bytes === undefined ? "-" : formatBytes(bytes));
const timeOf = (ms: number | null | undefined): string => (typeof ms === "number" ? formatDuration(ms) : "-");

const columns: readonly Column<Row>[] = [
  { title: "WAVE", value: ({ wave }) => String(wave), align: "right" },
  { title: "DEVICE", value: ({ device }) => device },
  { title: "PLANNED", value: ({ planned }) => bytesOf(planned?.bytes), align: "right" },
  { title: "SENT", value: ({ actual }) => bytesOf(actual?.bytes), align: "right" },
  { title: "PLANNED TIME", value: ({ planned }) => timeOf(planned?.ms), align: "right" },
  { title: "TIME", value: ({ actual }) => timeOf(actual?.ms), align: "right" },
];

const report = plain("rolloutReport", {
  name: "report",
  about: "what the transfers took, beside what was planned when each wave began",
  takes: { rollout: "<name>" },
  print: (answer) => ({
    ...listed(answer.devices, { nameOf: ({ device }) => device, columns, empty: "no wave has begun" }),
    data: answer,
    text: totalsOf(answer),
  }),
});

function totalsOf({
  compared,
  devices,
  plannedBytes,
  actualBytes,
  bytesError,
  timeError,
  excluded,
}: RolloutReportAnswer): string {
  const unreached = unreachedLines(excluded).map((each) => `not: ${each}`);
  if (compared === 0)
    return [
      `${counted(devices.length, "device")}; nothing was sent yet that a plan can be compared with`,
      ...unreached,
    ].join("\n");
  const percent = (error: number | null): string =>
    error === null ? "not known" : `${(100 * error).toFixed(1)} %`;
  return [
    `${compared} of ${counted(devices.length, "device")}: ${formatBytes(plannedBytes)} planned, ${formatBytes(actualBytes)} sent`,
    `median error of the bytes ${percent(bytesError)}, of the time ${percent(timeError)}`,
    ...unreached,
  ].join("\n");
}

export const commands = [report];
