/** `stemma model evals`: stored evaluations, to be listed and compared. */
import { resolve } from "node:path";
import { formatDuration, formatTime, type Column } from "../../../../shared/cli/output.js";
import { StemmaError } from "../../../../shared/errors.js";
import type {
  EvaluationDetails,
  ListedEvaluation,
} from "../../../interface/api/models/evaluation-schemas.js";
import { figureText } from "../../figure-text.js";
import { listed, plain, type PlainContext, type Printed } from "../../plain-command.js";
import { writePredictions } from "../../predictions-file.js";
import { refuseExisting } from "../../stream-file.js";
import { describeBy, nameOf } from "../../version-text.js";
import { detailsOf } from "./evaluate.js";

const evals = plain("evaluations", {
  name: "evals",
  about: "list and compare stored evaluations",
  takes: { models: "[models...] name, name:version, name:tag or id" },
  options: {
    limit: "<n>",
    show: "<evaluation> one evaluation in detail: its id, or at least 8 digits of it",
    predictions: "<file> with --show: write the stored predictions to this file, as CSV",
    force: "overwrite an existing file",
  },
  help: `
A name alone stands for all its versions. Evaluations can be compared where they are
of the same samples; there, the column AGAINST BEST is the difference to the best one.

  stemma model evals pack-soh
  stemma model evals pack-soh:3 digits:7
  stemma model evals --show 3f1c5d20
      one evaluation in detail: model, data, engine, machine, all figures
  stemma model evals --show 3f1c5d20 --predictions predictions.csv
      also what the model output for each sample, where eval stored that

Evaluations go with their version: those of retired versions are not kept. Of each
version the latest 100 are.
`,
  run: ({ models, show, ...choices }, context) =>
    show === undefined ? list(models, choices, context) : showOne(models, { ...choices, show }, context),
});

interface EvalsChoices {
  readonly limit: number | undefined;
  readonly predictions: string | undefined;
  readonly force: boolean;
}

async function list(
  models: readonly string[],
  { limit, predictions }: EvalsChoices,
  { call }: PlainContext,
): Promise<Printed> {
  if (predictions !== undefined)
    throw new StemmaError("USAGE", "--predictions is of one evaluation. Name it with --show.");
  const found = new Map<string, ListedEvaluation>();
  for (const model of models.length === 0 ? [undefined] : models)
    for (const each of await call("evaluations", { model, limit })) found.set(each.evaluation, each);
  return listed([...found.values()], {
    nameOf: (row) => row.evaluation,
    columns: columnsFor([...found.values()]),
    empty: "no evaluation is stored; make one with: stemma model eval MODEL --data NAME",
  });
}

function columnsFor(rows: readonly ListedEvaluation[]): readonly Column<ListedEvaluation>[] {
  const best = bestBySamples(rows);
  return [
    { title: "EVALUATION", value: (row) => row.evaluation.slice(0, 12) },
    { title: "MODEL", value: (row) => nameOf(row) },
    { title: "DATA", value: ({ data }) => data.name ?? data.content.slice(0, 12) },
    { title: "SAMPLES", value: ({ data }) => samplesText(data), align: "right" },
    { title: "METRIC", value: ({ metric }) => metric.name },
    { title: "VALUE", value: ({ metric }) => figureText(metric.value, metric.unit), align: "right" },
    { title: "AGAINST BEST", value: (row) => differenceText(row, best.get(samplesOf(row))), align: "right" },
    { title: "WHEN", value: ({ atMs }) => formatTime(atMs) },
    { title: "BY", value: ({ by }) => by ?? "-" },
  ];
}

/** The samples that must be equal, so that two figures can be compared. */
function samplesOf({ data, metric }: ListedEvaluation): string {
  return [data.content, data.evaluated, metric.name, metric.unit].join(" ");
}

function bestBySamples(rows: readonly ListedEvaluation[]): ReadonlyMap<string, number> {
  const best = new Map<string, number>();
  for (const row of rows) {
    const { value, lowerIsBetter } = row.metric;
    if (value === null) continue;
    const known = best.get(samplesOf(row));
    if (known === undefined || (lowerIsBetter ? value < known : value > known))
      best.set(samplesOf(row), value);
  }
  return best;
}

function samplesText({ evaluated, heldOut }: ListedEvaluation["data"]): string {
  return evaluated === heldOut ? String(heldOut) : `${evaluated} of ${heldOut}`;
}

function differenceText({ metric }: ListedEvaluation, best: number | undefined): string {
  if (metric.value === null || best === undefined) return "-";
  const difference = metric.value - best;
  return difference === 0 ? "best" : `${difference > 0 ? "+" : ""}${difference.toFixed(3)}`;
}

async function showOne(
  models: readonly string[],
  { show, predictions, force }: EvalsChoices & { readonly show: string },
  { operations, fleet }: PlainContext,
): Promise<Printed> {
  if (models.length > 0)
    throw new StemmaError(
      "USAGE",
      "--show names an evaluation, which is of one version. Leave the models out.",
    );
  const file = predictions === undefined ? undefined : resolve(predictions);
  if (file !== undefined) await refuseExisting(file, force);
  const opened = await operations();
  const details = await opened.evaluation({ fleet, evaluation: show });
  const request = { fleet, evaluation: details.evaluation, force };
  if (file !== undefined && (await writePredictions(opened, { ...request, file })) === undefined)
    throw new StemmaError(
      "NOT_FOUND",
      `The evaluation ${details.evaluation.slice(0, 12)} was made without predictions. Evaluate again: stemma model ` +
        `eval ${nameOf(details)} --data ${details.data.name ?? details.data.content} --predictions FILE.`,
    );
  return {
    data: details,
    names: [details.evaluation],
    text: [...describe(details), ...(file === undefined ? [] : [`predictions written to ${file}`])].join(
      "\n",
    ),
  };
}

function describe(details: EvaluationDetails): readonly string[] {
  const { evaluation, versionId, root, data, metric, measures, engine, atMs, by, workMs } = details;
  const parameters = Object.entries(data.parameters).map(([name, value]) => `${name}=${String(value)}`);
  const rows: readonly (readonly [string, string])[] = [
    ["evaluation", evaluation],
    ["model", `${nameOf(details)}, ${versionId.slice(0, 16)}, root ${root.slice(0, 16)}`],
    ["data", `${data.name ?? "-"}, content ${data.content.slice(0, 16)}, ${data.from}`],
    ["reader", [data.reader, ...parameters].join(" ")],
    ["samples", `${samplesText(data)} held-out samples`],
    ["task", measures.task],
    ["metric", `${metric.name} ${figureText(metric.value, metric.unit)}`],
    ["engine", `${engine.slice(0, 16)}, ${details.backend.backend}`],
    ["made", `${formatTime(atMs)}${describeBy(by)}, in ${formatDuration(workMs)}`],
    ["predictions", details.predictions === null ? "not stored" : "stored (--predictions FILE)"],
    [
      "environment",
      Object.entries(details.environment)
        .map(([name, value]) => `${name} ${value}`)
        .join(", "),
    ],
  ];
  return [...rows.map(([title, value]) => `${title.padEnd(11)}  ${value}`), ...detailsOf(measures)];
}

export const commands = [evals];
