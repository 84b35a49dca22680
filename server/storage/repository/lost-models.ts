/**
 * Names the versions that cannot be recovered any more because objects are damaged or missing. Of a version with
 * tensors these count, of a dropped one what its replay needs, and of both what a recovery reads of the record. A
 * dropped version is lost, too, with the one that it was trained from.
 */
import type { SaveRecord } from "../../../shared/model/model.js";
import { isStemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { CheckReport } from "./answers/store-answers.js";
import type { Dropped } from "./answers/version-answers.js";
import type { RepositoryContext } from "./context.js";
import { keptVersions, neededByReplay, readLeaves } from "./state/references.js";

type LostContext = Pick<RepositoryContext, "objects" | "records" | "state">;
export type Unrecoverable = NonNullable<CheckReport["unrecoverable"]>[number];

/** @param damaged ids of objects that are damaged or missing → the kind of each */
export async function findUnrecoverable(
  context: LostContext,
  damaged: ReadonlyMap<string, string>,
): Promise<readonly Unrecoverable[]> {
  if (damaged.size === 0) return [];
  const { state } = context;
  const kept = keptVersions(state);
  /** Lost version → the damaged objects that it needs. */
  const lost = new Map<Hash, ReadonlySet<string>>();
  // In journal order: what a version was trained from comes before it.
  for (const versionId of state.versions.keys()) {
    if (!kept.has(versionId)) continue;
    const missing = await missingFor(context, versionId, { damaged, lost });
    if (missing.size > 0) lost.set(versionId, missing);
  }
  return [...damaged].flatMap(([id, kind]) => {
    const versions = [...state.versions.values()].flatMap(({ versionId, name, version, dropped }) =>
      lost.get(versionId)?.has(id) === true
        ? { versionId, name, version, isDropped: dropped !== undefined }
        : [],
    );
    return versions.length === 0 ? [] : [{ id, kind, versions }];
  });
}

interface KnownDamage {
  readonly damaged: ReadonlyMap<string, string>;
  readonly lost: ReadonlyMap<Hash, ReadonlySet<string>>;
}

/** The damaged objects without any of which a version cannot be recovered. */
async function missingFor(
  { objects, records, state }: LostContext,
  versionId: Hash,
  { damaged, lost }: KnownDamage,
): Promise<ReadonlySet<string>> {
  const isDamaged = (id: string): boolean => damaged.has(id);
  const record = records.get(versionId);
  if (record === undefined || isDamaged(versionId)) return new Set([versionId]);
  const missing = new Set<string>(readByRecovery(record).filter(isDamaged));
  if (missing.has(record.objects.tree)) return missing;
  const tensors = (await readLeaves(objects, record)).map(({ tensor }) => tensor);
  const damagedTensors = tensors.filter(isDamaged);
  const { dropped } = state.versions.get(versionId) ?? {};
  if (dropped === undefined) return new Set([...missing, ...damagedTensors]);
  // Until they are collected, a recovery reads them.
  if (damagedTensors.length === 0 && tensors.every((id) => objects.has(id))) return missing;
  for (const id of [...readByReplay(record), ...(await pinnedBy(objects, dropped))])
    if (isDamaged(id)) missing.add(id);
  if (dropped.base !== null)
    for (const id of lost.get(dropped.base) ?? (isDamaged(dropped.base) ? [dropped.base] : []))
      missing.add(id);
  return missing;
}

/** The objects of a record that every recovery reads. */
function readByRecovery({ objects }: SaveRecord): readonly Hash[] {
  const { tree, ownerMap, names, environment, architecture } = objects;
  return [tree, ownerMap, names, environment, ...(architecture === undefined ? [] : [architecture])];
}

/** The objects of a record that only a replay reads. */
function readByReplay({ objects: { provenance, openings }, uses }: SaveRecord): readonly Hash[] {
  return [provenance, openings, uses?.recipe].flatMap((id) => id ?? []);
}

/** The objects that the fact `dropped` pins, with the chunks as far as their list can be read. */
async function pinnedBy(objects: LostContext["objects"], dropped: Dropped): Promise<readonly Hash[]> {
  const { engine, data } = dropped;
  try {
    const { dataChunks } = await neededByReplay(objects, dropped);
    return [engine, ...(data === null ? [] : [data]), ...dataChunks];
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    return [engine, ...(data === null ? [] : [data])];
  }
}
