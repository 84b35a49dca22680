/**
 * The part of a fleet's check that reads stored objects and compares them with their hashes: all of them, or a sample.
 * It goes from pack to pack and keeps no list of objects. Nothing may merge or remove packs meanwhile.
 */
import { inSteps } from "../../../shared/concurrency/in-steps.js";
import { isStemmaError, type StemmaError } from "../../../shared/errors.js";
import type { StoredObject } from "../../../shared/objects/object-store.js";
import type { PackStore } from "../../../shared/objects/pack-store.js";
import type { Random } from "../../../shared/ports.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { CheckReport } from "./answers/store-answers.js";
import type { RepositoryContext } from "./context.js";
import type { NotLookedAt } from "./tiers/tier-port.js";

/** Called with an object's kind and id, and why it cannot be read. */
type OnDamaged = (kind: string, id: Hash, error: unknown) => void;

/**
 * @param sample the number of objects to read, each equally likely; undefined: all
 * @param reported objects whose damage is known, which are not read
 */
export async function checkObjects(
  { objects, random }: Pick<RepositoryContext, "objects" | "random">,
  sample: number | undefined,
  reported: ReadonlySet<Hash>,
  onDamaged: OnDamaged,
): Promise<Pick<CheckReport, "objects" | "bytes"> & { readonly notLookedAt: readonly NotLookedAt[] }> {
  const found = { objects: 0, bytes: 0 };
  const absent = new Map<string, NotLookedAt>();
  for await (const { id, kind, byteLength } of chosenObjects(objects, random, sample)) {
    found.objects++;
    if (reported.has(id)) continue;
    try {
      if (kind !== "tensor") for await (const chunk of objects.openStream(kind, id).chunks()) void chunk;
      else for await (const chunk of objects.openTensor(id, { fromDisk: true }).chunks()) void chunk;
      found.bytes += byteLength;
    } catch (error) {
      const damage = isStemmaError(error, "TIER_UNREACHABLE") ? await damageInPack(objects, id) : error;
      if (damage !== undefined) onDamaged(kind, id, damage);
      else countAbsent(absent, error as StemmaError);
    }
  }
  const notLookedAt = [...absent.values()];
  const skipped = notLookedAt.reduce((sum, { objects: count }) => sum + count, 0);
  return { ...found, objects: found.objects - skipped, notLookedAt };
}

async function* chosenObjects(
  objects: PackStore,
  random: Random,
  sample: number | undefined,
): AsyncGenerator<StoredObject, void, undefined> {
  const { unreadable, count } = await lookAtAll(objects);
  const places = sample === undefined ? undefined : drawPlaces(random, count, sample);
  let place = 0;
  for await (const object of inSteps(objects.list()))
    if (!unreadable.has(object.id) && (places?.has(place++) ?? true)) yield object;
}

/**
 * Unreadable objects that no version needs are removed by the next collection, so they are not checked. Damaged objects
 * are checked, because they prevent collections. One that becomes unreadable during the check is checked, too.
 */
async function lookAtAll(
  objects: PackStore,
): Promise<{ readonly unreadable: ReadonlySet<Hash>; readonly count: number }> {
  const damaged = new Set(objects.problems().map(({ id }) => id));
  const unreadable = new Set<Hash>();
  let count = 0;
  for await (const { id } of inSteps(objects.list()))
    if (objects.has(id) || damaged.has(id)) count++;
    else unreadable.add(id);
  return { unreadable, count };
}

/** Draws `sample` of the numbers below `count`, each set of them equally likely (Floyd); undefined: all of them. */
function drawPlaces(random: Random, count: number, sample: number): ReadonlySet<number> | undefined {
  if (sample >= count) return undefined;
  const places = new Set<number>();
  for (let most = count - sample; most < count; most++) {
    const drawn = Buffer.from(random.bytes(6)).readUIntBE(0, 6) % (most + 1);
    places.add(places.has(drawn) ? most : drawn);
  }
  return places;
}

/** Compares what a pack has of a tensor whose low-order bytes cannot be reached now. */
async function damageInPack({ lowBytes }: Pick<PackStore, "lowBytes">, id: Hash): Promise<unknown> {
  try {
    await lowBytes.verifyInPack(id);
    return undefined;
  } catch (error) {
    return error;
  }
}

function countAbsent(absent: Map<string, NotLookedAt>, { details, message }: StemmaError): void {
  const tier = String(details["tier"]);
  absent.set(tier, { tier, objects: (absent.get(tier)?.objects ?? 0) + 1, message });
}
