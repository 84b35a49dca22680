/**
 * States that the tensors of a version need not be stored, because a replay gives them again; and takes that back.
 * Everything is decided under the lock that a collection also takes: the proof, what the replay needs, the bound.
 */
import { StemmaError } from "../../../../shared/errors.js";
import { usedDataOf } from "../../../../shared/data/stored-data.js";
import { objectsOf, treesOf } from "../../../../shared/model/record-objects.js";
import { readDistinctLeaves } from "../../../../shared/objects/version-trees.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { RepositoryContext } from "../context.js";
import type { Dropped, VersionSummary } from "../answers/version-answers.js";
import { planDrops, type DroppableVersion } from "../retention/drop-plan.js";
import { keptForAnyRule } from "../retention/plan-versions.js";
import { neededByReplay, type ReadVersion } from "../state/references.js";
import type { VersionState } from "../state/version-state.js";
import { requireVersion } from "../state/version-table.js";
import { requireKept } from "./diff-versions.js";

/** A version in a plan of drops, with what is shown of it. */
export interface DropCandidate extends DroppableVersion {
  readonly state: VersionState;
}

export interface DropBound {
  /** Milliseconds of training that the recovery of any version may take. */
  readonly maxMs: number;
  /** Versions that running work needs. */
  readonly busy?: (() => ReadonlyMap<Hash, string>) | undefined;
}

export interface DropRequest
  extends Pick<Dropped, "base" | "engine" | "engineId" | "data" | "replayMs" | "because">, DropBound {
  readonly versionId: Hash;
}

/** All kept versions, in journal order, as a plan of drops sees them. Reads nothing but the state. */
export function dropCandidates(
  context: RepositoryContext,
  busy?: () => ReadonlyMap<Hash, string>,
): readonly DropCandidate[] {
  const kept = keptForAnyRule(context, busy);
  return [...context.state.versions.values()]
    .filter(({ retired }) => retired === undefined)
    .map((state) => {
      const { versionId, dropped } = state;
      return {
        state,
        versionId,
        base: dropped === undefined ? (context.records.get(versionId)?.bases[0] ?? null) : dropped.base,
        isDropped: dropped !== undefined,
        replayMs: dropped?.replayMs ?? measuredProof(state),
        stays: kept.get(versionId) ?? unfitFor(context, state),
      };
    });
}

/** Milliseconds of the training that proved it here, with data that stay; undefined where none did. */
function measuredProof({ replayed, provedBy }: VersionState): number | undefined {
  const isProof =
    replayed?.verdict === "proved" &&
    replayed.grade === "bit-exact" &&
    provedBy?.has(replayed.engineId) === true &&
    (replayed.dataFrom === "stored" || replayed.dataFrom === "generator");
  return isProof ? replayed.workMs : undefined;
}

/** Returns why no replay can stand for its tensors, by its record alone. */
function unfitFor(
  { records, state }: RepositoryContext,
  { versionId, replayed, dataDropped }: VersionState,
): string | undefined {
  const record = records.get(versionId);
  if (record === undefined) return "its record cannot be read";
  if (record.objects.provenance === undefined) return "it was not trained by Stemma";
  if (record.kind !== "architecture" || record.scheme !== undefined) return "it is not an exact network";
  if (treesOf(record).length > 1) return "it has checkpoints or an optimizer's state, which no replay gives";
  if (record.bases.length > 1) return "it was made from several bases, and a recovery goes back along one";
  if (record.uses?.recipe !== undefined)
    return "a recipe of the fleet's own trained it, and nothing could replay it once its approval is revoked";
  if (dataDropped !== undefined) return "the data of its training were dropped, so no replay gives it";
  const { openings } = record.objects;
  if (openings !== undefined && state.redacted.has(openings)) return "its story was redacted";
  return replayed?.verdict === "refuted" ? "its latest replay refuted its story" : undefined;
}

/**
 * Appends the fact `dropped`. The tensors go with the next collection, where no other version has them.
 * @throws MODEL_NOT_FOUND, MODEL_RETIRED, DROP_REFUSED, REFERENCE_MISSING where something that the replay needs is
 * not here
 */
export async function dropTensors(context: RepositoryContext, request: DropRequest): Promise<VersionSummary> {
  const { versionId, maxMs, busy, ...needs } = request;
  const { record } = requireKept(context, versionId);
  const before = await readVersion(context, versionId);
  const dropped = await neededByReplay(context.objects, needs);
  const named = objectsOf(record).filter(({ presence }) => presence !== "approved");
  await context.queue.submit({
    requiredObjects: [
      versionId,
      ...named.map(({ id }) => id),
      ...before.data.chunks,
      needs.engine,
      ...(needs.data === null ? [] : [needs.data, ...dropped.dataChunks]),
    ],
    // Decided alone, so that it sees every assignment, hold and retirement before it.
    isExclusive: true,
    decide: ({ state }) => {
      const version = state.versions.get(versionId);
      if (version?.dropped !== undefined) return [];
      refuseChanged(context, request);
      const { keep } = planDrops(
        dropCandidates(context, busy),
        (each) => each.versionId === versionId,
        maxMs,
      );
      const [kept] = keep;
      if (kept !== undefined) throw refused(context, versionId, kept.because);
      return [{ type: "dropped", critical: true, atMs: context.clock.now(), versionId, ...needs }];
    },
    onApplied: (positions) => {
      if (positions.length === 0) return;
      context.references.tensorsDropped(versionId, before, dropped);
      context.versionsChanged([versionId]);
    },
  });
  return requireVersion(context, versionId);
}

/** Refuses the drop unless what the caller found is still so. @throws DROP_REFUSED */
function refuseChanged(
  context: RepositoryContext,
  { versionId, base, engine, engineId, replayMs }: DropRequest,
): void {
  const version = context.state.versions.get(versionId);
  if (
    version === undefined ||
    measuredProof(version) !== replayMs ||
    version.provedBy?.has(engineId) !== true
  )
    throw refused(context, versionId, "its proof changed meanwhile");
  if (version.storedAtMs === undefined)
    throw refused(context, versionId, "it was not read back from the disk yet");
  const approved = context.state.engines.get(engine);
  if (approved?.engineId !== engineId)
    throw refused(context, versionId, `its engine ${engine.slice(0, 12)} is not approved here any more`);
  if ((context.records.get(versionId)?.bases[0] ?? null) !== base)
    throw refused(context, versionId, "it was trained from another version");
}

function refused(context: RepositoryContext, versionId: Hash, because: string): StemmaError {
  const { name, version } = requireVersion(context, versionId);
  return new StemmaError(
    "DROP_REFUSED",
    `The tensors of ${name}:${version} are not dropped: ${because}. They stay as they are.`,
    { versionId },
  );
}

/**
 * Appends the fact `kept`: the tensors, which are in the store, stay there, also where what stood for them is damaged.
 * Does nothing where they were not dropped.
 * @throws MODEL_NOT_FOUND, MODEL_RETIRED, REFERENCE_MISSING
 */
export async function keepTensors(
  context: RepositoryContext,
  versionId: Hash,
  because: string,
): Promise<VersionSummary> {
  const version = requireKept(context, versionId);
  if (version.dropped === undefined) return version;
  const leaves = await readDistinctLeaves(context.objects, version.record);
  await context.queue.submit({
    requiredObjects: leaves.map(({ tensor }) => tensor),
    isExclusive: true,
    decide: ({ state }) =>
      state.versions.get(versionId)?.dropped === undefined
        ? []
        : [{ type: "kept", atMs: context.clock.now(), versionId, because }],
    onApplied: (positions) => {
      if (positions.length === 0) return;
      context.references.tensorsKept(versionId, leaves);
      context.versionsChanged([versionId]);
    },
  });
  return requireVersion(context, versionId);
}

async function readVersion({ objects, records }: RepositoryContext, versionId: Hash): Promise<ReadVersion> {
  const record = records.get(versionId);
  if (record === undefined)
    throw new StemmaError("OBJECT_MISSING", `The save record ${versionId} is not in the store.`, {
      id: versionId,
    });
  return {
    record,
    leaves: await readDistinctLeaves(objects, record),
    data: await usedDataOf(objects, record.uses?.data),
  };
}
