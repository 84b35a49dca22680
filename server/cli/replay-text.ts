/** Formats a replay's result as text for people. */
import { averageArithmeticId } from "../../shared/average/average-record.js";
import { formatDuration } from "../../shared/cli/output.js";
import type { ReplayReport } from "../interface/api/models/evaluation-schemas.js";
import { proofLines } from "./proof-text.js";
import { nameOf } from "./version-text.js";

/** @param title what was replayed */
export function describeReplay(report: ReplayReport, title = nameOf(report)): string {
  const { verdict, grade, text, difference, workMs, dataFrom, proof } = report;
  const largest = difference?.largest;
  return [
    `${title} ${verdict}${grade === undefined ? "" : ` (${grade})`}: ${text}`,
    ...(largest === undefined
      ? []
      : [`  largest difference ${largest.difference.toPrecision(3)}, in ${largest.tensor}`]),
    ...(workMs === undefined
      ? []
      : [
          dataFrom === undefined
            ? `  made again in ${formatDuration(workMs)}`
            : `  trained again in ${formatDuration(workMs)}, data ${dataFrom}`,
        ]),
    ...(proof === undefined ? [] : proofLines(proof).map(([key, value]) => `  ${key}: ${value}`)),
    // Every machine computes the same average.
    ...(verdict === "refuted" && difference !== undefined && report.engineId !== averageArithmeticId
      ? hints(report)
      : []),
  ].join("\n");
}

/** Says what to run where a replay gave other tensors: two machines may compute differently. */
function hints(report: Pick<ReplayReport, "name" | "version">): readonly string[] {
  const model = report.version === 0 ? "MODEL" : nameOf(report);
  return [
    // A version of a file need not be known here.
    ...(report.version === 0 ? [] : [`  what is known of the cause: stemma replay explain ${model}`]),
    `  does this machine compute as the one that trained it? Run \`stemma probe ${model} --file FILE\` on both, ` +
      "then `stemma probe diff` on the two files",
  ];
}
