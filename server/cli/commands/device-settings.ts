/** `stemma device set`: settings of devices, as people want them and as devices report them. */
import type { Command } from "commander";
import { describeSettings } from "../../../shared/wire/device-settings.js";
import { withContext, type CommandContext } from "../context.js";
import { changedDevices, describeKeyValues, parseKeyValues } from "../key-values.js";

interface SetChoices {
  readonly select?: string;
  readonly dryRun: boolean;
}

const help = `
KEY=VALUE sets one, KEY- returns to what is configured on the device. Settings are kept:
a device that is not connected gets them with its next connection, and one that is
enrolled again gets them too. \`device show\` shows what was set and what the device has.

These can be set:
${describeSettings()
  .map((line) => `  ${line}`)
  .join("\n")}

Examples:
  stemma device set van-7 log.level=debug
  stemma device set van-7 log.level-
  stemma device set --select 'label.region=eu' training=off
`;

export function addSetCommand(device: Command): void {
  device
    .command("set")
    .argument("<words...>", "the device, then KEY=VALUE or KEY-; with --select only these")
    .option("--select <selection>", "set them on every device that this selection means, instead of one")
    .option("--dry-run", "show what would be, change nothing", false)
    .description("change settings of a device while it runs, or of many devices at once")
    .addHelpText("after", help)
    .action(async (words: string[], choices: SetChoices, command: Command) =>
      withContext(command, (context) => setCommand(words, choices, context)),
    );
}

async function setCommand(
  words: readonly string[],
  { select, dryRun }: SetChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const { target, changes } = changedDevices(words, select);
  const advice = "Write log.level=debug, or log.level- to return to the device's own.";
  const settings = parseKeyValues(changes, advice);
  const changed = await (
    await operations()
  ).setDevices({ fleet: options.fleet, ...target, settings, dryRun });
  output.print({
    data: changed,
    names: changed.map(({ device }) => device),
    text:
      changed.length === 0
        ? "the selection means no device; nothing was changed"
        : changed
            .map(
              ({ device, settings: { desired }, online }) =>
                `${device} ${dryRun ? "would have" : "is to have"}: ${describeKeyValues(desired, "nothing set")}` +
                (online ? "" : " (not connected; it gets them when it is)"),
            )
            .join("\n"),
  });
}
