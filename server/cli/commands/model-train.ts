/** `stemma model train`: trains a model on the server and saves it with its lineage. */
import type { Command } from "commander";
import { appendValue, parseAssignments } from "../../../shared/cli/command-line.js";
import { formatDuration } from "../../../shared/cli/output.js";
import type { TrainReport } from "../../interface/api/models/evaluation-schemas.js";
import { trainingOperations } from "../../interface/api/models/training-definitions.js";
import { withContext, type CommandContext } from "../context.js";
import { inputOption } from "../input-option.js";
import { nameOf } from "../version-text.js";
import { describeMetric } from "../../../shared/train/result-metadata.js";

const help = `
What it takes is predicted before its first step, from trainings by the same recipe that ran here,
and is said at the start. One that would take longer than --max-minutes (default:
limits.training.maxMinutes in server.json), or more memory than limits.training.memoryMiB, is
refused; it is ended when its time is over. Where its state was saved, the same command goes on there.
`;

interface TrainChoices {
  readonly base?: string;
  readonly recipe: string;
  readonly data: string;
  readonly name: string;
  readonly set: string[];
  readonly seed?: string;
  readonly maxMinutes?: number;
  readonly dryRun: boolean;
}

export function addModelTrainCommand(model: Command): void {
  const { shape } = trainingOperations.train.body;
  model
    .command("train")
    .addOption(
      inputOption(
        "--recipe <name>",
        shape.recipe,
        "registered training procedure (see: stemma recipe list)",
      ).makeOptionMandatory(),
    )
    .addOption(
      inputOption(
        "--data <name>",
        shape.data,
        "registered data (see: stemma data list)",
      ).makeOptionMandatory(),
    )
    .addOption(inputOption("--name <name>", shape.name, "name of the new model").makeOptionMandatory())
    .addOption(
      inputOption(
        "--base <model>",
        shape.base,
        "train from this model; without it the recipe starts from scratch",
      ),
    )
    .option("--set <key=value>", "a parameter of the recipe (repeatable)", appendValue, [])
    .addOption(
      inputOption(
        "--seed <number>",
        shape.seed,
        "seed of every random stream; without it one is drawn and recorded",
      ),
    )
    .addOption(inputOption("--max-minutes <n>", shape.maxMinutes))
    .option("--dry-run", "check everything, train nothing", false)
    .description(
      "train a model on this machine with the engine that devices use, and save it with its lineage",
    )
    .addHelpText("after", help)
    .action(async (choices: TrainChoices, command: Command) =>
      withContext(command, (context) =>
        choices.dryRun ? checkTraining(choices, context) : trainCommand(choices, context),
      ),
    );
}

async function checkTraining(
  { base, recipe, data, set }: TrainChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  parseAssignments(set);
  const { fleet } = options;
  const opened = await operations();
  const baseId = base === undefined ? null : (await opened.model({ fleet, model: base })).versionId;
  const checked = await opened.checkDataset({ fleet, name: data });
  const start = baseId === null ? "from scratch" : `from ${baseId.slice(0, 12)}`;
  output.print({
    data: { base: baseId, data: checked },
    names: [],
    text: `would train ${recipe} on ${data} (${checked.samples} samples) ${start}`,
  });
}

async function trainCommand(
  { base, recipe, data, name, set, seed, maxMinutes }: TrainChoices,
  { output, operations, options, signal }: CommandContext,
): Promise<void> {
  let told: string | undefined;
  const report = await (
    await operations()
  ).train(
    { fleet: options.fleet, recipe, data, name, base, parameters: parseAssignments(set), seed, maxMinutes },
    {
      onProgress: ({ line, prediction }) => {
        const said = `${name}: ${prediction}`;
        if (prediction !== undefined && said !== told) {
          // It stays on the screen.
          output.endProgress();
          output.info(said);
          told = said;
        }
        if (line !== said) output.progress(line, true);
      },
      signal,
    },
  );
  output.endProgress();
  output.print({ data: report, names: [nameOf(report.summary)], text: describeTraining(report) });
}

function describeTraining({ summary, result }: TrainReport): string {
  return (
    `saved as ${nameOf(summary)} ` +
    `(${summary.versionId.slice(0, 12)}): ${describeMetric(result.metric)}, ${result.epochs} epochs ` +
    `in ${formatDuration(result.durationMs)}`
  );
}
