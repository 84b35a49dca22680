/** A stored version as a run: its evaluation, its measurements, and its tensors in a file. */
import { join } from "node:path";
import {
  totalsOf,
  type PredictedSample,
  type RunRecord,
  type RunTotals,
} from "../../../shared/determinism/reproduce/run-record.js";
import type { Evaluation } from "../../../shared/train/evaluation.js";
import { maxPredictionRows, type ListedEvaluation } from "../../interface/api/models/evaluation-schemas.js";
import type { PlainContext } from "../plain-command.js";
import { writeStreamDurably } from "../stream-file.js";
import { nameOf } from "../version-text.js";
import { courseOf, type ReadRun } from "./read-run.js";

type Described = Awaited<ReturnType<typeof describeVersion>>;

/** @throws MODEL_NOT_FOUND, MODEL_RETIRED */
export async function describeVersion(model: string, { call }: PlainContext) {
  const described = await call("model", { model });
  return { ...described, evaluations: await call("evaluations", { model: described.versionId }) };
}

/**
 * Reads a version into a record, and its tensors into a file of `folder`.
 * @param other the version that it is compared with: only evaluations on the same samples can be compared
 */
export async function readVersion(
  version: Described,
  folder: string,
  context: PlainContext,
  other?: Described,
): Promise<ReadRun> {
  const { call, operations, fleet, signal } = context;
  const { versionId, measurements } = version;
  const evaluation = comparableEvaluation(version.evaluations, other?.evaluations);
  const evaluated = evaluation === undefined ? { totals: {} } : await readEvaluation(evaluation, call);
  const model = join(folder, `${versionId}.safetensors`);
  const opened = await operations();
  const stream = await opened.recover({ fleet, model: versionId, form: "safetensors" }, { signal });
  await writeStreamDurably(stream, model, { overwrite: true }, () => {});
  const course = measurements === undefined ? {} : { course: courseOf(measurements, measurements.length) };
  return { name: nameOf(version), record: { ...evaluated, ...course }, model };
}

/** The latest evaluation on samples on which the other one was evaluated too, rather one with predictions. */
function comparableEvaluation(
  own: readonly ListedEvaluation[],
  others: readonly ListedEvaluation[] | undefined,
): ListedEvaluation | undefined {
  const samplesOf = ({ data, hasPredictions }: ListedEvaluation): string =>
    [data.content, data.evaluated, hasPredictions].join(" ");
  const known = others && new Set(others.map(samplesOf));
  const shared = own.filter((each) => known?.has(samplesOf(each)) ?? true);
  // Both sides choose by the samples' hash, so that they choose the same.
  const sorted = [...shared].sort((one, another) => (samplesOf(one) < samplesOf(another) ? 1 : -1));
  return sorted.find(({ hasPredictions }) => hasPredictions) ?? sorted[0];
}

async function readEvaluation(
  { evaluation, measures }: ListedEvaluation,
  call: PlainContext["call"],
): Promise<Pick<RunRecord, "samples" | "totals">> {
  const samples = new Map<string, PredictedSample>();
  for (;;) {
    const from = samples.size;
    const { predictions } = await call("evaluation", { evaluation, from, rows: maxPredictionRows });
    if (predictions === null) return { totals: totalsOfMeasures(measures) };
    const isClass = measures.task === "classification";
    for (const [at, row] of predictions.rows.entries()) {
      const [outputs, truth] = [row, predictions.actual[at] ?? []].map((each) =>
        each.map((value) => value ?? NaN),
      ) as [number[], number[]];
      const largest = outputs.reduce((best, value, i) => (value > (outputs[best] as number) ? i : best), 0);
      samples.set(String(samples.size), {
        ...(truth.length === 0 ? {} : { actual: isClass ? truth.join(" ") : truth }),
        ...(isClass ? { predicted: String(largest) } : {}),
        outputs,
      });
    }
    if (predictions.rows.length < maxPredictionRows)
      // Summed up as those of a file are: another order of the sum has another last digit.
      return { samples, totals: { ...totalsOfMeasures(measures), ...totalsOf(samples) } };
  }
}

function totalsOfMeasures(measures: Evaluation): RunTotals {
  if (measures.task === "regression") {
    const { meanAbsoluteError } = measures as { readonly meanAbsoluteError: number | null };
    return meanAbsoluteError === null ? {} : { meanAbsoluteError };
  }
  if (measures.task !== "classification") return {};
  const { samples, correct, confusion } = measures;
  const classes = confusion.map((row, at) => {
    const total = row.reduce((sum, count) => sum + count, 0);
    return [String(at), { samples: total, correct: row[at] ?? 0 }] as const;
  });
  return { overall: { samples, correct }, classes: new Map(classes) };
}
