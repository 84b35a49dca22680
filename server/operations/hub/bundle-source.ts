/** Gives the objects of a bundle: to who asks for it, as entries, or as the proof that they are here. */
import { linksOf, linksTo, listReferences } from "../../../shared/delta/links.js";
import type { CodedTensor } from "../../../shared/objects/object-store.js";
import { asyncIterableOf } from "../../../shared/tensor/async-iterable.js";
import { rawEncodingCode } from "../../../shared/objects/pack-entry.js";
import { StemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import {
  bundleKinds,
  type BegunEntry,
  type BundleKind,
  type BundleManifest,
} from "../../interface/api/models/bundle-schemas.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import {
  encodeHeader,
  entriesEnd,
  isSameEntry,
  maxDecodedBytes,
  maxWholeBytes,
  type EntryHeader,
} from "./bundle-entry.js";
import { describeBundle, type AskedBundle } from "./describe-bundle.js";
import { bytesOf } from "./stored-bytes.js";

/** A manifest, with the place of each of its objects. */
export interface DescribedBundle {
  readonly manifest: BundleManifest;
  readonly placeOf: ReadonlyMap<Hash, { readonly kind: BundleKind; readonly place: number }>;
}

/** Bundles of one fleet that are remembered: who got a manifest asks for its objects next. */
const maxRemembered = 4;
const remembered = new WeakMap<object, Map<string, Promise<DescribedBundle>>>();

/**
 * @param isFresh false where the manifest was asked for before: the fleet may have changed since
 * @throws as describeBundle
 */
export async function describedBundle(
  repository: FleetRepository,
  { models, depth, withData }: AskedBundle,
  isFresh: boolean,
): Promise<DescribedBundle> {
  const ids = models.map((model) => repository.resolve(model).versionId);
  const key = JSON.stringify([ids, depth, withData]);
  let bundles = remembered.get(repository.objects);
  if (bundles === undefined)
    remembered.set(repository.objects, (bundles = new Map<string, Promise<DescribedBundle>>()));
  const known = bundles.get(key);
  if (known !== undefined && !isFresh) return await known;
  const bundle = describeBundle(repository, { models: ids, depth, withData }).then(placed);
  bundles.delete(key);
  bundles.set(key, bundle);
  for (const oldest of [...bundles.keys()].slice(0, -maxRemembered)) bundles.delete(oldest);
  bundle.catch(() => bundles.delete(key));
  return await bundle;
}

function placed(manifest: BundleManifest): DescribedBundle {
  const placeOf = new Map<Hash, { readonly kind: BundleKind; readonly place: number }>();
  for (const kind of bundleKinds)
    for (const id of manifest.objects[kind] ?? []) placeOf.set(id, { kind, place: placeOf.size });
  return { manifest, placeOf };
}

/** The ids that belong to a bundle, in its order. @throws NOT_ALLOWED for another object of the store */
export function idsIn(
  repository: Pick<FleetRepository, "isRedacted">,
  { placeOf }: DescribedBundle,
  wanted: readonly Hash[] = [...placeOf.keys()],
): readonly Hash[] {
  // What was redacted since is not shown any more.
  const foreign = wanted.find((id) => !placeOf.has(id) || repository.isRedacted(id));
  if (foreign === undefined) return wanted;
  throw new StemmaError(
    "NOT_ALLOWED",
    `${foreign.slice(0, 12)} does not belong to these models, or not any more. Run the command again.`,
    { id: foreign },
  );
}

/**
 * Entries of these objects, and the end.
 * @param begun the object of which the receiver has the first bytes: where it still travels in that form, the rest goes
 */
export async function* entriesOf(
  { objects }: FleetRepository,
  bundle: DescribedBundle,
  { ids, begun }: { readonly ids: readonly Hash[]; readonly begun?: BegunEntry | undefined },
): AsyncGenerator<Uint8Array> {
  for (const id of ids) {
    const { kind } = bundle.placeOf.get(id) ?? {};
    if (kind === undefined) continue;
    const coded = kind === "tensor" ? await codedIn(objects, bundle, id) : undefined;
    if (coded !== undefined) {
      const { header, code, bytes } = coded;
      const entry = { id, kind, bytes: bytes.length, tensor: header, code, ...linksOf(coded) };
      yield* entryOf(entry, asyncIterableOf([bytes]), begun);
      continue;
    }
    const { byteLength, chunks } = await bytesOf(objects, id);
    const tensor = objects.stat(id)?.header;
    yield* entryOf({ id, kind, bytes: byteLength, ...(tensor && { tensor }) }, chunks, begun);
  }
  yield entriesEnd;
}

async function* entryOf(
  entry: EntryHeader,
  chunks: AsyncIterable<Uint8Array>,
  begun: BegunEntry | undefined,
): AsyncGenerator<Uint8Array> {
  const isBegun = begun !== undefined && isSameEntry(entry, { ...begun, ...linksTo(begun.references ?? []) });
  let left = isBegun ? begun.offset : 0;
  yield encodeHeader(left === 0 ? entry : { ...entry, offset: left });
  // Bytes that are not sent are read all the same: the object is compared with its id.
  for await (const chunk of chunks) {
    if (left < chunk.length) yield chunk.subarray(left);
    left = Math.max(0, left - chunk.length);
  }
}

/** A tensor as it is stored, where who gets it can decode it; undefined: send its bytes. */
async function codedIn(
  objects: FleetRepository["objects"],
  { placeOf }: DescribedBundle,
  id: Hash,
): Promise<CodedTensor | undefined> {
  const encoding = objects.encodingOf(id);
  const byteLength = objects.stat(id)?.byteLength ?? Infinity;
  if (encoding === undefined || encoding.code === rawEncodingCode) return undefined;
  if (encoding.storedBytes > maxWholeBytes || byteLength > maxDecodedBytes) return undefined;
  const coded = await objects.readCoded(id);
  const place = placeOf.get(id)?.place ?? 0;
  const isBefore = (other: Hash): boolean => (placeOf.get(other)?.place ?? Infinity) < place;
  return coded.code !== rawEncodingCode && listReferences(coded).every(isBefore) ? coded : undefined;
}
