/** `stemma model train`: trains a model on the server and saves it with its lineage. */
import { parseAssignments } from "../../../../shared/cli/command-line.js";
import { formatDuration } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import type { TrainReport } from "../../../interface/api/models/evaluation-schemas.js";
import { trainingOperations } from "../../../interface/api/models/training-definitions.js";
import { plain, repeated, type Choices, type PlainContext, type Printed } from "../../plain-command.js";
import { readBy } from "../../input-option.js";
import { nameOf } from "../../version-text.js";
import { describeMetric } from "../../../../shared/train/result-metadata.js";

const { shape } = trainingOperations.train.body;
const options = {
  recipe: {
    text: "<name> registered training procedure (see: stemma recipe list)",
    read: readBy("--recipe", shape.recipe),
    required: true,
  },
  data: {
    text: "<name> registered data (see: stemma data list)",
    read: readBy("--data", shape.data),
    required: true,
  },
  name: { text: "<name> name of the new model", read: readBy("--name", shape.name), required: true },
  base: {
    text: "<model> train from this model; without it the recipe starts from scratch",
    read: readBy("--base", shape.base),
  },
  set: repeated("<key=value> a parameter of the recipe (repeatable)"),
  seed: {
    text: "<number> seed of every random stream; without it one is drawn and recorded",
    read: readBy("--seed", shape.seed),
  },
  maxMinutes: {
    text: `<n> ${shape.maxMinutes.description ?? ""}`,
    read: readBy("--max-minutes", shape.maxMinutes),
  },
  dryRun: "check everything, train nothing",
} as const;
type TrainChoices = Choices<unknown, unknown, typeof options>;

const train = plain(null, {
  name: "train",
  about: "train a model on this machine with the engine that devices use, and save it with its lineage",
  options,
  help: `
What it takes is predicted before its first step, from trainings by the same recipe that ran here,
and is said at the start. One that would take longer than --max-minutes (default:
limits.training.maxMinutes in server.json), or more memory than limits.training.memoryMiB, is
refused; it is ended when its time is over. Where its state was saved, the same command goes on there.
`,
  run: (choices, context) =>
    choices.dryRun ? checkTraining(choices, context) : trainCommand(choices, context),
});

async function checkTraining(
  { base, recipe, data, set }: TrainChoices,
  { call }: PlainContext,
): Promise<Printed> {
  parseAssignments(set);
  const baseId = base === undefined ? null : (await call("model", { model: base })).versionId;
  const checked = await call("checkDataset", { name: data });
  const start = baseId === null ? "from scratch" : `from ${baseId.slice(0, 12)}`;
  return {
    data: { base: baseId, data: checked },
    text: `would train ${recipe} on ${data} (${counted(checked.samples, "sample")}) ${start}`,
  };
}

async function trainCommand(
  { base, recipe, data, name, set, seed, maxMinutes }: TrainChoices,
  { output, operations, fleet, signal }: PlainContext,
): Promise<Printed> {
  let told: string | undefined;
  const report = await (
    await operations()
  ).train(
    { fleet, recipe, data, name, base, parameters: parseAssignments(set), seed, maxMinutes },
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
  return { data: report, names: [nameOf(report.summary)], text: describeTraining(report) };
}

function describeTraining({ summary, result }: TrainReport): string {
  return (
    `saved as ${nameOf(summary)} ` +
    `(${summary.versionId.slice(0, 12)}): ${describeMetric(result.metric)}, ${counted(result.epochs, "epoch")} ` +
    `in ${formatDuration(result.durationMs)}`
  );
}

export const commands = [train];
