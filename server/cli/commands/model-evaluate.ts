/** `stemma model eval`: what a model is worth on named data. */
import type { Command } from "commander";
import { formatBytes, formatDuration, type Column } from "../../../shared/cli/output.js";
import { StemmaError } from "../../../shared/errors.js";
import type { Evaluation } from "../../../shared/train/evaluation.js";
import type { EvaluationReport } from "../../api/evaluation-schemas.js";
import { progressiveLayouts } from "../../progressive/progressive-request.js";
import type { LevelReport } from "../../progressive/progressive-evaluation.js";
import { withContext, type CommandContext } from "../context.js";
import { nameOf } from "../version-text.js";

interface EvaluateChoices {
  readonly data: string;
  readonly top?: number;
  readonly limit?: number;
  readonly progressive: boolean;
  readonly layout?: string;
  readonly check: boolean;
}

export function addModelEvaluateCommand(model: Command): void {
  model
    .command("eval")
    .argument("<model>", "name, name:version, name:tag or id")
    .requiredOption(
      "--data <name>",
      "registered data (see: stemma data list); its held-out part is used, which no training has seen",
    )
    .option(
      "--top <k>",
      "classification: count an answer as right when it is among the k most likely, too",
      Number,
    )
    .option("--limit <n>", "only the first n held-out samples", Number)
    .option(
      "--progressive",
      "classification: answer from the weights' highest bytes where that is certain, fetch the next only where it is not (--top: 1 and 5 when absent)",
      false,
    )
    .option(
      "--layout <layout>",
      `with --progressive: bytes as they lie (stored), or as they would with one exponent a channel (fixed); one of ${progressiveLayouts.join(", ")}`,
    )
    .option(
      "--no-check",
      "with --progressive: do not compare with the full-precision answers, which reads all bytes",
    )
    .description("measure a model on data: accuracy of a classification, error of a regression")
    .addHelpText(
      "after",
      "\nThe model is recovered and run by the engine that trains; nothing is saved. Models imported without --arch\n(kind opaque) cannot be run. To see what a smaller, lossy form of a model costs: stemma model reduce, then eval both.\n--progressive needs no more bytes than its answers do: they are always those of the full precision, and the table says from how many\nbytes of each weight they came. Where tensors lie in byte planes or fixed planes\n(stemma storage apply --layout planes|fixed), only those planes are read; what lies otherwise is read whole.\n",
    )
    .action(async (reference: string, choices: EvaluateChoices, command: Command) =>
      withContext(command, async (context) => {
        const { output, operations, options, signal } = context,
          { data, top, limit } = choices;
        if (choices.progressive) return evaluateProgressively(reference, choices, context);
        if (choices.layout !== undefined || !choices.check)
          throw new StemmaError(
            "USAGE",
            "--layout and --no-check are of --progressive. Add it, or leave them out.",
          );
        const report = await (
          await operations()
        ).evaluate({ fleet: options.fleet, model: reference, data, top, limit }, { signal });
        output.print({ data: report, names: [nameOf(report)], text: describeEvaluation(report) });
      }),
    );
}

async function evaluateProgressively(
  reference: string,
  { data, top, limit, layout, check }: EvaluateChoices,
  { output, operations, options, signal }: CommandContext,
): Promise<void> {
  const known = progressiveLayouts.find((each) => each === layout);
  if (layout !== undefined && known === undefined)
    throw new StemmaError(
      "USAGE",
      `--layout ${layout} is not valid. Use one of ${progressiveLayouts.join(", ")}.`,
    );
  const report = await (
    await operations()
  ).evaluateProgressively(
    {
      fleet: options.fleet,
      model: reference,
      data,
      limit,
      check,
      ...(top === undefined ? {} : { tops: [top] }),
      ...(known === undefined ? {} : { layout: known }),
    },
    { signal },
  );
  const share = (part: number): string => `${((100 * part) / report.samples.evaluated).toFixed(2)} %`;
  output.print<LevelReport>({
    data: report,
    names: [nameOf(report)],
    table: {
      rows: report.levels,
      columns: [
        { title: "BYTES OF A WEIGHT", value: ({ level }) => (level === 4 ? "all" : level), align: "right" },
        { title: "DATA", value: ({ dataShare }) => `${(100 * dataShare).toFixed(1)} %`, align: "right" },
        { title: "READ", value: ({ readBytes }) => formatBytes(readBytes), align: "right" },
        ...report.tops.flatMap(({ top: size }, at): Column<LevelReport>[] => [
          { title: `TOP-${size} ANSWERED`, value: ({ tops }) => share(tops[at]!.decided), align: "right" },
          { title: "OPEN", value: ({ tops }) => share(tops[at]!.open), align: "right" },
        ]),
      ],
    },
    text: [
      `${nameOf(report)} on ${report.data}, ${report.samples.evaluated} of ${report.samples.heldOut} held-out samples, layout ${report.layout}, in ${formatDuration(report.durationMs)}`,
      ...report.tops.map(
        ({ top: size, correct, equal, unanswerable }) =>
          `top-${size}: ${correct} right, ${share(correct)}; ${equal === null ? "not compared with the full-precision answers" : "all answers are the full-precision ones"}${unanswerable > 0 ? `; ${unanswerable} without an answer (NaN)` : ""}`,
      ),
    ].join("\n"),
  });
}

/** The main figure in one line, the rest below. */
export function describeEvaluation(report: EvaluationReport): string {
  const { metric, samples, evaluation } = report;
  const of =
    samples.evaluated === samples.heldOut
      ? `${samples.heldOut} held-out samples`
      : `the first ${samples.evaluated} of ${samples.heldOut} held-out samples`;
  const reduced = report.scheme === null ? "" : ` (reduced: ${report.scheme})`;
  return [
    `${nameOf(report)}${reduced} on ${report.data}: ${metric.name} ${metric.value.toFixed(3)} ${metric.unit} on ${of}, in ${formatDuration(report.durationMs)}`,
    ...detailsOf(evaluation),
  ].join("\n");
}

function detailsOf(evaluation: Evaluation): readonly string[] {
  const percent = (share: number | null): string => (share === null ? "-" : `${(100 * share).toFixed(2)} %`);
  if (evaluation.task === "regression")
    return [
      `root mean square error ${(100 * evaluation.rootMeanSquareError).toFixed(3)} %, R² ${evaluation.r2 === null ? "-" : evaluation.r2.toFixed(4)}`,
    ];
  const { correct, samples, top, classes } = evaluation;
  return [
    `top-1: ${correct} of ${samples} right, ${percent(correct / samples)}`,
    ...(top === undefined
      ? []
      : [`top-${top.k}: ${top.correct} of ${samples} right, ${percent(top.accuracy)}`]),
    `recall by class: ${classes.map(({ recall }, each) => `${each} ${percent(recall)}`).join(", ")}`,
  ];
}
