/**
 * Keeps what a device (or a server) trusts of a fleet's releases, and how new metadata changes it. It is the client's
 * workflow of TUF 1.0, section 5.3 to 5.6, as a pure function. A step that fails leaves what the steps before it
 * proved: a root that takes keys away counts at once, also where nothing else of the set is valid.
 *
 * Where it differs from tuf-js, which the tests use as reference: time is given; nothing is written; a chain of roots
 * ends where the set ends, not at a failed request; there are no delegations.
 */
import { createHash } from "node:crypto";
import { StemmaError } from "../../errors.js";
import {
  canonicalBytes,
  parseMetadata,
  verifyRole,
  type FileMeta,
  type Metadata,
  type ReleaseRole,
  type Root,
} from "./metadata.js";
import { changedContent, metadataInvalid, releasesExpired, rolledBack } from "./release-errors.js";

/** The metadata of a repository, as files. */
export interface MetadataSet {
  /** Consecutive versions, oldest first. */
  readonly roots: readonly string[];
  readonly timestamp: string;
  readonly snapshot: string;
  readonly targets: string;
}

/**
 * The trusted metadata of a fleet's releases. The online roles are absent until they were verified against
 * the newest root.
 */
export interface TrustedReleases {
  readonly root: Metadata<"root">;
  readonly timestamp?: Metadata<"timestamp"> | undefined;
  readonly snapshot?: Metadata<"snapshot"> | undefined;
  readonly targets?: Metadata<"targets"> | undefined;
}
type Online = Exclude<ReleaseRole, "root">;

/** Most roots in one set: a device that was away for so many rotations still follows. */
export const maxRoots = 32;

/**
 * A root that is trusted because it was pinned; it must be signed by its own keys.
 * @throws RELEASE_METADATA_INVALID
 */
export function pinnedRoot(text: string): TrustedReleases {
  const root = parseMetadata("root", text);
  verifyRole(root.signed, "root", root);
  return { root };
}

export interface Update {
  readonly trusted: TrustedReleases;
  /** The reason why the rest of the set is not trusted; undefined: all of it is. */
  readonly error?: StemmaError | undefined;
}

/** @param nowMs milliseconds since 1970, by a time that the caller trusts */
export function updateReleases(before: TrustedReleases, set: MetadataSet, nowMs: number): Update {
  let trusted = before;
  const step = (take: (now: TrustedReleases) => TrustedReleases): void => {
    trusted = take(trusted);
  };
  try {
    if (set.roots.length > maxRoots) throw metadataInvalid(`it has more than ${maxRoots} roots`);
    for (const text of set.roots) step((now) => takeRoot(now, parseMetadata("root", text)));
    requireFresh("root", trusted.root, nowMs);
    step((now) => takeTimestamp(now, parseMetadata("timestamp", set.timestamp), nowMs));
    step((now) => takeSnapshot(now, set.snapshot, nowMs));
    step((now) => takeTargets(now, set.targets, nowMs));
    return { trusted };
  } catch (error) {
    if (error instanceof StemmaError) return { trusted, error };
    throw error;
  }
}

/** TUF 5.3: a new root is signed by the keys of the one before and by its own. */
function takeRoot(now: TrustedReleases, next: Metadata<"root">): TrustedReleases {
  const { root } = now;
  if (next.signed.version <= root.signed.version) return now;
  if (next.signed.version !== root.signed.version + 1)
    throw metadataInvalid(
      `root version ${next.signed.version} does not follow version ${root.signed.version}, the newest known here`,
    );
  verifyRole(root.signed, "root", next);
  verifyRole(next.signed, "root", next);
  // TUF 5.3.11: what rotated keys had signed does not count any more, nor its version numbers (fast-forward attack).
  const isKept = (role: Online): boolean => sameKeys(root.signed, next.signed, role);
  const keepsOnline = isKept("timestamp") && isKept("snapshot");
  return {
    root: next,
    ...(keepsOnline ? { timestamp: now.timestamp, snapshot: now.snapshot } : {}),
    ...(keepsOnline && isKept("targets") ? { targets: now.targets } : {}),
  };
}

function sameKeys(before: Root, after: Root, role: Online): boolean {
  const keysOf = ({ roles }: Root): string =>
    JSON.stringify([[...roles[role].keyids].sort(), roles[role].threshold]);
  return keysOf(before) === keysOf(after);
}

/** Takes a timestamp by TUF 5.4. */
function takeTimestamp(now: TrustedReleases, next: Metadata<"timestamp">, nowMs: number): TrustedReleases {
  verifyRole(now.root.signed, "timestamp", next);
  const { timestamp } = now;
  if (timestamp !== undefined) {
    requireNoRollback("timestamp", timestamp.signed.version, next.signed.version);
    requireNoRollback(
      "snapshot in the timestamp",
      timestamp.signed.meta["snapshot.json"].version,
      next.signed.meta["snapshot.json"].version,
    );
    requireSame("timestamp", timestamp, next);
  }
  requireFresh("timestamp", next, nowMs);
  return { ...now, timestamp: next };
}

/** Takes a snapshot by TUF 5.5. */
function takeSnapshot(now: TrustedReleases, text: string, nowMs: number): TrustedReleases {
  const next = parseMetadata("snapshot", text);
  verifyRole(now.root.signed, "snapshot", next);
  requireListed("snapshot", now.timestamp?.signed.meta["snapshot.json"], next, text);
  const { snapshot } = now;
  if (snapshot !== undefined) {
    requireNoRollback(
      "targets in the snapshot",
      snapshot.signed.meta["targets.json"].version,
      next.signed.meta["targets.json"].version,
    );
    requireSame("snapshot", snapshot, next);
  }
  requireFresh("snapshot", next, nowMs);
  return { ...now, snapshot: next };
}

/** Takes targets by TUF 5.6. */
function takeTargets(now: TrustedReleases, text: string, nowMs: number): TrustedReleases {
  const next = parseMetadata("targets", text);
  verifyRole(now.root.signed, "targets", next);
  requireListed("targets", now.snapshot?.signed.meta["targets.json"], next, text);
  if (now.targets !== undefined) requireSame("targets", now.targets, next);
  requireFresh("targets", next, nowMs);
  return { ...now, targets: next };
}

function requireNoRollback(what: string, before: number, after: number): void {
  if (after < before) throw rolledBack(what, before, after);
}

/** One version has one content: another one under the same number is not taken. */
function requireSame(role: ReleaseRole, before: Metadata, after: Metadata): void {
  if (
    before.signed.version === after.signed.version &&
    !Buffer.from(canonicalBytes(before.signed)).equals(canonicalBytes(after.signed))
  )
    throw changedContent(role, after.signed.version);
}

/**
 * Mix-and-match: each role is the one that the role above it names, by its version, and by length and hashes where
 * these are stated (TUF 5.5.2, 5.6.2).
 * @param text as it was published
 */
function requireListed(role: ReleaseRole, listed: FileMeta | undefined, next: Metadata, text: string): void {
  if (listed?.version !== next.signed.version)
    throw metadataInvalid(
      `${role} version ${next.signed.version} is not the one that is signed for now, version ${listed?.version ?? "unknown"}`,
    );
  const bytes = Buffer.from(text, "utf8");
  if (listed.length !== undefined && listed.length !== bytes.length)
    throw metadataInvalid(
      `${role} version ${listed.version} has ${bytes.length} bytes, and ${listed.length} are signed for it`,
    );
  const stated = Object.entries(listed.hashes ?? {}).filter(([algorithm]) => hashAlgorithms.has(algorithm));
  if (listed.hashes !== undefined && stated.length === 0)
    throw metadataInvalid(`${role} version ${listed.version} is signed by no hash that is known here`);
  for (const [algorithm, expected] of stated)
    if (createHash(algorithm).update(bytes).digest("hex") !== expected)
      throw metadataInvalid(`${role} version ${listed.version} has not the ${algorithm} hash that is signed`);
}

const hashAlgorithms: ReadonlySet<string> = new Set(["sha256", "sha512"]);

export function isExpired({ signed }: Metadata, nowMs: number): boolean {
  return Date.parse(signed.expires) <= nowMs;
}

function requireFresh(role: ReleaseRole, metadata: Metadata, nowMs: number): void {
  if (isExpired(metadata, nowMs))
    throw releasesExpired(role, metadata.signed.version, metadata.signed.expires);
}

/**
 * The targets, where every role above them is there, nothing has expired, and they are the ones that the newest
 * snapshot names. Where they are not, a newer list exists and was held back: what the older one released may have been
 * revoked, so nothing follows from it.
 * @throws RELEASE_EXPIRED, RELEASE_METADATA_INVALID
 */
export function freshTargets(trusted: TrustedReleases, nowMs: number): Metadata<"targets"> {
  const { root, timestamp, snapshot, targets } = trusted;
  if (timestamp === undefined || snapshot === undefined || targets === undefined)
    throw metadataInvalid(`with root version ${root.signed.version}, no signed list of releases came yet`);
  requireFresh("root", root, nowMs);
  requireFresh("timestamp", timestamp, nowMs);
  requireFresh("snapshot", snapshot, nowMs);
  requireFresh("targets", targets, nowMs);
  requireTogether("snapshot", snapshot, timestamp.signed.meta["snapshot.json"]);
  requireTogether("targets", targets, snapshot.signed.meta["targets.json"]);
  return targets;
}

function requireTogether(role: ReleaseRole, { signed }: Metadata, newest: FileMeta): void {
  if (signed.version !== newest.version)
    throw metadataInvalid(
      `${role} version ${newest.version} is signed, and the newest that came is version ${signed.version}: the server holds it back, or has lost it`,
    );
}
