/** `stemma device`: the devices of a fleet. Further commands are in files of their own. */
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { Option, type Command } from "commander";
import { exitStatus, StemmaError } from "../../../shared/errors.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import type { Files } from "../../../shared/ports.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { deviceOperations } from "../../api/device-definitions.js";
import { withContext, type CommandContext } from "../context.js";
import { appendValue, parseAssignments } from "../../../shared/cli/command-line.js";
import { formatTime, type Column } from "../../../shared/cli/output.js";
import type { CallOutput } from "../../api/server-operations.js";
import { refuseReduced } from "../../evaluation/reduced-models.js";
import { inputOption } from "../input-option.js";
import { describeLabels } from "./device-label.js";
import { nameOf } from "../version-text.js";

/** Profiles that come with Stemma; a device may have others. */
const profiles = new URL("../../../firmware-profiles/", import.meta.url);
async function knownProfiles(files: Files): Promise<readonly string[]> {
  return (await files.list(fileURLToPath(profiles)))
    .filter((name) => name.endsWith(".json") && name !== "schema.json")
    .map((name) => name.slice(0, -".json".length));
}

const evenIfClaimedText = "also where the device has models whose parameters only it has; these may be lost";

interface EnrolChoices {
  readonly evenIfClaimed: boolean;
  readonly line: string[];
  readonly profile: string;
  readonly initial: string[];
  readonly file?: string;
  readonly readdress?: string;
  readonly allowReduced: boolean;
  readonly releases?: "required" | "accepted" | "off";
  readonly dryRun: boolean;
}

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
    .command("enroll")
    .argument("<device>", "name: letters, digits, - and _")
    .option("--line <line>", "a line of models on this device (repeatable)", appendValue, [])
    .option("--profile <profile>", "device class (firmware-profiles/*.json)", "generic")
    .option("--initial <line=model>", "model that the line starts from (repeatable)", appendValue, [])
    .option("--file <path>", "write the enrolment file here (default DEVICE.enrolment.json)")
    .option("--allow-reduced", "initial models may be reduced (lossy) ones", false)
    .option(
      "--readdress <file>",
      "write this enrolment file of the device again (or to --file), with the server's present addresses; keys and token stay",
    )
    .addOption(
      new Option(
        "--releases <policy>",
        "whether it installs only released versions and its own (default: required once releases are published)",
      ).choices(["required", "accepted", "off"]),
    )
    .option("--even-if-claimed", evenIfClaimedText, false)
    .option("--dry-run", "check, enrol nothing", false)
    .description("give a device its key, its token and the server's key, as one secret file")
    .action(async (name: string, choices: EnrolChoices, command: Command) =>
      withContext(command, (context) => enrolCommand(name, choices, context)),
    );
  device
    .command("revoke")
    .argument("<device>")
    .option("--because <reason>", "kept with the fact", "revoked by hand")
    .option("--even-if-claimed", evenIfClaimedText, false)
    .option("--dry-run", "only check that the device exists", false)
    .description("cut a device off: its token and key are refused from now on; its models are kept")
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
  value: (row) => describeLabels(row.labels ?? {}) || "-",
};

async function showCommand(name: string, { output, operations, options }: CommandContext): Promise<void> {
  const found = await (await operations()).device({ fleet: options.fleet, device: name });
  const { describeDevice } = await import("../device-text.js");
  output.print({ data: found, names: [found.device], text: describeDevice(found).join("\n") });
}

async function enrolCommand(name: string, choices: EnrolChoices, context: CommandContext): Promise<void> {
  const { output, operations, options } = context;
  const { profile, allowReduced, dryRun, readdress } = choices;
  if (readdress !== undefined) {
    const { readdressEnrolment } = await import("../readdress-enrolment.js");
    return readdressEnrolment({ device: name, from: readdress, to: choices.file, dryRun }, context);
  }
  const initial = Object.fromEntries(
    Object.entries(parseAssignments(choices.initial)).map(([line, model]) => [line, String(model)]),
  );
  const lines = [...new Set([...choices.line, ...Object.keys(initial)])];
  if (lines.length === 0)
    throw new StemmaError("USAGE", "A device needs at least one line of models. Name it: --line pack-soh.");
  const path = resolve(choices.file ?? `${name}.enrolment.json`);
  const files = nodeFiles();
  if (!dryRun) await refuseExistingEnrolment(files, path);
  const enrolment = await (
    await operations()
  ).enroll({
    fleet: options.fleet,
    device: name,
    lines,
    profile,
    initial,
    allowReduced,
    evenIfClaimed: choices.evenIfClaimed,
    ...(choices.releases === undefined ? {} : { releases: choices.releases }),
    dryRun,
  });
  if (dryRun) {
    output.print({
      data: { device: name, lines, profile, initial },
      names: [name],
      text: `would enrol ${name} with the lines ${lines.join(", ")}`,
    });
    return;
  }
  const known = await knownProfiles(files);
  if (!known.includes(profile))
    output.info(
      `stemma: note: the profile "${profile}" is not one of those here (${known.join(", ")}); ` +
        `the agent of ${name} must find one of that name or path on its device`,
    );
  const { warnOfAddresses } = await import("../readdress-enrolment.js");
  warnOfAddresses(enrolment.mqtt ?? [], output);
  // nodeFiles creates files that only their owner may read.
  await writeDurably(files, path, new TextEncoder().encode(`${JSON.stringify(enrolment, null, 2)}\n`));
  output.print({
    data: { device: name, lines, profile, file: path },
    names: [name],
    text: `${name} is enrolled; its secrets are in ${path} (readable by you alone). Start it with: stemma agent run --enrolment ${path}`,
  });
}

/** @throws USAGE */
async function refuseExistingEnrolment(files: Files, path: string): Promise<void> {
  if ((await files.stat(path)) !== undefined)
    throw new StemmaError(
      "USAGE",
      `${path} exists already and may hold the only copy of a device's key. Name another file with --file.`,
    );
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
