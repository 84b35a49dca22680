/** The titles, bases and versions of candidates, whoever trains them. */
import { defined } from "../../../shared/defined.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type {
  EvaluationPlan,
  PlannedCandidate,
  PlannedModel,
} from "../../learning/query/evaluate/plan-evaluation.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { saveDerivation } from "./save-derived.js";

/** A candidate as lines of progress call it. */
export function titleOf(
  { candidates }: Pick<EvaluationPlan, "candidates">,
  { number, model, combination }: PlannedCandidate,
): string {
  const settings = Object.entries(combination.varied).map(([name, value]) => `${name}=${value}`);
  return [`candidate ${number} of ${candidates.length}`, model.title, ...settings].join(", ");
}

interface Origin {
  readonly repository: FleetRepository;
  readonly query: string;
  readonly seed: string;
  readonly lease: string;
}

/** The version that a candidate is trained from; one that was derived becomes a version with its first candidate. */
export async function baseVersionOf(
  context: OperationsContext,
  { repository, query, seed, lease }: Origin,
  { row, derived }: PlannedModel,
): Promise<VersionSummary> {
  if (derived === undefined) return repository.resolve(row.versionId);
  const saved = await saveDerivation(
    context,
    repository,
    { row, name: derived.name, result: derived.model },
    { query, seed, lease, ...defined({ inherited: derived.inherited }) },
  );
  return repository.resolve(saved?.versionId ?? row.versionId);
}

/** The version that a killed process saved, and did not note. */
export function savedBefore(
  repository: Pick<FleetRepository, "versions">,
  { name, base, contentId }: { readonly name: string; readonly base: Hash; readonly contentId: Hash },
): Hash | undefined {
  return repository
    .versions({ name })
    .find(({ record }) => record.bases[0] === base && record.contentId === contentId)?.versionId;
}

/** The metadata of a candidate's version, by which it is found again. */
export function metadataOf(
  { combination }: PlannedCandidate,
  { query, seed }: Pick<Origin, "query" | "seed">,
): Readonly<Record<string, string | number | boolean>> {
  return { ...combination.varied, "commit.message": query.trim(), "evaluate.seed": seed };
}
