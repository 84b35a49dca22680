/** `stemma device label`: labels of devices, by which selections name them. */
import type { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import { withContext, type CommandContext } from "../context.js";
import { changedDevices, describeKeyValues, parseKeyValues } from "../key-values.js";

interface LabelChoices {
  readonly select?: string;
  readonly dryRun: boolean;
}

const help = `
KEY=VALUE gives a label, KEY- removes one. Labels stay when a device is enrolled again.

Examples:
  stemma device label van-7 region=eu depot=lyon
  stemma device label van-7 depot-
  stemma device label --select 'profile=jetson-orin and seen<30d' wave=1
  stemma device list --select 'label.region=eu and not label.wave'

docs/selections.md describes selections.
`;

export function addLabelCommand(device: Command): void {
  device
    .command("label")
    .argument("<words...>", "the device, then KEY=VALUE or KEY-; with --select only these")
    .option("--select <selection>", "label every device that this selection means, instead of one")
    .option("--dry-run", "show what would be, change nothing", false)
    .description("give a device labels, or take them away; or many devices at once")
    .addHelpText("after", help)
    .action(async (words: string[], choices: LabelChoices, command: Command) =>
      withContext(command, (context) => labelCommand(words, choices, context)),
    );
}

async function labelCommand(
  words: readonly string[],
  { select, dryRun }: LabelChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const { target, changes } = changedDevices(words, select);
  const labels = parseLabels(changes);
  const changed = await (
    await operations()
  ).labelDevices({ fleet: options.fleet, ...target, labels, dryRun });
  const done = dryRun ? "would label" : "labelled";
  output.print({
    data: changed,
    names: changed.map(({ device }) => device),
    text:
      changed.length === 0
        ? "the selection means no device; nothing was changed"
        : changed
            .map((each) => `${done} ${each.device}: ${describeKeyValues(each.labels, "no labels")}`)
            .join("\n"),
  });
}

/** Labels by key; null: to be removed. @throws USAGE where there are none */
export function parseLabels(words: readonly string[]): Record<string, string | null> {
  if (words.length === 0)
    throw new StemmaError("USAGE", "No label is named. Name one: region=eu, or region- to remove it.");
  return parseKeyValues(words, "Write region=eu, or region- to remove the label region.");
}
