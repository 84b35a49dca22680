/** Writes stored predictions to a CSV file: one row for each sample of the evaluated part. */
import { writeDurably } from "../../shared/files/durable-write.js";
import { nodeFiles } from "../../shared/files/node-files.js";
import { maxPredictionRows, type EvaluationDetails } from "../interface/api/models/evaluation-schemas.js";
import type { ServerOperations } from "../interface/api/server-operations.js";
import { refuseExisting } from "./stream-file.js";

interface PredictionsRequest {
  readonly fleet: string;
  readonly evaluation: string;
  readonly file: string;
  readonly force: boolean;
}

/** @returns how many samples were written; undefined where the evaluation has no predictions */
export async function writePredictions(
  operations: Pick<ServerOperations, "evaluation">,
  { fleet, evaluation, file, force }: PredictionsRequest,
): Promise<number | undefined> {
  const lines: string[] = [];
  for (;;) {
    const from = lines.length;
    const page = await operations.evaluation({ fleet, evaluation, from, rows: maxPredictionRows });
    if (page.predictions === null) return undefined;
    const { rows, actual, width, targets } = page.predictions;
    lines.push(...rows.map((row, i) => lineOf(page, { sample: from + i, row, actual: actual[i] ?? [] })));
    if (rows.length < maxPredictionRows) {
      await refuseExisting(file, force);
      const header = headerOf(page, width, targets);
      await writeDurably(nodeFiles(), file, Buffer.from(`${[header, ...lines].join("\n")}\n`));
      return lines.length;
    }
  }
}

/** @param targets numbers of a true label; 0: they were not stored */
function headerOf({ measures }: EvaluationDetails, width: number, targets: number): string {
  const numbered = (name: string, count: number): readonly string[] =>
    count === 1 ? [name] : Array.from({ length: count }, (_, i) => `${name} ${i}`);
  return [
    "sample",
    ...numbered("actual", targets),
    ...(measures.task === "classification" ? ["predicted"] : []),
    ...numbered("output", width),
  ].join(",");
}

interface Prediction {
  readonly sample: number;
  readonly row: readonly (number | null)[];
  readonly actual: readonly (number | null)[];
}

function lineOf({ measures }: EvaluationDetails, { sample, row, actual }: Prediction): string {
  // The first of the largest outputs, as the evaluation counts.
  const predicted = row.reduce<number>(
    (best, value, i) => ((value ?? Infinity) > (row[best] ?? Infinity) ? i : best),
    0,
  );
  return [
    sample,
    ...actual.map(textOf),
    ...(measures.task === "classification" ? [predicted] : []),
    ...row.map(textOf),
  ].join(",");
}

function textOf(value: number | null): string {
  return value === null ? "" : String(value);
}
