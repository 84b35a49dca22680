/**
 * Defines the manifest of a release, which the fleet's owner signs by its length and hash. It is a target of
 * TUF, and states the model version, and what a person or a tool wants to know of it without the model. Of
 * the training's provenance and of the input pipeline only the hashes are in it. A recipe of the fleet's own
 * is released in the same way. Pure.
 */
import * as z from "zod";
import { defined } from "../../defined.js";
import { decodeCanonical, encodeCanonical } from "../../model/canonical-json.js";
import type { SaveRecord } from "../../model/model.js";
import { isHash, sha256 } from "../../tensor/hash.js";
import type { Hash } from "../../tensor/tensor.js";
import type { Targets } from "./metadata.js";
import { manifestMismatch, noRelease } from "./release-errors.js";

/** Longest manifest, in bytes: it travels inside an offer. */
export const maxManifestBytes = 16 * 1024;

const hash = z.custom<Hash>(isHash, "is not a hash");
const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
/** Files about a version as they were when it was released, by their SHA-256, and the sections of the first. */
const documentsSchema = z.object({ card: hash, sections: z.record(z.string(), hash), bill: hash });
export type ReleaseDocuments = z.infer<typeof documentsSchema>;

const manifestSchema = z.object({
  kind: z.literal("stemma-release-manifest"),
  format: z.literal(1),
  fleet: z.string(),
  name: z.string(),
  line: z.string(),
  versionId: hash,
  contentId: hash,
  /** The hash of the architecture's canonical form, and of the Merkle tree over all tensors. */
  architecture: hash,
  root: hash,
  tensorBytes: count,
  bases: z.array(hash).max(64),
  /** "exact", or the scheme that reduced its values. */
  values: z.string(),
  environment: hash,
  provenance: hash.optional(),
  /** Object of kind "pipeline"; absent: the version has none, or it was left out. */
  pipeline: hash.optional(),
  metadata: hash.optional(),
  /** Engine, and recipe and data, where the version can be replayed bit for bit. */
  replay: z
    .object({ engine: hash, recipe: hash.optional(), data: z.array(hash).max(256).optional() })
    .optional(),
  /** The documents of the version; undefined in releases from before there were any, or made without. */
  documents: documentsSchema.optional(),
});
export type ReleaseManifest = z.infer<typeof manifestSchema>;

const recipeManifestSchema = z.object({
  kind: z.literal("stemma-recipe-manifest"),
  format: z.literal(1),
  fleet: z.string(),
  name: z.string(),
  /** The recipe's own number. */
  version: count,
  recipe: hash,
  bytes: count,
});
export type RecipeManifest = z.infer<typeof recipeManifestSchema>;
const anyManifestSchema = z.discriminatedUnion("kind", [manifestSchema, recipeManifestSchema]);
export type AnyManifest = z.infer<typeof anyManifestSchema>;

/** The prefix of the names of released recipes, and of no other release's. */
export const recipePrefix = "recipe:";

export function isRecipeManifest(manifest: AnyManifest): manifest is RecipeManifest {
  return manifest.kind === "stemma-recipe-manifest";
}

/** The version or the recipe: what a device looks up. Ids of both are hashes in domains of their own. */
export function subjectOf(manifest: AnyManifest): Hash {
  return isRecipeManifest(manifest) ? manifest.recipe : manifest.versionId;
}

export function manifestOf(
  versionId: Hash,
  record: SaveRecord,
  { tensorBytes, pipeline }: Pick<ReleaseManifest, "tensorBytes" | "pipeline">,
): ReleaseManifest {
  const { fleet, name, line, contentId, architecture, root, bases, scheme, objects, uses } = record;
  return {
    kind: "stemma-release-manifest",
    format: 1,
    fleet,
    name,
    line,
    versionId,
    contentId,
    architecture,
    root,
    tensorBytes,
    bases: [...bases],
    values: scheme ?? "exact",
    environment: objects.environment,
    ...defined({
      provenance: objects.provenance,
      pipeline,
      metadata: objects.metadata,
      replay: uses?.engine && {
        engine: uses.engine,
        ...defined({ recipe: uses.recipe, data: uses.data && [...uses.data] }),
      },
    }),
  };
}

export function encodeManifest(manifest: AnyManifest): Uint8Array {
  return encodeCanonical(manifest);
}

/**
 * Returns the entry by which the targets name it. Releases before recipes had the member `versionId` alone,
 * which therefore names both.
 */
export function targetOf(manifest: AnyManifest): Targets["targets"][string] {
  const bytes = encodeManifest(manifest);
  return {
    length: bytes.length,
    hashes: { sha256: sha256(bytes) },
    custom: { versionId: subjectOf(manifest), ...(isRecipeManifest(manifest) ? { kind: "recipe" } : {}) },
  };
}

/**
 * The manifest of a version in these bytes, which must be those that the targets name.
 * @throws RELEASE_MISMATCH, RELEASE_UNKNOWN
 */
export function verifyManifest(targets: Targets, name: string, bytes: Uint8Array): ReleaseManifest {
  const manifest = verifyAnyManifest(targets, name, bytes);
  if (isRecipeManifest(manifest)) throw manifestMismatch(name, "it is of a recipe, and a version is needed");
  return manifest;
}

/**
 * Verifies as `verifyManifest`, also a recipe's manifest.
 * @throws RELEASE_MISMATCH, RELEASE_UNKNOWN
 */
export function verifyAnyManifest(targets: Targets, name: string, bytes: Uint8Array): AnyManifest {
  const target = requireTarget(targets, name, bytes);
  const parsed = anyManifestSchema.safeParse(readManifest(name, bytes));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw manifestMismatch(name, `${issue?.path.join(".") ?? ""} ${issue?.message ?? ""}`);
  }
  if (subjectOf(parsed.data) !== target.custom.versionId)
    throw manifestMismatch(name, "it names another version or recipe than the targets");
  return parsed.data;
}

/**
 * The target of this name, whose length and hash these bytes have, whatever they contain.
 * @throws RELEASE_MISMATCH, RELEASE_UNKNOWN
 */
export function requireTarget(targets: Targets, name: string, bytes: Uint8Array): Targets["targets"][string] {
  const target = Object.hasOwn(targets.targets, name) ? targets.targets[name] : undefined;
  if (target === undefined)
    throw noRelease(name, `among those that are signed for this fleet (targets version ${targets.version})`);
  if (bytes.length !== target.length)
    throw manifestMismatch(name, `it has ${bytes.length} bytes, and ${target.length} are signed`);
  const actual = sha256(bytes);
  if (actual !== target.hashes.sha256)
    throw manifestMismatch(
      name,
      `its hash is ${actual.slice(0, 12)}…, and ${target.hashes.sha256.slice(0, 12)}… is signed`,
    );
  return target;
}

/** A manifest that the server made, to be released; it counts only once it is signed. */
export function unsignedManifest(text: string): AnyManifest {
  return decodeCanonical(Buffer.from(text, "utf8")) as unknown as AnyManifest;
}

function readManifest(name: string, bytes: Uint8Array): unknown {
  if (bytes.length > maxManifestBytes)
    throw manifestMismatch(name, `it is longer than ${maxManifestBytes} bytes`);
  try {
    return decodeCanonical(bytes);
  } catch (cause) {
    throw manifestMismatch(
      name,
      `it is not canonical JSON (${cause instanceof Error ? cause.message : String(cause)})`,
    );
  }
}

/** Checks that the manifest is of this version. The version's id stands for its record, and that for its tensors. */
export function requireManifestOf(
  manifest: ReleaseManifest,
  name: string,
  { versionId, record }: { readonly versionId: Hash; readonly record: SaveRecord },
): void {
  for (const [what, stated, actual] of [
    ["version", manifest.versionId, versionId],
    ["fleet", manifest.fleet, record.fleet],
    ["content", manifest.contentId, record.contentId],
    ["root", manifest.root, record.root],
    ["architecture", manifest.architecture, record.architecture],
  ] as const)
    if (stated !== actual)
      throw manifestMismatch(
        name,
        `it states the ${what} ${stated.slice(0, 16)}, and the model has ${actual.slice(0, 16)}`,
      );
}

/** The releases of a version or a recipe that the targets name, by name. */
export function releasesOf(targets: Targets, versionId: Hash): readonly string[] {
  return Object.entries(targets.targets)
    .filter(([, { custom }]) => custom.versionId === versionId)
    .map(([name]) => name);
}

/** Returns why the owner revoked a version or a recipe; undefined: did not. */
export function revocationOf(targets: Targets, versionId: Hash): string | undefined {
  return targets["x-stemma-revoked"]?.find((one) => one.versionId === versionId)?.because;
}
