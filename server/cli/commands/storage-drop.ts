/** `stemma storage drop` and `stemma model keep`: keep a model as the story of its making, and take that back. */
import type { Command } from "commander";
import { formatBytes, formatDuration } from "../../../shared/cli/output.js";
import { dropOperations } from "../../interface/api/stores/drop-definitions.js";
import type { DropReport } from "../../interface/api/stores/drop-schemas.js";
import { withContext, type CommandContext } from "../context.js";
import { inputOption } from "../input-option.js";
import { nameOf } from "../version-text.js";

const help = `
Only versions that this server proved by a replay lose their tensors; one that it has not proved
yet with stored data is replayed first. Engine, data, story and base stay as long as the version.
The newest of each line and name, held and tagged versions, and those that devices run or are to
get keep their tensors.

  stemma storage drop --older-than 30 --dry-run
  stemma storage drop --older-than 30 && stemma storage gc
  stemma model recover pack-soh:3 --explain
  stemma model keep pack-soh:3
`;

interface DropChoices {
  readonly line?: string;
  readonly olderThan?: number;
  readonly maxMinutes?: number;
  readonly because?: string;
  readonly dryRun: boolean;
}

export function addStorageDropCommand(storage: Command): void {
  const { shape } = dropOperations.dropTensors.body;
  storage
    .command("drop")
    .argument("[models...]", "name, name:version, name:tag or id; absent: all that may be dropped")
    .addOption(inputOption("--line <line>", shape.line))
    .addOption(inputOption("--older-than <days>", shape.olderThanDays))
    .addOption(inputOption("--max-minutes <n>", shape.maxMinutes))
    .option("--because <text>", "why; it is kept with the fact")
    .option("--dry-run", "only show what would be dropped", false)
    .description("drop tensors that a replay gives again bit for bit; storage gc then frees the space")
    .addHelpText("after", help)
    .action(async (models: readonly string[], choices: DropChoices, command: Command) =>
      withContext(command, (context) => dropCommand(models, choices, context)),
    );
}

async function dropCommand(
  models: readonly string[],
  { olderThan, ...choices }: DropChoices,
  { operations, output, signal, options: { fleet } }: CommandContext,
): Promise<void> {
  output.progress("looking at what a replay can give again, and proving what was not proved yet");
  const report = await (
    await operations()
  ).dropTensors(
    { fleet, ...(models.length === 0 ? {} : { models }), olderThanDays: olderThan, ...choices },
    { signal },
  );
  output.endProgress();
  output.print({
    data: report,
    names: report.dropped.map(({ versionId }) => versionId),
    text: describeDrop(report, choices.dryRun).join("\n"),
  });
}

export function describeDrop(
  { dropped, kept, keptCount, tensorBytes }: DropReport,
  isDry: boolean,
): readonly string[] {
  const verb = isDry ? "would be dropped" : "dropped";
  return [
    ...dropped.map(
      (version) =>
        `${nameOf(version)}: tensors ${verb}, ${formatBytes(version.tensorBytes)}; a recovery trains for ` +
        `${formatDuration(version.recoveryMs)}${version.isProved ? "" : ", as predicted: it would be replayed first"}`,
    ),
    ...kept.map((version) => `${nameOf(version)}: tensors stay, because ${version.because}`),
    dropped.length === 0
      ? `nothing ${verb}; ${keptCount} versions keep their tensors`
      : `${dropped.length} ${verb}, ${formatBytes(tensorBytes)}; ${keptCount} others keep their tensors. ` +
        (isDry ? "Nothing was changed." : "Free the space with stemma storage gc."),
  ];
}

export function addModelKeepCommand(model: Command): void {
  model
    .command("keep")
    .argument("<model>")
    .option("--because <text>", "why; it is kept with the fact")
    .description("store the tensors of a version again that storage drop dropped")
    .action(async (reference: string, choices: { readonly because?: string }, command: Command) =>
      withContext(command, (context) => keepCommand(reference, choices, context)),
    );
}

async function keepCommand(
  model: string,
  { because }: { readonly because?: string },
  { operations, output, signal, options: { fleet } }: CommandContext,
): Promise<void> {
  output.progress(`storing the tensors of ${model} again`);
  const summary = await (await operations()).keepTensors({ fleet, model, because }, { signal });
  output.endProgress();
  output.print({
    data: summary,
    names: [summary.versionId],
    text: `${nameOf(summary)}: its tensors are stored, ${formatBytes(summary.tensorBytes)}`,
  });
}
