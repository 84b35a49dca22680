/** `model merge`: the average of models that a person names, as a new version. */
import type { AverageRule } from "../../../shared/average/average-numbers.js";
import { isWeight, maxAveraged } from "../../../shared/average/average-record.js";
import type { MergeReport } from "../../interface/api/models/average-schemas.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import { inOrder, openBases, type AverageBases } from "./average-bases.js";
import { rulesMixed, tooFewModels, tooManyModels, trimUnfit, weightsUnfit } from "./average-errors.js";
import { saveAverage } from "./save-average.js";

type MergeInput = OperationInput<"mergeModels">;

/**
 * @throws MODEL_NOT_FOUND, MODEL_RETIRED; USAGE for weights and shares that do not fit; AVERAGE_REFUSED,
 * ARCHITECTURE_MISMATCH, MODEL_REDUCED, NOT_A_NUMBER; as `saveAverage`
 */
export async function averageModels(
  context: OperationsContext,
  { fleet, models, name, ...asked }: MergeInput,
  signal?: AbortSignal,
): Promise<MergeReport> {
  const repository = await context.fleets.get(fleet);
  const given = models.map((model, i) => ({ base: repository.resolve(model), weight: asked.weights?.[i] }));
  const sorted = inOrder(given);
  const rule = ruleOf(asked, sorted);
  const opened = await openBases(
    repository,
    sorted.map(({ base }) => base),
    signal,
  );
  const summary = await saveAverage(context, repository, { name, opened, rule }, signal);
  return { summary, ...countsOf(opened, rule), bases: sorted.map(({ base, weight }) => shown(base, weight)) };
}

/** @param sorted in the order of the sums, with its weights */
function ruleOf(
  { rule, weights, trim }: Pick<MergeInput, "rule" | "weights" | "trim">,
  sorted: readonly { readonly weight: number | undefined }[],
): AverageRule {
  const count = sorted.length;
  if (count < 2) throw tooFewModels(count);
  if (count > maxAveraged) throw tooManyModels(count, maxAveraged);
  const wanted = rule ?? (weights !== undefined ? "weighted" : trim !== undefined ? "trimmed" : "mean");
  if ((weights !== undefined && wanted !== "weighted") || (trim !== undefined && wanted !== "trimmed"))
    throw rulesMixed();
  if (wanted === "mean") return { rule: wanted };
  if (wanted === "weighted") {
    const own = sorted.map(({ weight }) => weight);
    if (weights?.length !== count || !own.every(isWeight)) throw weightsUnfit(weights?.length ?? 0, count);
    return { rule: wanted, weights: own };
  }
  // A share of 0.29 of 100 models is 29 of them, whatever float64 makes of it.
  const trimmedEach = Math.floor((trim ?? 0) * count + 1e-9);
  if (trimmedEach < 1 || 2 * trimmedEach >= count) throw trimUnfit(trim, count);
  return { rule: wanted, trimmedEach };
}

/** The part of an answer that the tensors and the rule give. */
export function countsOf(
  { tensors }: AverageBases,
  rule: AverageRule,
): Pick<MergeReport, "rule" | "trimmedEach" | "tensors" | "sameTensors"> {
  return {
    rule: rule.rule,
    ...(rule.rule === "trimmed" ? { trimmedEach: rule.trimmedEach } : {}),
    tensors: tensors.length,
    sameTensors: tensors.filter(({ isSame }) => isSame).length,
  };
}

export function shown(
  { versionId, name, version }: VersionSummary,
  weight: number | undefined,
): MergeReport["bases"][number] {
  return { versionId, name, version, ...(weight === undefined ? {} : { weight }) };
}
