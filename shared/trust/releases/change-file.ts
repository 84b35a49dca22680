/**
 * The file of a change of releases: how it is written, read and put into words for its signers. Whoever writes the file
 * proposes; only signatures make it count. Pure.
 */
import * as z from "zod";
import { defined } from "../../defined.js";
import { isRecipeManifest, recipePrefix, unsignedManifest, verifyAnyManifest } from "./manifest.js";
import {
  checkMetadata,
  metadataText,
  parseMetadata,
  releaseName,
  releaseRoles,
  verifyRole,
  type Metadata,
  type ReleaseRole,
} from "./metadata.js";
import { keysOf, type ReleaseChange, type RoleKeys } from "./release-change.js";
import { metadataInvalid } from "./release-errors.js";
import type { MetadataSet } from "./trusted-releases.js";

const changeSchema = z.strictObject({
  kind: z.literal("stemma-release-change"),
  format: z.literal(1),
  fleet: z.string().min(1).max(64),
  /** The versions that were signed before; absent: none. */
  before: z.strictObject({ root: z.string(), targets: z.string() }).optional(),
  /** A new root; absent: the one before stays. */
  root: z.unknown().optional(),
  timestamp: z.unknown(),
  snapshot: z.unknown(),
  targets: z.unknown(),
  /** The manifests of added releases, by release. */
  manifests: z.record(releaseName, z.string()),
});

/** Describes the change in plain lines, from what it contains and not from what it says of itself. */
export function describeChange(change: ReleaseChange): readonly string[] {
  const { before, targets, root } = change;
  const old = before?.targets.signed.targets ?? {};
  const lines: string[] = [];
  if (before === undefined) lines.push(`first releases of the fleet ${change.fleet}`);
  if (root !== undefined) lines.push(...describeRoot(root, before?.root));
  for (const [name, target] of Object.entries(targets.signed.targets)) {
    const known = Object.hasOwn(old, name) ? old[name] : undefined;
    if (known?.hashes.sha256 === target.hashes.sha256) continue;
    lines.push(
      `${known === undefined ? "adds" : "REPLACES"} ${name}: ${kindOf(name)} ${target.custom.versionId.slice(0, 16)}…, manifest ${target.hashes.sha256.slice(0, 16)}…${extrasOf(change, name)}`,
    );
  }
  for (const name of Object.keys(old))
    if (!Object.hasOwn(targets.signed.targets, name)) lines.push(`removes ${name}`);
  const wasRevoked = new Set((before?.targets.signed["x-stemma-revoked"] ?? []).map((one) => one.versionId));
  const isRevoked = new Set((targets.signed["x-stemma-revoked"] ?? []).map((one) => one.versionId));
  for (const one of targets.signed["x-stemma-revoked"] ?? [])
    if (!wasRevoked.has(one.versionId))
      lines.push(`revokes ${kindOf(one.name)} ${one.versionId.slice(0, 16)}…: ${one.because}`);
  for (const { name, versionId } of before?.targets.signed["x-stemma-revoked"] ?? [])
    if (!isRevoked.has(versionId))
      lines.push(`TAKES BACK the revocation of ${kindOf(name)} ${versionId.slice(0, 16)}…`);
  if (lines.length === 0) lines.push("the same releases, valid for longer");
  return lines;
}

function kindOf(name: string): "recipe" | "version" {
  return name.startsWith(recipePrefix) ? "recipe" : "version";
}

/** Describes who signs what from then on, where that changes: a signer of a root has to see it. */
function describeRoot(root: Metadata<"root">, before: Metadata<"root"> | undefined): readonly string[] {
  const keys = keysOf(root);
  const old = before && keysOf(before);
  const who = ({ publicKeys, threshold }: RoleKeys[ReleaseRole]): string =>
    `${threshold} of ${publicKeys.map((key) => `${key.slice(0, 16)}…`).join(", ")}`;
  return releaseRoles.flatMap((role) => {
    if (old === undefined) return [`${role} is signed by ${who(keys[role])}`];
    const isSame = JSON.stringify(keys[role]) === JSON.stringify(old[role]);
    return isSame ? [] : [`${role} is signed by ${who(keys[role])}, before by ${who(old[role])}`];
  });
}

/** Describes what a signer should see of a release beside its version. */
function extrasOf({ manifests }: ReleaseChange, name: string): string {
  const text = Object.hasOwn(manifests, name) ? manifests[name] : undefined;
  const manifest = text === undefined ? undefined : unsignedManifest(text);
  if (manifest === undefined || isRecipeManifest(manifest)) return "";
  const { pipeline, documents } = manifest;
  return [
    pipeline === undefined ? "" : `, with its input pipeline ${pipeline.slice(0, 16)}…`,
    documents === undefined ? "" : `, card ${documents.card.slice(0, 16)}…`,
  ].join("");
}

export function changeText(change: ReleaseChange): string {
  const { before, manifests, fleet, root, timestamp, snapshot, targets } = change;
  const file = defined({
    kind: "stemma-release-change",
    format: 1,
    fleet,
    before: before && { root: metadataText(before.root), targets: metadataText(before.targets) },
    root,
    targets,
    snapshot,
    timestamp,
    manifests,
  });
  return `${JSON.stringify(file, undefined, 1)}\n`;
}

/** Longest file of a change, in bytes. */
export const maxChangeBytes = 4 * 1024 * 1024;

/**
 * Reads the file of a change. What it says was signed before must be, by the keys that it names; its manifests must be
 * those that its targets name.
 * @throws RELEASE_METADATA_INVALID, RELEASE_MISMATCH
 */
export function parseChange(text: string): ReleaseChange {
  let json: unknown;
  try {
    json = JSON.parse(text.length > maxChangeBytes ? "" : text);
  } catch (cause) {
    throw metadataInvalid("the file of the change is not JSON, or too long", cause);
  }
  const parsed = changeSchema.safeParse(json);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw metadataInvalid(
      `the file is not a change of releases (${issue?.path.join(".")}: ${issue?.message})`,
    );
  }
  const { fleet, before, root, timestamp, snapshot, targets, manifests } = parsed.data;
  const change: ReleaseChange = {
    fleet,
    before: before && {
      root: parseMetadata("root", before.root),
      targets: parseMetadata("targets", before.targets),
    },
    root: root === undefined ? undefined : checkMetadata("root", root),
    timestamp: checkMetadata("timestamp", timestamp),
    snapshot: checkMetadata("snapshot", snapshot),
    targets: checkMetadata("targets", targets),
    manifests,
  };
  if (change.before !== undefined) {
    verifyRole(change.before.root.signed, "root", change.before.root);
    verifyRole(change.before.root.signed, "targets", change.before.targets);
  }
  for (const [name, manifest] of Object.entries(manifests))
    verifyAnyManifest(change.targets.signed, name, Buffer.from(manifest, "utf8"));
  return change;
}

/** The metadata of a complete change, as devices read it. `roots`: those that were published before. */
export function metadataSetOf(roots: readonly string[], change: ReleaseChange): MetadataSet {
  return {
    roots: change.root === undefined ? roots : [...roots, metadataText(change.root)],
    timestamp: metadataText(change.timestamp),
    snapshot: metadataText(change.snapshot),
    targets: metadataText(change.targets),
  };
}
