/** Weighs drops: what the tensors of versions take in the store, and what their replays need instead. */
import { withClosure } from "../../../../shared/objects/chains.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { readDistinctLeaves } from "../../../../shared/objects/version-trees.js";
import type { Dropped } from "../answers/version-answers.js";
import { liveWithoutVersions } from "../collection.js";
import type { RepositoryContext } from "../context.js";
import { gainsOf, type DropGain, type DropWeight, type SizedObject } from "../retention/drop-gains.js";
import { neededByReplay } from "../state/references.js";

export type WeighedDrops = ReadonlyMap<Hash, Pick<Dropped, "engine" | "data">>;

/**
 * The gain of each of these drops, if all are made. Tensors that others are encoded against free nothing.
 * @throws COLLECTION_REFUSED where what other versions need cannot be determined
 */
export async function weighDrops(
  context: RepositoryContext,
  drops: WeighedDrops,
): Promise<ReadonlyMap<Hash, DropGain>> {
  if (drops.size === 0) return new Map();
  const { objects, records } = context;
  const links = (id: Hash): ReturnType<typeof objects.encodingOf> => objects.encodingOf(id);
  const freed = await objects.unneeded(await liveWithoutVersions(context, [...drops.keys()]));
  const sized = (ids: Iterable<Hash>): readonly SizedObject[] =>
    [...new Set(ids)].flatMap((id) => {
      const stored = freed.has(id) ? objects.stat(id) : undefined;
      return stored === undefined ? [] : { id, bytes: stored.storedBytes };
    });
  const weights: DropWeight[] = [];
  for (const [versionId, needs] of drops) {
    const record = records.get(versionId);
    if (record === undefined) continue;
    const tensors = (await readDistinctLeaves(objects, record)).map(({ tensor }) => tensor);
    const { engine, data, dataChunks } = await neededByReplay(objects, needs);
    const { provenance, openings } = record.objects;
    const story = [engine, data, provenance, openings].flatMap((id) => id ?? []);
    weights.push({
      versionId,
      frees: sized(withClosure(tensors, links)),
      keeps: sized([...story, ...dataChunks]),
    });
  }
  return gainsOf(weights);
}
