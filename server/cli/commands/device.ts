/** `stemma device`: the devices of a fleet. Further commands are in files of their own. */
import type { Command } from "commander";
import { exitStatus } from "../../../shared/errors.js";
import { deviceOperations } from "../../interface/api/devices/device-definitions.js";
import { withContext, type CommandContext } from "../context.js";
import { appendValue, parseAssignments } from "../../../shared/cli/command-line.js";
import { formatTime, type Column } from "../../../shared/cli/output.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import { refuseReduced } from "../../learning/evaluation/reduced-models.js";
import { inputOption } from "../input-option.js";
import { describeKeyValues } from "../key-values.js";
import { nameOf } from "../version-text.js";

export const evenIfClaimedText =
  "also where the device has models whose parameters only it has; these may be lost";

interface RevokeChoices {
  readonly evenIfClaimed: boolean;
  readonly because: string;
  readonly dryRun: boolean;
}
interface AssignChoices {
  readonly allowReduced: boolean;
  readonly dryRun: boolean;
}

/** What commander passes to the action of `device assign`. */
type AssignArguments = [
  device: string,
  line: string,
  model: string,
  choices: AssignChoices,
  command: Command,
];

export function addDeviceCommands(device: Command): void {
  device
    .command("list")
    .option(
      "--select <selection>",
      "only those that this means: 'label.region=eu and seen<7d' (docs/selections.md)",
    )
    .addOption(inputOption("--limit <n>", deviceOperations.devices.query.shape.limit, "at most n of them"))
    .addOption(inputOption("--offset <n>", deviceOperations.devices.query.shape.offset, "skip the first n"))
    .description("the fleet's devices and what they run now")
    .action(async (choices: ListChoices, command: Command) =>
      withContext(command, (context) => listCommand(choices, context)),
    );
  device
    .command("show")
    .argument("<device>")
    .description("one device: lines, active models, session")
    .action(async (name: string, _: unknown, command: Command) =>
      withContext(command, (context) => showCommand(name, context)),
    );
  device
    .command("revoke")
    .argument("<device>")
    .option("--because <reason>", "kept with the fact", "revoked by hand")
    .option("--even-if-claimed", evenIfClaimedText, false)
    .option("--dry-run", "only check that the device exists", false)
    .description(
      "cut a device off: its certificate, token and key are refused from now on; its models are kept",
    )
    .action(async (name: string, choices: RevokeChoices, command: Command) =>
      withContext(command, (context) => revokeCommand(name, choices, context)),
    );
  addLineCommands(device);
}

/** Commands on one line of a device. */
function addLineCommands(device: Command): void {
  device
    .command("assign")
    .argument("<device>")
    .argument("<line>")
    .argument("<model>")
    .option("--allow-reduced", "the model may be a reduced (lossy) one", false)
    .option("--dry-run", "only check that both exist", false)
    .description("give a model to a device's line, as initial model or update")
    .action(async (...[name, line, model, choices, command]: AssignArguments) =>
      withContext(command, (context) => assignCommand({ device: name, line, model }, choices, context)),
    );
  device
    .command("train")
    .argument("<device>")
    .argument("<line>")
    .option("--set <key=value>", "a parameter of the recipe (repeatable)", appendValue, [])
    .description("ask a connected device to fine-tune a line now")
    .action(async (name: string, line: string, { set }: { set: string[] }, command: Command) =>
      withContext(command, (context) => trainCommand({ device: name, line, assignments: set }, context)),
    );
}

const deviceColumns: readonly Column<CallOutput<"devices">[number]>[] = [
  { title: "DEVICE", value: (row) => row.device },
  {
    title: "STATE",
    value: (row) => {
      if (row.state !== "enrolled") return row.state;
      return `${row.online ? "online" : "offline"}${row.doubt === undefined ? "" : ", DOUBTS"}`;
    },
  },
  { title: "PROFILE", value: (row) => row.profile },
  { title: "LINES", value: (row) => row.lines.join(", ") },
  {
    title: "RUNS",
    value: (row) =>
      Object.entries(row.runs)
        .map(([line, model]) => `${line} ${model}`)
        .join(", ") || "-",
  },
  { title: "GEN", value: (row) => String(row.generation) },
  { title: "ENROLLED", value: (row) => formatTime(row.enrolledAtMs) },
];

interface ListChoices {
  readonly select?: string;
  readonly limit?: number;
  readonly offset?: number;
}

async function listCommand(
  { select, limit, offset }: ListChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const rows = await (await operations()).devices({ fleet: options.fleet, select, limit, offset });
  const hasLabels = rows.some(({ labels }) => labels !== undefined);
  output.printRows(rows, {
    nameOf: (row) => row.device,
    columns: hasLabels ? [...deviceColumns, labelColumn] : deviceColumns,
    empty:
      (offset ?? 0) > 0
        ? `no device is left after --offset ${offset}`
        : select === undefined
          ? `no devices in the fleet ${options.fleet}; enrol one with: stemma device enroll NAME --line LINE`
          : `the selection means no device of the fleet ${options.fleet}; all are in: stemma device list`,
  });
}

const labelColumn: (typeof deviceColumns)[number] = {
  title: "LABELS",
  value: (row) => describeKeyValues(row.labels ?? {}, "-"),
};

async function showCommand(name: string, { output, operations, options }: CommandContext): Promise<void> {
  const found = await (await operations()).device({ fleet: options.fleet, device: name });
  const { describeDevice } = await import("../device-text.js");
  output.print({ data: found, names: [found.device], text: describeDevice(found).join("\n") });
}

async function revokeCommand(
  name: string,
  { because, evenIfClaimed, dryRun }: RevokeChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const opened = await operations();
  await opened.device({ fleet: options.fleet, device: name });
  if (!dryRun) await opened.revoke({ fleet: options.fleet, device: name, because, evenIfClaimed });
  output.print({
    data: { device: name, revoked: !dryRun },
    names: [name],
    text: `${dryRun ? "would revoke" : "revoked"} ${name}`,
  });
}

async function assignCommand(
  { device, line, model }: { readonly device: string; readonly line: string; readonly model: string },
  { allowReduced, dryRun }: AssignChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const { fleet } = options;
  const opened = await operations();
  if (dryRun) await opened.device({ fleet, device });
  const summary = dryRun
    ? await opened.model({ fleet, model })
    : await opened.assign({ fleet, device, line, model, allowReduced });
  refuseReduced(summary, allowReduced);
  output.print({
    data: summary,
    names: [nameOf(summary)],
    text: `${dryRun ? "would assign" : "assigned"} ${nameOf(summary)} to ${line} of ${device}`,
  });
}

async function trainCommand(
  {
    device,
    line,
    assignments,
  }: { readonly device: string; readonly line: string; readonly assignments: readonly string[] },
  { output, operations, options }: CommandContext,
): Promise<void> {
  const answer = await (
    await operations()
  ).trainOnDevice({ fleet: options.fleet, device, line, parameters: parseAssignments(assignments) });
  if (!answer.accepted) process.exitCode = exitStatus.failed;
  output.print({
    data: answer,
    names: [device],
    text: `${answer.accepted ? "accepted" : "refused"}: ${answer.message}`,
  });
}
