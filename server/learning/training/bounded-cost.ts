/** Predicts what a training costs here, by its model and by earlier trainings, and limits it. */
import { isStemmaError } from "../../../shared/errors.js";
import { decodeArchitecture } from "../../../shared/model/architecture.js";
import type { Architecture, SaveRecord } from "../../../shared/model/model.js";
import { decodeMetadata } from "../../../shared/model/metadata.js";
import type { OpenedProvenance } from "../../../shared/provenance/openings.js";
import type { RecipeReference } from "../../../shared/provenance/provenance.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { trainingSize, type TrainingSize } from "../../../shared/train/training-size.js";
import { readOpenedProvenance } from "../../services/context/opened-provenance.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import {
  defaultTrainingLimits,
  memoryLimitMb,
  type TrainingLimits,
} from "../../services/context/training-limits.js";
import { storyOfKey } from "../../services/data/kept-story.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { ownDevice } from "../../storage/repository/state/naming.js";
import {
  costOfSize,
  predictCost,
  refuseTooCostly,
  statedMs,
  statedTraining,
  type CostLimits,
  type MeasuredRun,
  type PredictedCost,
} from "./training-cost.js";

/** Measured trainings that a prediction looks at, and versions whose records are read for them. */
const maxRuns = 5;
const maxRead = 64;

type Costed = Pick<FleetRepository, "objects" | "isRedacted" | "select">;

/** @param maxMinutes what the request allows; absent: the owner's limit */
export async function costLimits(
  { trainingLimits }: Pick<OperationsContext, "trainingLimits">,
  maxMinutes?: number,
): Promise<CostLimits> {
  return costLimitsOf((await trainingLimits?.()) ?? defaultTrainingLimits, maxMinutes);
}

/** @param maxMinutes as of `costLimits`; the owner's limits bound it */
export function costLimitsOf(limits: TrainingLimits, maxMinutes = limits.maxMinutes): CostLimits {
  const mostMinutes = Math.max(limits.maxMinutes, limits.requestMinutes);
  return {
    maxMinutes: Math.min(maxMinutes, mostMinutes),
    mostMinutes,
    memoryLimitMb: memoryLimitMb(limits),
  };
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
  const { recipe } = opened.provenance;
  // The record alone tells how long a program of the user's own takes.
  if (recipe === undefined) return predictCost(opened, { changed });
  const known = architecture === undefined ? await architectureOf(repository, record) : decoded(architecture);
  const measured = await measuredRuns(repository, recipe);
  return predictCost(opened, { architecture: known, changed, measured });
}

/** Predicts the cost of a training that is about to begin: nothing is recorded of it. */
export async function plannedCost(
  repository: Costed,
  recipe: RecipeReference,
  size: TrainingSize,
): Promise<PredictedCost> {
  return costOfSize(size, { measured: await measuredRuns(repository, recipe) });
}

/**
 * Limits for a replay that may be queued, or run.
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

/**
 * The latest trainings by a recipe that ran on this server, as far as the newest versions tell: replays that proved a
 * version, and those whose version this server trained. What a device or an imported file states is not among them.
 */
async function measuredRuns(repository: Costed, recipe: RecipeReference): Promise<readonly MeasuredRun[]> {
  const runs: MeasuredRun[] = [];
  for (const { record, replayed, versionId } of newestThatRanHere(repository)) {
    if (runs.length === maxRuns) break;
    const told = await toldOf(repository, versionId, record);
    if (told === undefined || !isSameRecipe(told.recipe, recipe)) continue;
    const workMs = provedMs(replayed) ?? told.ranMs;
    if (workMs !== undefined) runs.push({ workMs, size: told.size });
  }
  return runs;
}

/** The newest versions first, at most `maxRead` of them. */
function newestThatRanHere(repository: Costed): readonly VersionSummary[] {
  const found = new Map<Hash, VersionSummary>();
  for (const selection of [{ device: ownDevice }, "replayed"] as const) {
    let read = 0;
    for (const version of repository.select(selection, { reverse: true })) {
      if (version.state === "retired") continue;
      if (selection === "replayed" && provedMs(version.replayed) === undefined) continue;
      found.set(version.versionId, version);
      if (++read === maxRead) break;
    }
  }
  return [...found.values()].sort((a, b) => b.position - a.position).slice(0, maxRead);
}

function provedMs(replayed: VersionSummary["replayed"]): number | undefined {
  return replayed?.verdict === "proved" ? replayed.workMs : undefined;
}

interface StatedCost {
  readonly recipe: RecipeReference | undefined;
  /** Milliseconds that its training took on this server; undefined where it ran elsewhere. */
  readonly ranMs: number | undefined;
  readonly size: MeasuredRun["size"];
}

/** The statements of records that were read before; they do not change, but may be redacted. */
const toldByStore = new WeakMap<FleetRepository["objects"], Map<Hash, StatedCost | undefined>>();

async function toldOf(
  repository: Costed,
  versionId: Hash,
  record: SaveRecord,
): Promise<StatedCost | undefined> {
  const ofStore = toldByStore.get(repository.objects) ?? new Map<Hash, StatedCost | undefined>();
  toldByStore.set(repository.objects, ofStore);
  if (!ofStore.has(versionId)) ofStore.set(versionId, await readTold(repository, record));
  return ofStore.get(versionId);
}

async function readTold(repository: Costed, record: SaveRecord): Promise<StatedCost | undefined> {
  const opened = await readOpenedProvenance(repository, record.objects).catch(() => undefined);
  const training = opened && statedTraining(opened);
  const architecture = await architectureOf(repository, record);
  if (opened === undefined || training === undefined || architecture === undefined) return undefined;
  const ranHere = record.device === ownDevice && !(await isImported(repository, record));
  return {
    recipe: opened.provenance.recipe,
    ranMs: ranHere ? statedMs(opened) : undefined,
    size: trainingSize(architecture, training),
  };
}

/** True if a version came in a file, whose story states what it likes. */
async function isImported(
  { objects }: Pick<FleetRepository, "objects">,
  { objects: { metadata } }: SaveRecord,
): Promise<boolean> {
  return metadata !== undefined && storyOfKey in decodeMetadata(await objects.read("metadata", metadata));
}

function isSameRecipe(a: RecipeReference | undefined, b: RecipeReference): boolean {
  if (a === undefined) return false;
  return "bundle" in a
    ? "bundle" in b && a.bundle === b.bundle
    : "name" in b && a.name === b.name && a.version === b.version;
}
