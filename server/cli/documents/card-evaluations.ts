/** The stored evaluations of a version as statements: what each measured, and of which classes. Pure. */
import { formatTime } from "../../../shared/cli/output.js";
import { counted } from "../../../shared/printable.js";
import type { ListedEvaluation } from "../../interface/api/models/evaluation-schemas.js";
import { figureText } from "../figure-text.js";
import { describeBy } from "../version-text.js";
import type { DocumentSource } from "./document-source.js";
import { staleEvaluation } from "./stale.js";
import { stale } from "./card-details.js";
import { statement, type Statement } from "./statement.js";

type Measures = ListedEvaluation["measures"];
type Part = Measures | Extract<Measures, { task: "general" }>["outputs"][number]["evaluation"];
type Figure = readonly [name: string, value: number | null];

/** Classes of an evaluation that are shown; more are counted. */
const maxClasses = 100;

export function evaluationStatements(source: DocumentSource): readonly Statement[] {
  const { evaluations } = source;
  if (evaluations.length === 0) return [statement("evaluation", undefined)];
  return evaluations.flatMap((each) => {
    const { evaluation, data, metric, measures, engine, atMs, by } = each;
    const of = evaluation.slice(0, 12);
    const more = { of, ...stale(staleEvaluation(source, each)) };
    const samples = `${data.evaluated} of ${data.heldOut} held-out samples of ${data.name ?? data.content}`;
    const made = `${formatTime(atMs)}${describeBy(by)}, by the engine ${engine.slice(0, 12)}`;
    const value = `${metric.name} ${figureText(metric.value, metric.unit)} on ${samples}; ${made}`;
    return [
      statement("evaluation", value, "recorded", more),
      ...linesOf(measures).map((line) => statement("its figures", line, "recorded", more)),
    ];
  });
}

function linesOf(measures: Part): readonly string[] {
  switch (measures.task) {
    case "regression":
      return [
        figures([
          ["mean absolute error", measures.meanAbsoluteError],
          ["root mean square error", measures.rootMeanSquareError],
          ["R²", measures.r2],
        ]),
      ];
    case "classification":
      return [figures([["accuracy", measures.accuracy]]), ...classLines("class", measures.classes)];
    case "multi-label":
      return [figures([["accuracy", measures.accuracy]]), ...classLines("label", measures.labels)];
    case "general":
      return [
        figures([["loss", measures.loss]]),
        ...measures.outputs.flatMap(({ name, evaluation }) =>
          linesOf(evaluation).map((line) => `${name}: ${line}`),
        ),
      ];
  }
}

type OfClass = Extract<Measures, { task: "classification" }>["classes"][number];

function classLines(word: string, classes: readonly OfClass[]): readonly string[] {
  const lines = classes.slice(0, maxClasses).map(({ samples, recall, precision, f1 }, at) => {
    const shown: readonly Figure[] = [
      ["recall", recall],
      ["precision", precision],
      ["F1", f1],
    ];
    return `${word} ${at}, ${counted(samples, "sample")}: ${figures(shown)}`;
  });
  const more = classes.length - maxClasses;
  return more > 0 ? [...lines, `${more} more of these: stemma model evals --show`] : lines;
}

/** JSON has no infinity and no NaN; a figure that is null was one of them, or nothing defines it. */
function figures(all: readonly Figure[]): string {
  return all
    .map(([name, value]) => `${name} ${value === null ? "not defined" : Number(value.toPrecision(6))}`)
    .join(", ");
}
