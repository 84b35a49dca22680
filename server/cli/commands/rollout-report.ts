/** `stemma rollout report`: what the transfers of a rollout took, beside what was planned. */
import type { Command } from "commander";
import { formatBytes, formatDuration, type Column } from "../../../shared/cli/output.js";
import type { RolloutReportAnswer } from "../../interface/api/rollouts/rollout-definitions.js";
import { withContext, type CommandContext } from "../context.js";

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

export function addRolloutReportCommand(rollout: Command): void {
  rollout
    .command("report")
    .argument("<name>")
    .description("what the transfers took, beside what was planned when each wave began")
    .action(async (name: string, _: unknown, command: Command) =>
      withContext(command, (context) => reportCommand(name, context)),
    );
}

async function reportCommand(
  rollout: string,
  { output, operations, options: { fleet } }: CommandContext,
): Promise<void> {
  const report = await (await operations()).rolloutReport({ fleet, rollout });
  output.print({
    data: report,
    names: report.devices.map(({ device }) => device),
    table: { rows: report.devices, columns, empty: "no wave has begun" },
    text: totalsOf(report),
  });
}

function totalsOf({
  compared,
  devices,
  plannedBytes,
  actualBytes,
  bytesError,
  timeError,
}: RolloutReportAnswer): string {
  if (compared === 0)
    return `${devices.length} devices; nothing was sent yet that a plan can be compared with`;
  const percent = (error: number | null): string =>
    error === null ? "not known" : `${(100 * error).toFixed(1)} %`;
  return [
    `${compared} of ${devices.length} devices: ${formatBytes(plannedBytes)} planned, ${formatBytes(actualBytes)} sent`,
    `median error of the bytes ${percent(bytesError)}, of the time ${percent(timeError)}`,
  ].join("\n");
}
