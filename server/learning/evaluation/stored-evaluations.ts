/** Lists and shows stored evaluations. */
import { defined } from "../../../shared/defined.js";
import type { StoredEvaluation } from "../../../shared/provenance/stored-evaluation.js";
import type { EvaluationDetails, ListedEvaluation } from "../../interface/api/models/evaluation-schemas.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { readEvaluation } from "../../storage/repository/evaluations.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { EvaluationState } from "../../storage/repository/state/evaluation-state.js";
import { evaluationAmbiguous, evaluationMissing } from "./evaluation-errors.js";

interface Found {
  readonly version: VersionSummary;
  readonly state: EvaluationState;
}

/** @returns the latest first. @throws MODEL_NOT_FOUND, OBJECT_MISSING, EVALUATION_INVALID */
export async function listEvaluations(
  { fleets }: OperationsContext,
  { fleet, model, limit = 100 }: OperationInput<"evaluations">,
): Promise<readonly ListedEvaluation[]> {
  const repository = await fleets.get(fleet);
  const found = evaluationsOf(repository, versionsOf(repository, model))
    .sort((a, b) => b.state.atMs - a.state.atMs)
    .slice(0, limit);
  const listed: ListedEvaluation[] = [];
  for (const each of found) {
    const evaluation = await readEvaluation(repository.objects, each.version.versionId, each.state);
    listed.push({ ...membersOf(each, evaluation), hasPredictions: evaluation.predictions !== undefined });
  }
  return listed;
}

/**
 * @throws NOT_FOUND for an unknown evaluation, MODEL_AMBIGUOUS where more than one id begins like this,
 * OBJECT_MISSING, EVALUATION_INVALID
 */
export async function showEvaluation(
  { fleets }: OperationsContext,
  { fleet, evaluation: id, from = 0, rows = 0 }: OperationInput<"evaluation">,
): Promise<EvaluationDetails> {
  const repository = await fleets.get(fleet);
  const found = requireEvaluation(repository, id);
  const { versionId } = found.version;
  const evaluation = await readEvaluation(repository.objects, versionId, found.state);
  const { root, environment, times, predictions } = evaluation;
  return {
    ...membersOf(found, evaluation),
    root,
    environment,
    workMs: times.workMs,
    predictions:
      predictions === undefined
        ? null
        : await predictionsOf(repository, predictions, {
            from,
            to: Math.min(from + rows, evaluation.data.evaluated),
          }),
  };
}

/** Outputs and true labels of some samples. */
async function predictionsOf(
  { objects }: FleetRepository,
  { object, width, targets = 0 }: NonNullable<StoredEvaluation["predictions"]>,
  { from, to }: { readonly from: number; readonly to: number },
): Promise<EvaluationDetails["predictions"]> {
  const outputs = width - targets;
  const all = to > from ? rowsOf(await objects.read("predictions", object), { width, from, to }) : [];
  return {
    object,
    width: outputs,
    targets,
    from,
    rows: all.map((row) => row.slice(0, outputs)),
    actual: targets === 0 ? [] : all.map((row) => row.slice(outputs)),
  };
}

/** A name alone stands for all its versions, so that they can be compared. */
function versionsOf(repository: FleetRepository, model: string | undefined): readonly VersionSummary[] {
  if (model === undefined) return evaluatedVersions(repository);
  const named = repository.versions({ name: model });
  return named.length > 0 ? named : [repository.resolve(model)];
}

function evaluatedVersions(repository: FleetRepository): readonly VersionSummary[] {
  return [...repository.select("evaluated")].filter(({ state }) => state !== "retired");
}

function evaluationsOf(repository: FleetRepository, versions: readonly VersionSummary[]): Found[] {
  const evaluated = versions.filter(({ evaluations }) => evaluations !== undefined);
  const found = repository.evaluations(evaluated.map(({ versionId }) => versionId));
  return evaluated.flatMap((version) =>
    (found.get(version.versionId) ?? []).map((state) => ({ version, state })),
  );
}

function requireEvaluation(repository: FleetRepository, id: string): Found {
  const found = /^[0-9a-f]{8,64}$/.test(id)
    ? evaluationsOf(repository, evaluatedVersions(repository)).filter(({ state }) =>
        state.object.startsWith(id),
      )
    : [];
  const [first] = found;
  if (first !== undefined && found.length === 1) return first;
  throw found.length > 1 ? evaluationAmbiguous(id, found.length) : evaluationMissing(repository.fleet, id);
}

function membersOf(
  { version: { versionId, name, version }, state }: Found,
  { data, top, metric, measures, engine, backend }: StoredEvaluation,
): Omit<ListedEvaluation, "hasPredictions"> {
  const { name: dataName, ...described } = data;
  return defined({
    evaluation: state.object,
    versionId,
    name,
    version,
    atMs: state.atMs,
    by: state.by,
    data: { ...described, ...defined({ name: dataName }) },
    top,
    metric: { ...metric, value: finite(metric.value) },
    measures,
    engine,
    backend,
  });
}

/** JSON has no infinity. */
function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

interface Rows {
  readonly width: number;
  readonly from: number;
  readonly to: number;
}

function rowsOf(bytes: Uint8Array, { width, from, to }: Rows): readonly (readonly (number | null)[])[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const rows: (number | null)[][] = [];
  for (let row = from; row < to && (row + 1) * width * 4 <= bytes.length; row++)
    rows.push(Array.from({ length: width }, (_, i) => finite(view.getFloat32((row * width + i) * 4, true))));
  return rows;
}
