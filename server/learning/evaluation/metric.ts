/**
 * Names an evaluation's main metric: as the training of the model or of its nearest ancestor named it,
 * otherwise by the task.
 */
import { decodeMetadata } from "../../../shared/model/metadata.js";
import { metricValue, taskMetrics, type Evaluation } from "../../../shared/train/evaluation.js";
import type { Metric } from "../../../shared/train/recipes/recipe.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

export interface MeasuredMetric extends Metric {
  readonly value: number;
}

/** Maximum number of ancestors whose metadata is read. */
const maxAncestors = 100;

/** @returns value in the metric's unit, such as per cent of correct answers or the target's own unit */
export async function metricOf(
  repository: Pick<FleetRepository, "lineage" | "objects">,
  { versionId }: Pick<VersionSummary, "versionId">,
  evaluation: Evaluation,
): Promise<MeasuredMetric> {
  const known = taskMetrics[evaluation.task];
  for (const { record, state } of repository.lineage(versionId, { limit: maxAncestors })) {
    if (record.objects.metadata === undefined || state === "retired") continue;
    const metadata = decodeMetadata(await repository.objects.read("metadata", record.objects.metadata));
    const { "metric.name": name, "metric.unit": unit, "metric.lowerIsBetter": lowerIsBetter } = metadata;
    if (typeof name === "string" && typeof unit === "string" && lowerIsBetter === known.lowerIsBetter)
      return { name, unit, lowerIsBetter, value: metricValue(evaluation, unit) };
  }
  return { ...known, value: metricValue(evaluation, known.unit) };
}
