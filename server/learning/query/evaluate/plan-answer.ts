/** The plan of an evaluation as an answer tells it. Pure. */
import type { PlannedEvaluation } from "../../../interface/api/models/enumeration-schemas.js";
import { judgedSteps } from "./keep-rule.js";
import type { EvaluationPlan } from "./plan-evaluation.js";

/** The weights of new layers that come from stored models. */
export function inheritedAnswer(models: EvaluationPlan["models"]): PlannedEvaluation["inherited"][number][] {
  return models.flatMap(({ title, derived }) => {
    if (derived?.inherited === undefined) return [];
    const { row, paths, bytes } = derived.inherited;
    const { versionId, name, version } = row;
    const drawn = derived.model.drawers.filter((draw) => draw !== undefined).length - paths.size;
    return [{ model: title, from: { versionId, name, version }, tensors: paths.size, bytes, drawn }];
  });
}

/** @param seed undefined: one is drawn when the training begins, and what it decides is not known yet */
export function planAnswerOf(
  { query, models, candidates, rounds, notMade }: EvaluationPlan,
  seed: string | undefined,
): PlannedEvaluation {
  return {
    models: [...new Set(candidates.map(({ model }) => model.title))],
    inherited: inheritedAnswer(models),
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
