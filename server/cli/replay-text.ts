/** How a replay ended, as text for people. */
import { formatDuration } from "../../shared/cli/output.js";
import type { ReplayReport } from "../api/evaluation-schemas.js";
import { nameOf } from "./version-text.js";

export function describeReplay(report: ReplayReport): string {
  const { verdict, grade, text, difference, workMs, dataFrom } = report;
  const largest = difference?.largest;
  return [
    `${nameOf(report)} ${verdict}${grade === undefined ? "" : ` (${grade})`}: ${text}`,
    ...(largest === undefined
      ? []
      : [`  largest difference ${largest.difference.toPrecision(3)}, in ${largest.tensor}`]),
    ...(workMs === undefined
      ? []
      : [`  trained again in ${formatDuration(workMs)}, data ${dataFrom ?? "-"}`]),
  ].join("\n");
}
