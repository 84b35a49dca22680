/** `stemma webhook add|list|test|move|rm`: addresses that a server sends the facts of a fleet to. */
import type { Command } from "commander";
import { exitStatus } from "../../../shared/errors.js";
import { formatTime, type Column } from "../../../shared/cli/output.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import { wholeNumber } from "../whole-number.js";
import { withContext, type CommandContext } from "../context.js";

type Webhook = CallOutput<"webhooks">[number];

const help = `
A running server sends each fact of the fleet's journal to the address, in order, as signed JSON. It goes on with the
next facts when the receiver has answered with success (2xx), and tries again until then, for days where it must: a
receiver that was away misses nothing, and may get facts twice.

Examples:
  stemma webhook add alerts https://ops.example/stemma --types rollout-phase,judged,quarantined
  stemma webhook test alerts
  stemma webhook move alerts --from 120

docs/webhooks.md describes requests, and how a receiver checks their signature.
`;

export function addWebhookCommands(webhook: Command): void {
  webhook.addHelpText("afterAll", help);
  webhook
    .command("add")
    .argument("<name>", "letters, digits, - and _")
    .argument("<url>", "http:// or https://")
    .option(
      "--types <types>",
      "types of facts, separated by commas (stemma journal list shows them); default all",
    )
    .option("--from <position>", "position of the first fact; default only facts from now on")
    .description("send the facts of a fleet to an address")
    .action(async (name: string, url: string, choices: AddChoices, command: Command) =>
      withContext(command, (context) => addCommand(name, url, choices, context)),
    );
  webhook
    .command("list")
    .description("webhooks of all fleets, and how their deliveries go")
    .action(async (_: unknown, command: Command) => withContext(command, listCommand));
  webhook
    .command("test")
    .argument("<name>")
    .description("send a signed request without facts, and tell what the receiver answered")
    .action(async (name: string, _: unknown, command: Command) =>
      withContext(command, (context) => testCommand(name, context)),
    );
  webhook
    .command("move")
    .argument("<name>")
    .requiredOption("--from <position>", "position of the next fact to send")
    .description("send facts again, or pass some over")
    .action(async (name: string, { from }: { from: string }, command: Command) =>
      withContext(command, async ({ output, operations }) => {
        const moved = await (await operations()).moveWebhook({ name, from: wholeNumber("--from", from) });
        output.print({ data: moved, names: [name], text: `${name} goes on with fact ${moved.position}` });
      }),
    );
  webhook
    .command("rm")
    .argument("<name>")
    .description("send nothing to a webhook any more")
    .action(async (name: string, _: unknown, command: Command) =>
      withContext(command, async ({ output, operations }) => {
        const left = await (await operations()).removeWebhook({ name });
        output.print({ data: left, names: left.map((row) => row.name), text: `removed the webhook ${name}` });
      }),
    );
}

interface AddChoices {
  readonly types?: string;
  readonly from?: string;
}

async function addCommand(
  name: string,
  url: string,
  { types, from }: AddChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const added = await (
    await operations()
  ).addWebhook({
    name,
    fleet: options.fleet,
    url,
    ...(types !== undefined && { types: types.split(",").map((type) => type.trim()) }),
    ...(from !== undefined && { from: wholeNumber("--from", from) }),
  });
  output.print({
    data: added,
    names: [name],
    text: `${name} gets the facts of ${added.fleet} from ${added.position} on, while a server runs`,
  });
}

const columns: readonly Column<Webhook>[] = [
  { title: "NAME", value: (row) => row.name },
  { title: "FLEET", value: (row) => row.fleet },
  { title: "URL", value: (row) => row.url },
  { title: "TYPES", value: (row) => row.types?.join(",") ?? "all" },
  { title: "BEHIND", value: (row) => `${row.behind}` },
  { title: "STATE", value: stateOf },
];

function stateOf({ failures, because, againAtMs, deliveredAtMs }: Webhook): string {
  if (failures !== undefined)
    return `failed ${failures === 1 ? "once" : `${failures} times`}: ${because ?? "?"}; again ${againAtMs === undefined ? "soon" : formatTime(againAtMs)}`;
  return deliveredAtMs === undefined ? "-" : `delivered ${formatTime(deliveredAtMs)}`;
}

async function listCommand({ output, operations }: CommandContext): Promise<void> {
  output.printRows(await (await operations()).webhooks(), {
    nameOf: (row) => row.name,
    columns,
    empty: "no webhooks: `stemma webhook add NAME URL` adds one",
  });
}

async function testCommand(name: string, { output, operations }: CommandContext): Promise<void> {
  const result = await (await operations()).testWebhook({ name });
  output.print({
    data: result,
    names: [name],
    text: result.isDelivered
      ? `${name} took the request`
      : `${name} did not take the request: ${result.because ?? "no reason given"}`,
  });
  if (!result.isDelivered) process.exitCode = exitStatus.failed;
}
