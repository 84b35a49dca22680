/**
 * States that the stored data of a version's training need not be kept for it: a replay proved it, and its tensors
 * stay. What only it needed goes with the next collection. Decided under the lock that a collection also takes.
 */
import { StemmaError } from "../../../../shared/errors.js";
import { readManifest, usedDataOf } from "../../../../shared/data/stored-data.js";
import { readDistinctLeaves } from "../../../../shared/objects/version-trees.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { RepositoryContext } from "../context.js";
import { findDataObject } from "../datasets.js";
import type { VersionSummary } from "../answers/version-answers.js";
import type { StoredChunk, VersionWithData } from "../retention/data-drop-plan.js";
import type { VersionState } from "../state/version-state.js";
import { requireVersion } from "../state/version-table.js";
import { requireKept } from "./diff-versions.js";

/** A version with stored data, with what is shown of it. */
export interface DataDropCandidate extends VersionWithData {
  readonly state: VersionState;
}

export interface DataDropCandidates {
  /** Kept versions with stored data, in journal order, without those whose data were dropped. */
  readonly versions: readonly DataDropCandidate[];
  /** Chunks that registered data and replays of dropped versions need. */
  readonly needed: ReadonlySet<Hash>;
}

export async function dataDropCandidates(context: RepositoryContext): Promise<DataDropCandidates> {
  const { state } = context;
  const manifests = new Map<Hash, ManifestRead>();
  const read = async (id: Hash): Promise<ManifestRead> => {
    const known = manifests.get(id) ?? (await readStored(context, id));
    manifests.set(id, known);
    return known;
  };
  const needed = new Set<Hash>();
  const versions: DataDropCandidate[] = [];
  for (const version of state.versions.values()) {
    if (version.retired !== undefined) continue;
    const { dropped, versionId } = version;
    if (dropped?.data != null) for (const { id } of (await read(dropped.data)).chunks) needed.add(id);
    if (version.dataDropped !== undefined) continue;
    const used = context.records.get(versionId)?.uses?.data ?? [];
    const found = await Promise.all(used.map(read));
    const chunks = new Map(found.flatMap((each) => each.chunks.map((chunk) => [chunk.id, chunk] as const)));
    if (chunks.size === 0) continue;
    const contents = found.flatMap(({ content }) => content ?? []);
    const stays = whyDataStay(context, version, contents);
    versions.push({ state: version, versionId, chunks: [...chunks.values()], stays });
  }
  for (const { hash } of state.datasets.values()) {
    const object = hash === null ? undefined : state.dataObjects.get(hash);
    if (object !== undefined) for (const { id } of (await read(object)).chunks) needed.add(id);
  }
  return { versions, needed };
}

interface ManifestRead {
  /** Content hash; absent where it is not a manifest. */
  readonly content?: Hash;
  readonly chunks: readonly StoredChunk[];
}

/** The chunks to which a manifest leads, also where it names data by their content only. */
async function readStored(context: RepositoryContext, id: Hash): Promise<ManifestRead> {
  const { objects } = context;
  const manifest = await readManifest(objects, id);
  if (manifest === undefined) return { chunks: [] };
  const { content, kept } = manifest;
  const named = kept === "reference" ? (await findDataObject(context, content))?.manifest : manifest;
  const chunks = (named?.chunks ?? []).flatMap((chunk) => {
    const stored = objects.stat(chunk.id);
    return stored === undefined ? [] : { id: chunk.id, bytes: stored.byteLength };
  });
  return { content, chunks };
}

/** Returns why the data of a version stay; undefined if they may go. */
function whyDataStay(
  { state }: RepositoryContext,
  { dropped, replayed, provedBy, hold: held }: VersionState,
  contents: readonly Hash[],
): string | undefined {
  if (dropped !== undefined) return "its tensors were dropped, and a recovery trains it with them";
  const isProved =
    replayed?.verdict === "proved" &&
    replayed.grade === "bit-exact" &&
    provedBy?.has(replayed.engineId) === true;
  if (!isProved) return "no replay on this server has proved it";
  if (held !== undefined) return "it is held";
  const name = [...state.datasets.values()].find(
    ({ hash }) => hash !== null && contents.includes(hash),
  )?.name;
  return name === undefined ? undefined : `they are registered as ${name} (stemma data rm)`;
}

/**
 * Appends the fact `data-dropped`. Does nothing where it is there.
 * @throws MODEL_NOT_FOUND, MODEL_RETIRED, DROP_REFUSED; OBJECT_MISSING where its tensors are not all in the store
 */
export async function dropData(
  context: RepositoryContext,
  versionId: Hash,
  because: string,
): Promise<VersionSummary> {
  const { record, name, version } = requireKept(context, versionId);
  const { objects } = context;
  const leaves = await readDistinctLeaves(objects, record);
  const used = record.uses?.data ?? [];
  const data = await usedDataOf(objects, used);
  const contents: Hash[] = [];
  for (const id of used) contents.push(...[(await readManifest(objects, id))?.content ?? []].flat());
  await context.queue.submit({
    // A model that is not here as a whole gives up nothing.
    requiredObjects: [versionId, ...leaves.map(({ tensor }) => tensor)],
    // Decided alone, so that it sees every drop, hold and registration before it.
    isExclusive: true,
    decide: ({ state }) => {
      const now = state.versions.get(versionId);
      if (now === undefined || now.dataDropped !== undefined) return [];
      const why =
        whyDataStay(context, now, contents) ??
        (now.storedAtMs === undefined ? "it was not read back from the disk yet" : undefined);
      if (why !== undefined)
        throw new StemmaError(
          "DROP_REFUSED",
          `The data of the training of ${name}:${version} are not dropped: ${why}. They stay as they are.`,
          { versionId },
        );
      return [{ type: "data-dropped", critical: true, atMs: context.clock.now(), versionId, because }];
    },
    onApplied: (positions) => {
      if (positions.length === 0) return;
      context.references.dataDropped(versionId, { record, leaves, data });
      context.versionsChanged([versionId]);
    },
  });
  return requireVersion(context, versionId);
}
