/** `stemma model eval`: what a model is worth on named data. */
import type { Command } from "commander";
import { formatDuration } from "../../../shared/cli/output.js";
import type { Evaluation } from "../../../shared/train/evaluation.js";
import type { EvaluationReport } from "../../operations/operations.js";
import { withContext } from "../context.js";
import { nameOf } from "./model-read.js";

interface EvaluateChoices { readonly data: string; readonly top?: number; readonly limit?: number }

export function addModelEvaluateCommand(model: Command): void {
  model.command("eval").argument("<model>", "name, name:version, name:tag or id").requiredOption("--data <name>", "registered data (see: stemma data list); its held-out part is used, which no training has seen")
    .option("--top <k>", "classification: count an answer as right when it is among the k most likely, too", Number).option("--limit <n>", "only the first n held-out samples", Number)
    .description("measure a model on data: accuracy of a classification, error of a regression")
    .addHelpText("after", "\nThe model is recovered and run by the engine that trains; nothing is saved. Models imported without --arch\n(kind opaque) cannot be run. To see what a smaller, lossy form of a model costs: stemma model reduce, then eval both.\n")
    .action(async (reference: string, choices: EvaluateChoices, command: Command) => withContext(command, async ({ output, operations, options, signal }) => {
      const report = await (await operations()).evaluate({ fleet: options.fleet, model: reference, ...choices }, signal);
      output.print({ data: report, names: [nameOf(report)], text: describeEvaluation(report) });
    }));
}

/** The main figure in one line, the rest below. */
export function describeEvaluation(report: EvaluationReport): string {
  const { metric, samples, evaluation } = report;
  const of = samples.evaluated === samples.heldOut ? `${samples.heldOut} held-out samples` : `the first ${samples.evaluated} of ${samples.heldOut} held-out samples`;
  const reduced = report.scheme === null ? "" : ` (reduced: ${report.scheme})`;
  return [`${nameOf(report)}${reduced} on ${report.data}: ${metric.name} ${metric.value.toFixed(3)} ${metric.unit} on ${of}, in ${formatDuration(report.durationMs)}`, ...detailsOf(evaluation)].join("\n");
}

function detailsOf(evaluation: Evaluation): readonly string[] {
  const percent = (share: number | null): string => (share === null ? "-" : `${(100 * share).toFixed(2)} %`);
  if (evaluation.task === "regression") return [`root mean square error ${(100 * evaluation.rootMeanSquareError).toFixed(3)} %, R² ${evaluation.r2 === null ? "-" : evaluation.r2.toFixed(4)}`];
  const { correct, samples, top, classes } = evaluation;
  return [
    `top-1: ${correct} of ${samples} right, ${percent(correct / samples)}`,
    ...(top === undefined ? [] : [`top-${top.k}: ${top.correct} of ${samples} right, ${percent(top.accuracy)}`]),
    `recall by class: ${classes.map(({ recall }, each) => `${each} ${percent(recall)}`).join(", ")}`,
  ];
}
