/**
 * The owner's signed releases as a fleet keeps them: one object with all metadata and manifests, which the newest fact
 * `published` names. What is published is checked as a device checks it, so that devices are not sent what they refuse.
 */
import * as z from "zod";
import { StemmaError } from "../../../shared/errors.js";
import { objectId } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { describeChange, metadataSetOf } from "../../../shared/trust/releases/change-file.js";
import {
  isRecipeManifest,
  requireManifestOf,
  verifyAnyManifest,
  type AnyManifest,
} from "../../../shared/trust/releases/manifest.js";
import {
  publishedOfSet,
  type PublishedReleases,
  type ReleaseChange,
} from "../../../shared/trust/releases/release-change.js";
import { metadataInvalid } from "../../../shared/trust/releases/release-errors.js";
import {
  pinnedRoot,
  updateReleases,
  type MetadataSet,
  type TrustedReleases,
} from "../../../shared/trust/releases/trusted-releases.js";
import type { RepositoryContext } from "./context.js";
import { recipeOfReleaseUnknown, releasesTooLarge, versionOfReleaseUnknown } from "./repository-errors.js";

/** Long enough for a fact to be written. */
const leaseMs = 10 * 60_000;
const maxReleasesBytes = 16 * 1024 * 1024;
const maxBecause = 1000;

const storedSchema = z.strictObject({
  roots: z.array(z.string()).min(1),
  timestamp: z.string(),
  snapshot: z.string(),
  targets: z.string(),
  manifests: z.record(z.string(), z.string()),
});

export interface StoredReleases {
  readonly object: Hash;
  /** `roots`: all that were ever published, from version 1. */
  readonly set: MetadataSet;
  /** Texts of the manifests, by release. */
  readonly manifests: Readonly<Record<string, string>>;
  /** The same metadata, parsed. */
  readonly published: PublishedReleases;
}

/** The releases that were read last, per fleet: each device that connects asks for them. */
const read = new WeakMap<RepositoryContext["objects"], StoredReleases>();

/** @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH, RELEASE_METADATA_INVALID */
export async function readReleases({
  objects,
  state,
}: Pick<RepositoryContext, "objects" | "state">): Promise<StoredReleases | undefined> {
  const object = state.releases;
  if (object === undefined) return undefined;
  const known = read.get(objects);
  if (known?.object === object) return known;
  const stored = decodeStored(object, await objects.read("release", object));
  read.set(objects, stored);
  return stored;
}

function decodeStored(object: Hash, bytes: Uint8Array): StoredReleases {
  const parsed = storedSchema.safeParse(JSON.parse(Buffer.from(bytes).toString("utf8")));
  if (!parsed.success) throw metadataInvalid("what this fleet stored of them is malformed", parsed.error);
  const { manifests, ...set } = parsed.data;
  return { object, set, manifests, published: publishedOfSet(set) };
}

/** See FleetRepository.publishReleases. */
export async function publishReleases(
  context: RepositoryContext,
  change: ReleaseChange,
): Promise<StoredReleases> {
  const before = await readReleases(context);
  const stored = checkedRelease(context, before, change);
  const { objects, clock } = context;
  const bytes = Buffer.from(JSON.stringify({ ...stored.set, manifests: stored.manifests }), "utf8");
  if (bytes.length > maxReleasesBytes) throw releasesTooLarge(bytes.length, maxReleasesBytes);
  const object = objectId("release", bytes);
  const lease = objects.lease([object], leaseMs);
  try {
    const pack = await objects.begin();
    try {
      await pack.put("release", bytes);
      await pack.commit();
    } catch (error) {
      await pack.abort();
      throw error;
    }
    const { root, targets, timestamp } = stored.published;
    await context.queue.submit({
      requiredObjects: [object],
      isExclusive: true,
      decide: ({ state }) => {
        if (state.releases !== before?.object)
          throw new StemmaError(
            "PLAN_STALE",
            "Somebody published releases meanwhile. Make the change again from what is published now, and sign it.",
          );
        return [
          {
            type: "published",
            atMs: clock.now(),
            critical: true,
            object,
            root: root.signed.version,
            targets: targets.signed.version,
            timestamp: timestamp.signed.version,
            because: describeChange(change).join("; ").slice(0, maxBecause),
          },
        ];
      },
    });
  } finally {
    objects.release(lease.id);
  }
  return { ...stored, object };
}

/** The releases after a change, where a device that knows those before would take them. */
function checkedRelease(
  context: RepositoryContext,
  before: StoredReleases | undefined,
  change: ReleaseChange,
): Omit<StoredReleases, "object"> {
  if (change.fleet !== context.fleet)
    throw metadataInvalid(`they are of the fleet ${change.fleet}, and this is ${context.fleet}`);
  const set = metadataSetOf(before?.set.roots ?? [], change);
  const first = set.roots[0];
  if (first === undefined) throw metadataInvalid("no root was published, and the change has none");
  const trusted: TrustedReleases = before?.published ?? pinnedRoot(first);
  const { error } = updateReleases(trusted, { ...set, roots: set.roots.slice(-1) }, context.clock.now());
  if (error !== undefined) throw error;
  const published = publishedOfSet(set);
  const manifests: Record<string, string> = {};
  for (const name of Object.keys(published.targets.signed.targets)) {
    const text = change.manifests[name] ?? before?.manifests[name];
    if (text === undefined)
      throw new StemmaError(
        "RELEASE_MISMATCH",
        `The change names the release ${name} and does not bring its manifest. Create the change again.`,
        { name },
      );
    const manifest = verifyAnyManifest(published.targets.signed, name, Buffer.from(text, "utf8"));
    if (change.manifests[name] !== undefined) requireSubject(context, name, manifest);
    manifests[name] = text;
  }
  return { set, manifests, published };
}

/** Requires that what is released is here. @throws MODEL_NOT_FOUND, RECIPE_NOT_APPROVED, RELEASE_MISMATCH */
function requireSubject({ records, state }: RepositoryContext, name: string, manifest: AnyManifest): void {
  if (isRecipeManifest(manifest)) {
    const known = state.recipes.get(manifest.recipe);
    if (known !== undefined && known.revoked === undefined) return;
    throw recipeOfReleaseUnknown(name, manifest.recipe);
  }
  const record = records.get(manifest.versionId);
  if (record === undefined || !state.versions.has(manifest.versionId))
    throw versionOfReleaseUnknown(name, manifest.versionId);
  requireManifestOf(manifest, name, { versionId: manifest.versionId, record });
}
