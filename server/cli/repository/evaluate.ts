/** `stemma eval`: measures one model, or several on the same data (MH13). */
import { figureText } from "../figure-text.js";
import { evaluateModel, evaluateOptions } from "../commands/model/evaluate.js";
import type { EvaluationReport } from "../../interface/api/models/evaluation-schemas.js";
import { StemmaError } from "../../../shared/errors.js";
import { listed, plain, type Choices, type PlainContext, type Printed } from "../plain-command.js";
import { nameOf } from "../version-text.js";
import { currentOfFolder } from "./current-version.js";
import { verb } from "./verb.js";

type EvaluateChoices = Choices<unknown, unknown, typeof evaluateOptions>;

export const define = verb(
  plain(null, {
    name: "eval",
    takes: { models: "[models...] name, name:version, name:tag or id; without one the current version" },
    options: evaluateOptions,
    help: `
One model is measured as by stemma model eval, whose help describes the options. Several are
measured on the same samples of the same data, the best first.

  stemma eval --data cells
  stemma eval curve:1 curve:2 wide --data cells
`,
    run: async ({ models = [], ...choices }, context) =>
      models.length > 1
        ? await evaluateSeveral(models, choices, context)
        : await evaluateModel(models[0] ?? (await currentOfFolder(context.call)), choices, context),
  }),
);

/** @throws USAGE for what is of one model, what an evaluation throws */
async function evaluateSeveral(
  models: readonly string[],
  { data, top, limit, store, predictions, progressive }: EvaluateChoices,
  { call, output }: PlainContext,
): Promise<Printed> {
  if (predictions !== undefined || progressive)
    throw new StemmaError(
      "USAGE",
      "--predictions and --progressive are for one model. Name one, or leave them out.",
    );
  const reports: EvaluationReport[] = [];
  for (const model of models) {
    output.progress(`evaluating ${model} (${reports.length + 1} of ${models.length})`);
    reports.push(await call("evaluate", { model, data, top, limit, store }));
  }
  output.endProgress();
  const samples = reports[0]?.samples.evaluated ?? 0;
  const metrics = [...new Set(reports.map(({ metric }) => metric.name))];
  const sorted = metrics.length > 1 ? reports : [...reports].sort(byMetric);
  return {
    ...listed(sorted, {
      nameOf,
      columns: [
        { title: "MODEL", value: nameOf },
        { title: "METRIC", value: ({ metric }) => metric.name },
        { title: "VALUE", value: ({ metric }) => figureText(metric.value, metric.unit), align: "right" },
      ],
      text: [
        `on ${data}, ${samples} held-out samples each`,
        ...(metrics.length > 1
          ? ["the models have different metrics, so their values are not compared"]
          : []),
        ...sorted
          .filter(({ words }) => words !== undefined)
          .map((each) => `WARNING: ${nameOf(each)} was trained on other classes than the data have`),
      ].join("\n"),
    }),
    data: reports,
  };
}

/** The best first; those whose metric is not finite are last. */
function byMetric({ metric: one }: EvaluationReport, { metric: other }: EvaluationReport): number {
  if (one.value === null || other.value === null)
    return Number(one.value === null) - Number(other.value === null);
  return one.lowerIsBetter ? one.value - other.value : other.value - one.value;
}
