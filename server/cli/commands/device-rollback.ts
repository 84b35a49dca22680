/** `stemma device rollback`: return a line of a device to an earlier model. */
import type { Command } from "commander";
import { withContext, type CommandContext } from "../context.js";
import { nameOf } from "../version-text.js";

const help = `
Without --to the line returns to what it ran before its present model. --to names any model
that the line ran, or that the device trained. The device fetches what it has deleted.

  stemma device rollback van-7 soh
  stemma device rollback van-7 soh --to soh-van-7:12

\`stemma rollout undo\` returns all devices of a rollout.
`;

interface Choices {
  readonly to?: string;
  readonly dryRun: boolean;
}

export function addRollbackCommand(device: Command): void {
  device
    .command("rollback")
    .argument("<device>")
    .argument("<line>")
    .option("--to <model>", "the model (what the line ran before the present one)")
    .option("--dry-run", "show what would be, change nothing", false)
    .description("return a line of a device to an earlier model")
    .addHelpText("after", help)
    .action(async (name: string, line: string, choices: Choices, command: Command) =>
      withContext(command, (context) => rollbackCommand({ device: name, line }, choices, context)),
    );
}

async function rollbackCommand(
  target: { readonly device: string; readonly line: string },
  { to, dryRun }: Choices,
  { output, operations, options: { fleet } }: CommandContext,
): Promise<void> {
  const { device, line } = target;
  const summary = await (
    await operations()
  ).rollbackDevice({ fleet, ...target, dryRun, ...(to === undefined ? {} : { to }) });
  output.print({
    data: summary,
    names: [nameOf(summary)],
    text: `${line} of ${device} ${dryRun ? "would return" : "returns"} to ${nameOf(summary)}`,
  });
}
