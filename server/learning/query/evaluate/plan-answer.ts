/** The plan of an evaluation as an answer tells it. Pure. */
import type { PlannedEvaluation } from "../../../interface/api/models/enumeration-schemas.js";
import { judgedSteps } from "./keep-rule.js";
import type { EvaluationPlan } from "./plan-evaluation.js";

/** The weights of new layers: from stored models, or drawn. */
export function newWeightsOf(models: EvaluationPlan["models"]): PlannedEvaluation["newWeights"][number][] {
  return models.flatMap(({ title, derived }) => {
    const count = derived?.model.drawers.filter((draw) => draw !== undefined).length ?? 0;
    if (count === 0) return [];
    const { row, paths, bytes = 0 } = derived?.inherited ?? {};
    const inherited = paths?.size ?? 0;
    return [
      {
        model: title,
        from: row === undefined ? null : { versionId: row.versionId, name: row.name, version: row.version },
        inherited,
        bytes,
        drawn: count - inherited,
      },
    ];
  });
}

/** @param seed undefined: one is drawn when the training begins, and what it decides is not known yet */
export function planAnswerOf(
  { query, models, candidates, rounds, notMade }: EvaluationPlan,
  seed: string | undefined,
): PlannedEvaluation {
  return {
    models: [...new Set(candidates.map(({ model }) => model.title))],
    newWeights: newWeightsOf(models),
    candidates: candidates.length,
    settings: query.dimensions.map(({ name, values, isDrawn }) => ({
      name,
      count: values.length,
      values: isDrawn && seed === undefined ? null : [...values],
    })),
    rule: query.ruleText,
    rounds: rounds.map(({ iteration, candidates: count, keeps }) => ({
      iteration: iteration ?? null,
      candidates: count,
      keeps,
    })),
    steps: judgedSteps(rounds) ?? null,
    notMade: notMade.map((each) => ({ ...each })),
  };
}
