/** What the training of a story costs here, by its model and by earlier trainings, and what it may cost. */
import { isStemmaError } from "../../shared/errors.js";
import { decodeArchitecture } from "../../shared/model/architecture.js";
import type { Architecture, SaveRecord } from "../../shared/model/model.js";
import type { OpenedProvenance } from "../../shared/provenance/openings.js";
import type { RecipeReference } from "../../shared/provenance/provenance.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { readOpenedProvenance } from "../context/opened-provenance.js";
import type { OperationsContext } from "../context/operations-context.js";
import { defaultTrainingLimits, memoryLimitMb } from "../context/training-limits.js";
import type { FleetRepository } from "../repository/fleet-repository.js";
import {
  predictCost,
  refuseTooCostly,
  statedTraining,
  type CostLimits,
  type MeasuredRun,
  type PredictedCost,
} from "./replay-cost.js";
import { trainingSize } from "./training-size.js";

/** Measured trainings that a prediction looks at, and versions whose records are read for them. */
const maxRuns = 5;
const maxRead = 64;

type Costed = Pick<FleetRepository, "objects" | "isRedacted" | "versions">;

/** @param maxMinutes what the request allows; absent: the owner's limit */
export async function costLimits(
  { trainingLimits }: Pick<OperationsContext, "trainingLimits">,
  maxMinutes?: number,
): Promise<CostLimits> {
  const limits = (await trainingLimits?.()) ?? defaultTrainingLimits;
  return { maxMinutes: maxMinutes ?? limits.maxMinutes, memoryLimitMb: memoryLimitMb(limits) };
}

export interface CostQuestion {
  readonly opened: OpenedProvenance;
  /** Bytes of the architecture, or the record that names it; neither: it is not known. */
  readonly architecture?: Uint8Array | undefined;
  readonly record?: Pick<SaveRecord, "objects"> | undefined;
  readonly changed?: Readonly<Record<string, unknown>> | undefined;
}

export async function predictedCost(
  repository: Costed,
  { opened, architecture, record, changed }: CostQuestion,
): Promise<PredictedCost> {
  const known = architecture === undefined ? await architectureOf(repository, record) : decoded(architecture);
  const { recipe } = opened.provenance;
  const measured = recipe === undefined ? [] : await measuredRuns(repository, recipe);
  return predictCost(opened, { architecture: known, changed, measured });
}

/**
 * Limits for a training that may be queued, or run.
 * @throws REPLAY_TOO_LONG, MEMORY_EXHAUSTED
 */
export async function boundedCost(
  context: Pick<OperationsContext, "trainingLimits">,
  repository: Costed,
  {
    what,
    maxMinutes,
    ...question
  }: CostQuestion & { readonly what: string; readonly maxMinutes?: number | undefined },
): Promise<CostLimits & { readonly cost: PredictedCost }> {
  const limits = await costLimits(context, maxMinutes);
  const cost = await predictedCost(repository, question);
  refuseTooCostly(what, cost, limits);
  return { ...limits, cost };
}

async function architectureOf(
  { objects }: Pick<FleetRepository, "objects">,
  record: Pick<SaveRecord, "objects"> | undefined,
): Promise<Architecture | undefined> {
  const id = record?.objects.architecture;
  return id === undefined || !objects.has(id) ? undefined : decoded(await objects.read("architecture", id));
}

/** One that cannot be read is refused elsewhere, with its reason. */
function decoded(bytes: Uint8Array): Architecture | undefined {
  try {
    return decodeArchitecture(bytes);
  } catch (error) {
    if (isStemmaError(error)) return undefined;
    throw error;
  }
}

/** The latest trainings by a recipe that replays on this server proved, as far as the newest versions tell. */
async function measuredRuns(repository: Costed, recipe: RecipeReference): Promise<readonly MeasuredRun[]> {
  const runs: MeasuredRun[] = [];
  const proved = repository
    .versions()
    .filter(({ replayed }) => replayed?.verdict === "proved" && replayed.workMs !== undefined);
  for (const { record, replayed, versionId } of proved.slice(-maxRead).reverse()) {
    if (runs.length === maxRuns) break;
    const told = await toldOf(repository, versionId, record);
    if (told !== undefined && isSameRecipe(told.recipe, recipe))
      runs.push({ workMs: replayed?.workMs as number, size: told.size });
  }
  return runs;
}

interface Told {
  readonly recipe: RecipeReference | undefined;
  readonly size: MeasuredRun["size"];
}

/** Of versions that were read before; what a record tells does not change, but it may be redacted. */
const toldByStore = new WeakMap<FleetRepository["objects"], Map<Hash, Told | undefined>>();

async function toldOf(repository: Costed, versionId: Hash, record: SaveRecord): Promise<Told | undefined> {
  const ofStore = toldByStore.get(repository.objects) ?? new Map<Hash, Told | undefined>();
  toldByStore.set(repository.objects, ofStore);
  if (!ofStore.has(versionId)) ofStore.set(versionId, await readTold(repository, record));
  return ofStore.get(versionId);
}

async function readTold(repository: Costed, record: SaveRecord): Promise<Told | undefined> {
  const opened = await readOpenedProvenance(repository, record.objects).catch(() => undefined);
  const training = opened && statedTraining(opened);
  const architecture = await architectureOf(repository, record);
  if (opened === undefined || training === undefined || architecture === undefined) return undefined;
  return { recipe: opened.provenance.recipe, size: trainingSize(architecture, training) };
}

function isSameRecipe(a: RecipeReference | undefined, b: RecipeReference): boolean {
  if (a === undefined) return false;
  return "bundle" in a
    ? "bundle" in b && a.bundle === b.bundle
    : "name" in b && a.name === b.name && a.version === b.version;
}
