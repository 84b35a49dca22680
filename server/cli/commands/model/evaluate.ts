/** `stemma model eval`: measures a model on named data. */
import { type Column, formatBytes, formatDuration } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { Evaluation } from "../../../../shared/train/evaluation.js";
import type { EvaluationReport } from "../../../interface/api/models/evaluation-schemas.js";
import type { LevelReport } from "../../../interface/api/models/progressive-schemas.js";
import { trainingOperations } from "../../../interface/api/models/training-definitions.js";
import { figureText } from "../../figure-text.js";
import { listed, pathOf, plain, type Choices, type PlainContext, type Printed } from "../../plain-command.js";
import { readBy } from "../../input-option.js";
import { writePredictions } from "../../predictions-file.js";
import { refuseExisting } from "../../stream-file.js";
import { nameOf } from "../../version-text.js";

const { shape } = trainingOperations.evaluate.body;
const progressive = trainingOperations.evaluateProgressively.body.shape;
export const evaluateOptions = {
  data: {
    text: "<name> registered data (see: stemma data list); its held-out part is used, which no training has seen",
    read: readBy("--data", shape.data),
    required: true,
  },
  top: {
    text: "<k> classification: also count an answer as right when it is among the k most likely",
    read: readBy("--top", shape.top),
  },
  limit: { text: "<n> only the first n held-out samples", read: readBy("--limit", shape.limit) },
  predictions: {
    text: "<file> also store what the model outputs for each sample, and write it to this file as CSV",
    read: pathOf,
  },
  force: "overwrite an existing file",
  store: { text: "do not keep the evaluation", flags: "--no-store" },
  progressive:
    "classification: answer from the weights' highest bytes where that is certain, read the next ones only where it is not (without --top: top-1 and top-5)",
  layout: {
    text: "<layout> with --progressive: tensors as they are stored (stored), or as numbers that share one exponent per channel (fixed)",
    read: readBy("--layout", progressive.layout),
  },
  check: {
    text: "with --progressive: do not compare with the full-precision answers, which reads all bytes",
    flags: "--no-check",
  },
} as const;
type EvaluateChoices = Choices<unknown, unknown, typeof evaluateOptions>;

const evaluate = plain(null, {
  name: "eval",
  about: "measure a model on data: accuracy of a classification, error of a regression",
  takes: { model: "name, name:version, name:tag or id" },
  options: evaluateOptions,
  help: `
The model is recovered and run by the engine that trains. The evaluation is stored
with the version: what was measured, on which samples, by which engine, when and by
whom (stemma model evals). --no-store keeps nothing of it.

  stemma model eval pack-soh --data cells
  stemma model eval digits --data mnist --predictions predictions.csv
      also what the model outputs for each sample, stored and as a file

--data takes registered data, whose samples are read from the store where their
files are gone (stemma data push), or the content hash of stored data.

Models imported without --arch (kind opaque) cannot be run. To see what a
smaller, lossy form of a model costs: stemma model reduce, then eval both.

--progressive reads only the bytes that its answers need. The answers are always
those of the full precision; the table shows from how many bytes of each weight
they came. Of tensors that are stored in byte planes or fixed planes (stemma
storage apply --layout planes|fixed), only those planes are read; all others are
read completely.
`,
  run: ({ model, ...choices }, context) => evaluateModel(model, choices, context),
});

/** Measures one model, as `stemma model eval` and `stemma eval` do. */
export async function evaluateModel(
  model: string,
  choices: EvaluateChoices,
  context: PlainContext,
): Promise<Printed> {
  if (choices.progressive) {
    if (choices.predictions !== undefined)
      throw new StemmaError(
        "USAGE",
        "--predictions needs all bytes of the model. Leave out it or --progressive.",
      );
    return evaluateProgressively(model, choices, context);
  }
  if (choices.layout !== undefined || !choices.check)
    throw new StemmaError(
      "USAGE",
      "--layout and --no-check work with --progressive only. Add it, or leave them out.",
    );
  const { data, top, limit, store, force } = choices;
  const file = choices.predictions;
  if (file !== undefined) await refuseExisting(file, force);
  const { call, operations, fleet } = context;
  const report = await call("evaluate", {
    model,
    data,
    top,
    limit,
    store,
    ...(file === undefined ? {} : { predictions: true }),
  });
  if (file !== undefined && report.stored !== null)
    await writePredictions(await operations(), { fleet, evaluation: report.stored, file, force });
  return {
    data: file === undefined ? report : { ...report, file },
    names: [nameOf(report)],
    text: [
      describeEvaluation(report),
      ...(file === undefined ? [] : [`predictions written to ${file}`]),
    ].join("\n"),
  };
}

async function evaluateProgressively(
  model: string,
  { data, top, limit, layout, check }: EvaluateChoices,
  { call }: PlainContext,
): Promise<Printed> {
  const report = await call("evaluateProgressively", {
    model,
    data,
    limit,
    check,
    layout,
    ...(top === undefined ? {} : { tops: [top] }),
  });
  const share = (part: number): string => `${((100 * part) / report.samples.evaluated).toFixed(2)} %`;
  return {
    ...listed(report.levels, {
      nameOf: ({ level }) => String(level),
      columns: [
        { title: "BYTES OF A WEIGHT", value: ({ level }) => (level === 4 ? "all" : level), align: "right" },
        { title: "DATA", value: ({ dataShare }) => `${(100 * dataShare).toFixed(1)} %`, align: "right" },
        { title: "READ", value: ({ readBytes }) => formatBytes(readBytes), align: "right" },
        ...report.tops.flatMap(({ top: size }, index): Column<LevelReport>[] => [
          { title: `TOP-${size} ANSWERED`, value: ({ tops }) => share(tops[index]!.decided), align: "right" },
          { title: "OPEN", value: ({ tops }) => share(tops[index]!.open), align: "right" },
        ]),
      ],
    }),
    data: report,
    names: [nameOf(report)],
    text: [
      `${nameOf(report)} on ${report.data}, ${report.samples.evaluated} of ${report.samples.heldOut} held-out samples, layout ${report.layout}, in ${formatDuration(report.durationMs)}`,
      ...wordsLines(report.words),
      ...report.tops.map(
        ({ top: size, correct, equal, unanswerable }) =>
          `top-${size}: ${correct} right, ${share(correct)}; ${equal === null ? "not compared with the full-precision answers" : "all answers are the full-precision ones"}${unanswerable > 0 ? `; ${unanswerable} without an answer (NaN)` : ""}`,
      ),
    ].join("\n"),
  };
}

/** The main figure in the first line, the details below. */
function describeEvaluation(report: EvaluationReport): string {
  const { metric, samples, evaluation } = report;
  const of =
    samples.evaluated === samples.heldOut
      ? `${samples.heldOut} held-out samples`
      : `the first ${samples.evaluated} of ${samples.heldOut} held-out samples`;
  const reduced = report.scheme === null ? "" : ` (reduced: ${report.scheme})`;
  return [
    `${nameOf(report)}${reduced} on ${report.data}: ${metric.name} ${figureText(metric.value, metric.unit)} ` +
      `on ${of}, in ${formatDuration(report.durationMs)}`,
    ...wordsLines(report.words),
    ...detailsOf(evaluation),
  ].join("\n");
}

/** The first words of a list. */
function someOf(words: readonly string[]): string {
  const shown = words.slice(0, 12).map((word) => word.slice(0, 40));
  return `${shown.join(", ")}${words.length > shown.length ? ", …" : ""}`;
}

function wordsLines(words: EvaluationReport["words"]): readonly string[] {
  if (words === undefined) return [];
  return [
    `  WARNING: the model was trained on the classes ${someOf(words.model)}, the data have ` +
      `${someOf(words.data)}: the figures compare other classes.`,
  ];
}

/** True if the figure is finite; over HTTP, one that is not finite is null, also where the type has only numbers. */
function isFiniteFigure(value: number | null): value is number {
  return value !== null && Number.isFinite(value);
}

type OutputEvaluation = Extract<Evaluation, { task: "general" }>["outputs"][number]["evaluation"];

/** Errors of a declared target; recipes for one label count theirs as parts of 1, which are shown in per cent. */
function inOwnUnit({
  meanAbsoluteError,
  rootMeanSquareError,
  r2,
  reconstruction,
  clusters,
}: Extract<OutputEvaluation, { task: "regression" }>): string {
  const figure = (value: number | null): string =>
    isFiniteFigure(value) ? value.toPrecision(4) : "not finite";
  return (
    `mean absolute error ${figure(meanAbsoluteError)}, root mean square ` +
    `error ${figure(rootMeanSquareError)}, R² ${isFiniteFigure(r2) ? r2.toFixed(4) : "-"}` +
    (reconstruction === undefined
      ? ""
      : `; squared error of a sample: mean ${figure(reconstruction.mean)}, standard deviation ` +
        `${figure(reconstruction.standardDeviation)}, largest ${figure(reconstruction.largest)}`) +
    (clusters === undefined ? "" : `; samples of each cluster: ${clusters.join(", ")}`)
  );
}

export function detailsOf(evaluation: OutputEvaluation | Evaluation): readonly string[] {
  if (evaluation.task === "general")
    return evaluation.outputs.flatMap(({ name, evaluation: one }) =>
      (one.task === "regression" ? [inOwnUnit(one)] : detailsOf(one)).map((text) => `${name}: ${text}`),
    );
  const percent = (share: number | null): string => (share === null ? "-" : `${(100 * share).toFixed(2)} %`);
  if (evaluation.task === "regression") {
    const { rootMeanSquareError, r2 } = evaluation;
    const error = isFiniteFigure(rootMeanSquareError) ? rootMeanSquareError.toPrecision(4) : "not finite";
    return [
      `in the target's unit: root mean square error ${error}, R² ${isFiniteFigure(r2) ? r2.toFixed(4) : "-"}`,
    ];
  }
  if (evaluation.task === "multi-label")
    return [
      `labels: ${percent(evaluation.accuracy)} right, all of ${evaluation.correct} of ${counted(evaluation.samples, "sample")}`,
      `recall by label: ${evaluation.labels.map(({ recall }, each) => `${each} ${percent(recall)}`).join(", ")}`,
    ];
  const { correct, samples, top, classes } = evaluation;
  return [
    `top-1: ${correct} of ${samples} right, ${percent(correct / samples)}`,
    ...(top === undefined
      ? []
      : [`top-${top.k}: ${top.correct} of ${samples} right, ${percent(top.accuracy)}`]),
    `mean of all classes: recall ${percent(meanOf(classes, "recall"))}, precision ` +
      `${percent(meanOf(classes, "precision"))}, F1 ${percent(meanOf(classes, "f1"))}`,
    `recall by class: ${classes.map(({ recall }, each) => `${each} ${percent(recall)}`).join(", ")}`,
  ];
}

type ClassFigures = Extract<Evaluation, { task: "classification" }>["classes"][number];

/** Returns the mean over the classes that have this figure; null where none has. */
function meanOf(classes: readonly ClassFigures[], figure: "recall" | "precision" | "f1"): number | null {
  const values = classes.flatMap((each) => each[figure] ?? []);
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

export const commands = [evaluate];
