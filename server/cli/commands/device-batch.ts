/** `stemma device batch` and `device accept`: one invitation for many devices, and who is let in. */
import { resolve } from "node:path";
import { Option, type Command } from "commander";
import { appendValue } from "../../../shared/cli/command-line.js";
import { formatTime } from "../../../shared/cli/output.js";
import { StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import { withContext, type CommandContext } from "../context.js";
import { wholeNumber } from "../whole-number.js";
import { authorityText, invited } from "./device-enroll.js";
import { parseLabels } from "./device-label.js";

const createHelp = `
The file is the same for all devices of the batch, for example in the image of their disks, and is
good for enrolling alone. On each device, once:
  stemma agent enroll BATCH.batch.json --name van-17

Who has the file can enrol until the batch is used up, ends or is revoked, so keep it short and say
which names there are. With --hold a device is served only after a person accepted it:
  stemma device batch create vans --count 40 --valid 30d --line soh --name-pattern 'van-*' --hold
  stemma device accept van-17
  stemma device accept --batch vans
`;

interface CreateChoices {
  readonly count: string;
  readonly valid: string;
  readonly line: string[];
  readonly profile: string;
  readonly initial: string[];
  readonly label: string[];
  readonly namePattern?: string;
  readonly names?: string;
  readonly hold: boolean;
  readonly replace: boolean;
  readonly allowReduced: boolean;
  readonly releases?: "required" | "accepted" | "off";
  readonly authority?: string;
  readonly file?: string;
}

export function addBatchCommands(device: Command): void {
  const batch = device.command("batch").description("one invitation for many devices");
  addCreateCommand(batch);
  batch
    .command("list")
    .description("the batches of the fleet, and how many devices enrolled with each")
    .action(async (_: unknown, command: Command) => withContext(command, listCommand));
  batch
    .command("show")
    .argument("<batch>")
    .description("one batch with its devices")
    .action(async (name: string, _: unknown, command: Command) =>
      withContext(command, (context) => showCommand(name, context)),
    );
  batch
    .command("revoke")
    .argument("<batch>")
    .option("--because <reason>", "kept with the fact")
    .description("let no further device enrol with the file; those that did stay")
    .action(async (name: string, { because }: { because?: string }, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const fleet = options.fleet;
        const revoked = await (
          await operations()
        ).revokeBatch({ fleet, batch: name, ...(because === undefined ? {} : { because }) });
        output.print({
          data: revoked,
          names: [name],
          text: `${name} is revoked; ${revoked.devices.length} devices that enrolled with it stay (stemma device batch show ${name}; stemma device revoke DEVICE)`,
        });
      }),
    );
  device
    .command("accept")
    .argument("[devices...]")
    .option("--batch <batch>", "all that wait of this batch")
    .option("--dry-run", "show which, change nothing", false)
    .description("serve devices that enrolled with a batch and wait for that")
    .action(async (names: string[], choices: { batch?: string; dryRun: boolean }, command: Command) =>
      withContext(command, (context) => acceptCommand(names, choices, context)),
    );
}

function addCreateCommand(batch: Command): void {
  batch
    .command("create")
    .argument("<batch>", "name of the batch: letters, digits, - and _")
    .requiredOption("--count <n>", "devices that may enrol, at most")
    .option("--valid <time>", "how long: 12h, 30d", "30d")
    .option("--line <line>", "a line of models on each device (repeatable)", appendValue, [])
    .option("--profile <profile>", "device class (firmware-profiles/*.json)", "generic")
    .option("--initial <line=model>", "model that the line starts from (repeatable)", appendValue, [])
    .option("--label <key=value>", "label of each device (repeatable)", appendValue, [])
    .option("--name-pattern <pattern>", "names that they may have: * for any characters, ? for one")
    .option("--names <file>", "names that they may have, one a line")
    .option("--hold", "each is served only after `stemma device accept`", false)
    .option("--replace", "also in place of an enrolled device that has its name", false)
    .addOption(
      new Option(
        "--releases <policy>",
        "whether they install only released versions and their own (default: required once releases are published)",
      ).choices(["required", "accepted", "off"]),
    )
    .option("--authority <name>", authorityText)
    .option("--allow-reduced", "initial models may be reduced (lossy) ones", false)
    .option("--file <path>", "write the invitation here (default BATCH.batch.json)")
    .description("make the invitation of a batch")
    .addHelpText("after", createHelp)
    .action(async (name: string, choices: CreateChoices, command: Command) =>
      withContext(command, (context) => createCommand(name, choices, context)),
    );
}

async function createCommand(name: string, choices: CreateChoices, context: CommandContext): Promise<void> {
  const { output, operations, options } = context;
  const files = nodeFiles();
  const { evenIfClaimed: _, ...members } = invited({ ...choices, evenIfClaimed: false });
  const lines = [...new Set([...choices.line, ...Object.keys(members.initial)])];
  const path = resolve(choices.file ?? `${name}.batch.json`);
  if ((await files.stat(path)) !== undefined)
    throw new StemmaError("USAGE", `${path} exists. Name another file, or remove that one.`, { path });
  const { names, namePattern, hold, replace, label } = choices;
  const labels = label.length === 0 ? {} : { labels: givenLabels(label) };
  const invitation = await (
    await operations()
  ).createBatch({
    ...{ fleet: options.fleet, batch: name, lines, ...members },
    count: wholeNumber("--count", choices.count),
    ...(names === undefined ? {} : { names: namesIn(await files.read(resolve(names))) }),
    ...(namePattern === undefined ? {} : { namePattern }),
    ...{ hold, mayReplace: replace },
    ...labels,
  });
  const { noteAddresses } = await import("../readdress-enrolment.js");
  await noteAddresses(invitation.terms.mqtt, { output, operations });
  // nodeFiles creates files that only their owner may read.
  await writeDurably(files, path, Buffer.from(`${JSON.stringify(invitation, null, 2)}\n`));
  const { expiresAtMs } = invitation.terms;
  output.print({
    data: { batch: name, lines, count: Number(choices.count), file: path, expiresAtMs },
    names: [name],
    text: `${choices.count} devices may enrol with ${path} until ${formatTime(expiresAtMs)}; on each: stemma agent enroll ${name}.batch.json --name NAME`,
  });
}

/** @throws USAGE for one that removes a label: there is none yet */
function givenLabels(words: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    Object.entries(parseLabels(words)).map(([key, value]) => {
      if (value === null)
        throw new StemmaError("USAGE", `--label ${key}- gives no label. Write ${key}=VALUE.`);
      return [key, value];
    }),
  );
}

/** One a line; empty lines and comments are left out. */
function namesIn(bytes: Uint8Array): string[] {
  return new TextDecoder()
    .decode(bytes)
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"));
}

async function listCommand({ output, operations, options }: CommandContext): Promise<void> {
  const batches = await (await operations()).batches({ fleet: options.fleet });
  output.printRows(batches, {
    nameOf: (row) => row.batch,
    columns: [
      { title: "BATCH", value: (row) => row.batch },
      { title: "STATE", value: (row) => row.state },
      { title: "ENROLLED", value: (row) => `${row.used} of ${row.count}`, align: "right" },
      { title: "WAITING", value: (row) => row.waiting.length, align: "right" },
      { title: "UNTIL", value: (row) => formatTime(row.expiresAtMs) },
      { title: "NAMES", value: namesText },
      { title: "LINES", value: (row) => row.lines.join(" ") },
    ],
    empty: "no batches; make one with: stemma device batch create",
  });
}

function namesText({ names, namePattern }: CallOutput<"batches">[number]): string {
  const listed = names === undefined ? [] : [`${names.length} listed`];
  return [...listed, ...(namePattern === undefined ? [] : [namePattern])].join(", ") || "any";
}

async function showCommand(name: string, { output, operations, options }: CommandContext): Promise<void> {
  const found = (await (await operations()).batches({ fleet: options.fleet })).find(
    (one) => one.batch === name,
  );
  if (found === undefined)
    throw new StemmaError(
      "NOT_FOUND",
      `${name} is not the name of a batch. \`stemma device batch list\` shows the names.`,
    );
  const { revoked, devices, waiting, authority } = found;
  output.print({
    data: found,
    names: devices,
    text: [
      `batch ${name}: ${found.state}, ${found.used} of ${found.count} enrolled, until ${formatTime(found.expiresAtMs)}`,
      `lines: ${found.lines.join(", ")}; profile ${found.profile}; names: ${namesText(found)}`,
      ...(authority === undefined ? [] : [`each needs a certificate of the authority ${authority}`]),
      ...(revoked === undefined ? [] : [`revoked ${formatTime(revoked.atMs)}: ${revoked.because}`]),
      `devices: ${devices.join(", ") || "none"}`,
      ...(waiting.length === 0 ? [] : [`wait to be accepted: ${waiting.join(", ")}`]),
    ].join("\n"),
  });
}

async function acceptCommand(
  names: readonly string[],
  { batch, dryRun }: { readonly batch?: string; readonly dryRun: boolean },
  { output, operations, options }: CommandContext,
): Promise<void> {
  if (names.length === 0 && batch === undefined)
    throw new StemmaError("USAGE", "Name the devices, or their batch with --batch.");
  const { accepted } = await (
    await operations()
  ).acceptDevices({
    fleet: options.fleet,
    ...(names.length === 0 ? {} : { devices: [...names] }),
    ...(batch === undefined ? {} : { batch }),
    dryRun,
  });
  output.print({
    data: { accepted },
    names: accepted,
    text:
      accepted.length === 0
        ? "no device waits"
        : `${dryRun ? "would accept" : "accepted"} ${accepted.join(", ")}; an agent connects when it tries next, at the latest after 15 minutes`,
  });
}
