/**
 * Explains from what a version would be recovered, how long that takes, and whether it could be trained again instead.
 */
import { usedDataOf } from "../../../shared/data/stored-data.js";
import { isStemmaError } from "../../../shared/errors.js";
import { decodeOwnerMap, ownerOf } from "../../../shared/model/owner-map.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { ownEngine } from "../../../shared/train/own-engine.js";
import { recoveryCost } from "../../storage/archive/recovery-cost.js";
import type { RecoveryExplanation } from "../../interface/api/models/recovery-schemas.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import { readOpenedProvenance } from "../../services/context/opened-provenance.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { findBase } from "../../services/data/find-base.js";
import { readKeptStory } from "../../services/data/kept-story.js";
import { predictedCost } from "../../learning/training/bounded-cost.js";
import { storyOf, type Story } from "../../learning/replay/story.js";
import type { Dropped, VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { archiveOf } from "../stores/archive-operations.js";

/** Names of missing tensors in an answer. */
const maxNamed = 20;

/** @throws MODEL_NOT_FOUND, MODEL_RETIRED */
export async function explainRecovery(
  { home, fleets }: OperationsContext,
  { fleet, model }: OperationInput<"explainRecovery">,
): Promise<RecoveryExplanation> {
  const repository = await fleets.get(fleet);
  const summary = repository.resolve(model);
  const { versionId, name, version, record } = summary;
  const leaves = await repository.leaves(versionId);
  const rates = await (await archiveOf(home)).rates();
  const trainings = await trainingsFor(repository, summary);
  const from = trainings[0]?.dropped.base;
  const isReplayed = trainings.length > 0;
  // A replay begins with the recovery of the nearest ancestor that has its tensors.
  const read = !isReplayed ? leaves : from == null ? [] : await repository.leaves(from);
  const { missing, ...cost } = recoveryCost(repository.objects, read, rates);
  const owners = decodeOwnerMap(
    await repository.objects.read("owner-map", record.objects.ownerMap),
    leaves.length,
  );
  return {
    versionId,
    name,
    version,
    from: missing.length > 0 ? "nothing" : isReplayed ? "replay" : cost.coded === 0 ? "snapshot" : "chain",
    ...cost,
    predictedMs: cost.predictedMs + trainings.reduce((sum, { dropped }) => sum + dropped.replayMs, 0),
    trainings: trainings.map(({ versionId: id, name: of, version: number, dropped }) => ({
      versionId: id,
      name: of,
      version: number,
      engineId: dropped.engineId,
      ms: dropped.replayMs,
    })),
    byteLength: summary.tensorBytes,
    missing: missing.slice(0, maxNamed),
    owners: new Set(leaves.map((_, leaf) => ownerOf(owners, leaf, versionId))).size,
    replay: await replayOf(repository, summary),
  };
}

type DroppedVersion = VersionSummary & { readonly dropped: Dropped };

/** The version and its ancestors, as far as their tensors were dropped and are not here, oldest first. */
async function trainingsFor(
  repository: FleetRepository,
  summary: VersionSummary,
): Promise<readonly DroppedVersion[]> {
  const found: DroppedVersion[] = [];
  for (let at: VersionSummary | undefined = summary; at?.dropped !== undefined;) {
    const dropped: Dropped = at.dropped;
    const leaves = await repository.leaves(at.versionId);
    if (leaves.every(({ tensor }) => repository.objects.has(tensor))) break;
    found.unshift({ ...at, dropped });
    at = dropped.base === null ? undefined : repository.get(dropped.base);
  }
  return found;
}

async function replayOf(
  repository: FleetRepository,
  summary: VersionSummary,
): Promise<RecoveryExplanation["replay"]> {
  const verdict = summary.replayed?.verdict ?? null;
  const no = (because: string, ms: number | null = null): RecoveryExplanation["replay"] => ({
    isPossible: false,
    because,
    predictedMs: ms,
    verdict,
  });
  let opened;
  try {
    opened = await readOpenedProvenance(repository, summary.record.objects);
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    return no(error.message);
  }
  const read = storyOf(opened);
  if ("unreplayable" in read) return no(read.unreplayable.text);
  const { opened: told } = read;
  const ms = (await predictedCost(repository, { opened: told, record: summary.record })).ms ?? null;
  const lacking = await lackingPart(repository, summary, read.story);
  return lacking === undefined
    ? { isPossible: true, because: "", predictedMs: ms, verdict }
    : no(lacking, ms);
}

/** The engine, the data or the base, where that is not here. */
async function lackingPart(
  repository: FleetRepository,
  { record, provedBy = [], dataDropped }: VersionSummary,
  { engineId, base }: Story,
): Promise<string | undefined> {
  const own = (await ownEngine().catch(() => undefined))?.engineId;
  const here = new Set([
    own,
    ...repository.engines().flatMap((each) => (each.isStored ? each.engineId : [])),
  ]);
  if (![engineId, ...provedBy].some((id) => here.has(id)))
    return `the engine ${engineId.slice(0, 12)} is not approved here`;
  if (dataDropped !== undefined && !(await areDataHere(repository, record.uses?.data)))
    return `the stored data of its training were dropped (${dataDropped.because})`;
  if (base === undefined) return undefined;
  const kept = await readKeptStory(repository, record);
  return (await findBase(repository, base, kept?.bases.get(base))) === undefined
    ? `its base ${base.slice(0, 12)} is not here`
    : undefined;
}

/** True if the chunks of the data are all here: other versions may need them too. */
async function areDataHere(
  { objects }: Pick<FleetRepository, "objects">,
  data: readonly Hash[] = [],
): Promise<boolean> {
  const { chunks } = await usedDataOf(objects, data);
  return chunks.length > 0 && chunks.every((id) => objects.has(id));
}
