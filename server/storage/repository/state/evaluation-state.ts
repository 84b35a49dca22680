/** The stored evaluations of a version. Pure. */
import { defined } from "../../../../shared/defined.js";
import { byOf } from "../../../../shared/journal/caller.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { FactOf } from "../../../../shared/journal/fact.js";

export interface EvaluationState {
  /** Object of the kind "evaluation". */
  readonly object: Hash;
  /** Object of the kind "predictions". */
  readonly predictions?: Hash;
  readonly atMs: number;
  readonly by?: string;
}

/** The latest evaluations of a version are kept; the next collection frees the others. */
export const maxKeptEvaluations = 100;

interface EvaluatedVersion {
  evaluations?: readonly EvaluationState[];
}

export function addEvaluation(version: EvaluatedVersion, fact: FactOf<"evaluated">): void {
  const { object, predictions, atMs } = fact;
  const others = (version.evaluations ?? []).filter((each) => each.object !== object);
  const added: EvaluationState = {
    object,
    ...defined({ predictions }),
    atMs,
    ...byOf(fact),
  };
  version.evaluations = [...others, added].slice(-maxKeptEvaluations);
}

/** The objects of a version's evaluations. */
export function evaluationObjectsOf({ evaluations = [] }: Readonly<EvaluatedVersion> = {}): readonly Hash[] {
  return evaluations.flatMap(({ object, predictions }) =>
    predictions === undefined ? [object] : [object, predictions],
  );
}
