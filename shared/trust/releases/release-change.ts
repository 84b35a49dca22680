/**
 * Makes changes of a fleet's releases, which are carried to their signers and then published. Each has new
 * metadata without signatures at first, the manifests that it adds, and what was signed before it, so that a
 * signer sees what differs. change-file.ts reads and writes them. Pure.
 */
import type { Signer } from "../keys.js";
import {
  encodeManifest,
  isRecipeManifest,
  recipePrefix,
  subjectOf,
  targetOf,
  type AnyManifest,
} from "./manifest.js";
import {
  checkMetadata,
  keyIdOf,
  parseMetadata,
  releaseRoles,
  tufKey,
  validSigners,
  withSignature,
  type Metadata,
  type ReleaseRole,
  type Root,
  type SignedOf,
  type Targets,
} from "./metadata.js";
import {
  keySignsNothing,
  metadataInvalid,
  nameOfOtherKind,
  noRelease,
  releaseExists,
} from "./release-errors.js";
import type { MetadataSet } from "./trusted-releases.js";

export interface ReleaseChange {
  readonly fleet: string;
  readonly before?: { readonly root: Metadata<"root">; readonly targets: Metadata<"targets"> } | undefined;
  readonly root?: Metadata<"root"> | undefined;
  readonly timestamp: Metadata<"timestamp">;
  readonly snapshot: Metadata<"snapshot">;
  readonly targets: Metadata<"targets">;
  /** The texts of manifests, by release. */
  readonly manifests: Readonly<Record<string, string>>;
}

export type RoleKeys = Readonly<
  Record<ReleaseRole, { readonly publicKeys: readonly string[]; readonly threshold: number }>
>;
/** Days for which the roles' metadata is valid. */
export type ValidDays = Readonly<Record<ReleaseRole, number>>;
export const defaultValidDays: ValidDays = { root: 1095, targets: 365, snapshot: 90, timestamp: 90 };

/** The published releases, of which a change is made. */
export interface PublishedReleases {
  readonly root: Metadata<"root">;
  readonly timestamp: Metadata<"timestamp">;
  readonly snapshot: Metadata<"snapshot">;
  readonly targets: Metadata<"targets">;
}
/** The newest of each role. @throws RELEASE_METADATA_INVALID */
export function publishedOfSet(set: MetadataSet): PublishedReleases {
  return {
    root: parseMetadata("root", set.roots.at(-1) ?? ""),
    timestamp: parseMetadata("timestamp", set.timestamp),
    snapshot: parseMetadata("snapshot", set.snapshot),
    targets: parseMetadata("targets", set.targets),
  };
}
export interface Validity {
  readonly nowMs: number;
  readonly days: ValidDays;
}

const dayMs = 86_400_000;
const specVersion = "1.0.31";

function signedUntil({ nowMs, days }: Validity, role: ReleaseRole): string {
  return `${new Date(nowMs + days[role] * dayMs).toISOString().slice(0, 19)}Z`;
}
const unsigned = <Role extends ReleaseRole>(signed: SignedOf<Role>): Metadata<Role> => ({
  signatures: [],
  signed,
});

function rootOf(version: number, keys: RoleKeys, validity: Validity): Metadata<"root"> {
  const all = releaseRoles.flatMap((role) => keys[role].publicKeys);
  const roles = Object.fromEntries(
    releaseRoles.map((role) => [
      role,
      { keyids: [...new Set(keys[role].publicKeys.map(keyIdOf))], threshold: keys[role].threshold },
    ]),
  ) as Root["roles"];
  return checkMetadata("root", {
    signatures: [],
    signed: {
      _type: "root",
      spec_version: specVersion,
      version,
      expires: signedUntil(validity, "root"),
      consistent_snapshot: true,
      keys: Object.fromEntries(all.map((publicKey) => [keyIdOf(publicKey), tufKey(publicKey)])),
      roles,
    },
  });
}

/** The first metadata of a fleet, which names nothing yet. @throws RELEASE_METADATA_INVALID */
export function firstChange(fleet: string, keys: RoleKeys, validity: Validity): ReleaseChange {
  return {
    fleet,
    root: rootOf(1, keys, validity),
    targets: unsigned({
      _type: "targets",
      spec_version: specVersion,
      version: 1,
      expires: signedUntil(validity, "targets"),
      targets: {},
    }),
    ...onlineRoles({ timestamp: 1, snapshot: 1, targets: 1 }, validity),
    manifests: {},
  };
}

function onlineRoles(
  versions: { readonly timestamp: number; readonly snapshot: number; readonly targets: number },
  validity: Validity,
): Pick<ReleaseChange, "timestamp" | "snapshot"> {
  return {
    timestamp: unsigned({
      _type: "timestamp",
      spec_version: specVersion,
      version: versions.timestamp,
      expires: signedUntil(validity, "timestamp"),
      meta: { "snapshot.json": { version: versions.snapshot } },
    }),
    snapshot: unsigned({
      _type: "snapshot",
      spec_version: specVersion,
      version: versions.snapshot,
      expires: signedUntil(validity, "snapshot"),
      meta: { "targets.json": { version: versions.targets } },
    }),
  };
}

/** New targets with everything that follows from them. */
function withTargets(
  fleet: string,
  now: PublishedReleases,
  validity: Validity,
  change: Pick<Targets, "targets"> & Pick<Targets, "x-stemma-revoked">,
): ReleaseChange {
  const version = now.targets.signed.version + 1;
  return {
    fleet,
    before: { root: now.root, targets: now.targets },
    targets: checkMetadata("targets", {
      signatures: [],
      signed: {
        _type: "targets",
        spec_version: specVersion,
        version,
        expires: signedUntil(validity, "targets"),
        ...change,
      },
    }),
    ...onlineRoles(
      {
        timestamp: now.timestamp.signed.version + 1,
        snapshot: now.snapshot.signed.version + 1,
        targets: version,
      },
      validity,
    ),
    manifests: {},
  };
}

const revokedOf = ({ signed }: Metadata<"targets">): Pick<Targets, "x-stemma-revoked"> =>
  signed["x-stemma-revoked"] === undefined ? {} : { "x-stemma-revoked": signed["x-stemma-revoked"] };

/** @throws RELEASE_MISMATCH where the name is taken by another version, or says recipe of what is none */
export function addRelease(
  now: PublishedReleases,
  name: string,
  manifest: AnyManifest,
  validity: Validity,
): ReleaseChange {
  const { targets } = now.targets.signed;
  if (name.startsWith(recipePrefix) !== isRecipeManifest(manifest)) throw nameOfOtherKind(name, recipePrefix);
  const target = targetOf(manifest);
  const present = Object.hasOwn(targets, name) ? targets[name] : undefined;
  if (present !== undefined && present.hashes.sha256 !== target.hashes.sha256)
    throw releaseExists(name, present.custom.versionId === target.custom.versionId);
  return {
    ...withTargets(manifest.fleet, now, validity, {
      targets: { ...targets, [name]: target },
      // Releasing it again takes its revocation back: the owner signs that.
      ...without(revokedOf(now.targets), subjectOf(manifest)),
    }),
    manifests: { [name]: Buffer.from(encodeManifest(manifest)).toString("utf8") },
  };
}

function without(
  revoked: Pick<Targets, "x-stemma-revoked">,
  versionId: string,
): Pick<Targets, "x-stemma-revoked"> {
  const left = revoked["x-stemma-revoked"]?.filter((one) => one.versionId !== versionId) ?? [];
  return left.length === 0 ? {} : { "x-stemma-revoked": left };
}

/** @throws RELEASE_UNKNOWN */
export function revokeRelease(
  fleet: string,
  now: PublishedReleases,
  { name, because }: { readonly name: string; readonly because: string },
  validity: Validity,
): ReleaseChange {
  const { targets } = now.targets.signed;
  const target = Object.hasOwn(targets, name) ? targets[name] : undefined;
  if (target === undefined) throw noRelease(name, `in the fleet ${fleet}`);
  const { versionId } = target.custom;
  // Every release of that version goes: the version is what is bad.
  const left = Object.fromEntries(
    Object.entries(targets).filter(([, one]) => one.custom.versionId !== versionId),
  );
  return withTargets(fleet, now, validity, {
    targets: left,
    "x-stemma-revoked": [
      ...(without(revokedOf(now.targets), versionId)["x-stemma-revoked"] ?? []),
      { name, versionId, because },
    ],
  });
}

/** The same releases, valid for longer: all roles but root, or only those that are signed online. */
export function refreshReleases(
  fleet: string,
  now: PublishedReleases,
  validity: Validity,
  onlyOnline: boolean,
): ReleaseChange {
  const { targets } = now.targets.signed;
  if (!onlyOnline) return withTargets(fleet, now, validity, { targets, ...revokedOf(now.targets) });
  return {
    fleet,
    before: { root: now.root, targets: now.targets },
    targets: now.targets,
    ...onlineRoles(
      {
        timestamp: now.timestamp.signed.version + 1,
        snapshot: now.snapshot.signed.version + 1,
        targets: now.targets.signed.version,
      },
      validity,
    ),
    manifests: {},
  };
}

/** Rotates keys: the change is signed by the keys before and the new ones. Everything below root is signed again. */
export function rotateKeys(
  fleet: string,
  now: PublishedReleases,
  keys: RoleKeys,
  validity: Validity,
): ReleaseChange {
  return {
    ...refreshReleases(fleet, now, validity, false),
    root: rootOf(now.root.signed.version + 1, keys, validity),
  };
}

/** The keys of each role as a root has them. */
export function keysOf({ signed }: Metadata<"root">): RoleKeys {
  const of = (role: ReleaseRole): RoleKeys[ReleaseRole] => {
    const { keyids, threshold } = signed.roles[role];
    return { publicKeys: keyids.map((id) => signed.keys[id]?.keyval.public ?? ""), threshold };
  };
  return {
    root: of("root"),
    timestamp: of("timestamp"),
    snapshot: of("snapshot"),
    targets: of("targets"),
  };
}

const rolesOf = (change: ReleaseChange): readonly ReleaseRole[] =>
  change.root === undefined ? ["targets", "snapshot", "timestamp"] : releaseRoles;

function metadataOf(change: ReleaseChange, role: ReleaseRole): Metadata {
  const metadata = change[role];
  if (metadata === undefined) throw metadataInvalid(`the change has no ${role}`);
  return metadata;
}

/** The roots whose keys must sign a role, each with its threshold. */
function judgesOf(change: ReleaseChange, role: ReleaseRole): readonly Root[] {
  const newest = change.root ?? change.before?.root;
  if (newest === undefined) throw metadataInvalid("the change has no root");
  const before = role === "root" ? change.before?.root : undefined;
  return before === undefined ? [newest.signed] : [before.signed, newest.signed];
}

export interface Signed {
  readonly change: ReleaseChange;
  /** Roles that the key has signed now or before. */
  readonly roles: readonly ReleaseRole[];
}

/**
 * Adds a key's signature to every role that it is a key of.
 * @throws KEY_INVALID where it is a key of none
 */
export function signChange(change: ReleaseChange, signer: Signer): Signed {
  const keyid = keyIdOf(signer.publicKey);
  const roles = rolesOf(change).filter((role) =>
    judgesOf(change, role).some((root) => root.roles[role].keyids.includes(keyid)),
  );
  if (roles.length === 0) throw keySignsNothing(signer.publicKey, "anything of this change");
  let signed = change;
  for (const role of roles) {
    signed = { ...signed, [role]: withSignature(metadataOf(signed, role), keyid, signer) };
  }
  return { change: signed, roles };
}

export interface SignatureCount {
  readonly role: ReleaseRole;
  /** True if it counts keys of the root before this change; a new root needs both. */
  readonly isByOldKeys?: true;
  readonly signatures: number;
  readonly threshold: number;
}

/** Counts how many signatures each role has and needs; of a new root, by the keys before and by its own. */
export function signaturesOf(change: ReleaseChange): readonly SignatureCount[] {
  return rolesOf(change).flatMap((role) =>
    judgesOf(change, role).map((root) => ({
      role,
      ...(role === "root" && change.before?.root.signed === root ? { isByOldKeys: true as const } : {}),
      signatures: validSigners(root, role, metadataOf(change, role)).size,
      threshold: root.roles[role].threshold,
    })),
  );
}

export function describeSignatures({ role, isByOldKeys, signatures, threshold }: SignatureCount): string {
  const whose = isByOldKeys === true ? " by the keys before" : "";
  return `${role} has ${signatures} of ${threshold} signatures${whose}`;
}
