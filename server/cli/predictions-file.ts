/** Writes stored predictions to a CSV file: one row for each sample of the evaluated part. */
import { writeDurably } from "../../shared/files/durable-write.js";
import { nodeFiles } from "../../shared/files/node-files.js";
import { maxPredictionRows, type EvaluationDetails } from "../api/evaluation-schemas.js";
import type { ServerOperations } from "../api/server-operations.js";
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
    const { rows } = page.predictions;
    lines.push(...rows.map((row, i) => lineOf(page, row, from + i)));
    if (rows.length < maxPredictionRows) {
      await refuseExisting(file, force);
      const header = headerOf(page, page.predictions.width);
      await writeDurably(nodeFiles(), file, Buffer.from(`${[header, ...lines].join("\n")}\n`));
      return lines.length;
    }
  }
}

function headerOf({ measures }: EvaluationDetails, width: number): string {
  const outputs = width === 1 ? ["output"] : Array.from({ length: width }, (_, i) => `output ${i}`);
  return ["sample", ...(measures.task === "classification" ? ["predicted"] : []), ...outputs].join(",");
}

function lineOf({ measures }: EvaluationDetails, row: readonly (number | null)[], sample: number): string {
  // The first of the largest outputs, as the evaluation counts.
  const predicted = row.reduce<number>(
    (best, value, i) => ((value ?? Infinity) > (row[best] ?? Infinity) ? i : best),
    0,
  );
  return [sample, ...(measures.task === "classification" ? [predicted] : []), ...row.map(textOf)].join(",");
}

function textOf(value: number | null): string {
  return value === null ? "" : String(value);
}
