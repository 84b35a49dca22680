/** A fleet's owner with keys in memory, who signs and publishes releases. */
import { isStemmaError } from "../../shared/errors.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { keyOfSeed, type PrivateKey } from "../../shared/trust/keys.js";
import { metadataSetOf } from "../../shared/trust/releases/change-file.js";
import type { AnyManifest, ReleaseManifest } from "../../shared/trust/releases/manifest.js";
import {
  checkMetadata,
  keyIdOf,
  metadataText,
  withSignature,
  type ReleaseRole,
} from "../../shared/trust/releases/metadata.js";
import {
  addRelease,
  defaultValidDays,
  firstChange,
  rotateKeys,
  signChange,
  type PublishedReleases,
  type ReleaseChange,
  type RoleKeys,
} from "../../shared/trust/releases/release-change.js";
import {
  restoreApprovalText,
  unsignedRestore,
  type RestoreStatement,
} from "../../shared/trust/releases/restore-approval.js";
import type { MetadataSet } from "../../shared/trust/releases/trusted-releases.js";

export const startMs = Date.UTC(2027, 0, 1);
export const dayMs = 86_400_000;
export const validity = { nowMs: startMs, days: defaultValidDays };

/** First digits of the seeds of each role's keys. */
export interface Seeds {
  readonly root: readonly string[];
  readonly targets: readonly string[];
  /** Of timestamp and snapshot. */
  readonly online: readonly string[];
}
const ownSeeds: Seeds = { root: ["a"], targets: ["b"], online: ["d"] };

const keyOf = (seed: string): PrivateKey => keyOfSeed(seed.repeat(64));

export function keysFor({ root, targets, online }: Seeds, rootThreshold = 1): RoleKeys {
  const of = (seeds: readonly string[], threshold: number): RoleKeys[ReleaseRole] => ({
    publicKeys: seeds.map((seed) => keyOfSeed(seed.repeat(64)).publicKey),
    threshold,
  });
  return {
    root: of(root, rootThreshold),
    targets: of(targets, 1),
    snapshot: of(online, 1),
    timestamp: of(online, 1),
  };
}

export function manifestFor(digit: string, members: Partial<ReleaseManifest> = {}): ReleaseManifest {
  const hash = digit.repeat(64) as Hash;
  return {
    kind: "stemma-release-manifest",
    format: 1,
    fleet: "plant",
    name: "pack-soh",
    line: "pack-soh",
    versionId: hash,
    contentId: hash,
    architecture: hash,
    root: hash,
    tensorBytes: 4,
    bases: [],
    values: "exact",
    environment: hash,
    ...members,
  };
}

/** The change with which the releases of a fleet begin, signed. */
export function ownersFirstChange(fleet: string): ReleaseChange {
  let change = firstChange(fleet, keysFor(ownSeeds), validity);
  for (const seed of ["a", "b", "d"]) ({ change } = signChange(change, keyOfSeed(seed.repeat(64))));
  return change;
}

export interface FleetOwner {
  /** Published roots, oldest first. */
  readonly roots: readonly string[];
  published(): PublishedReleases;
  /** The metadata that is published. */
  set(): MetadataSet;
  setOf(change: ReleaseChange): MetadataSet;
  /** Signs with these keys, without publishing. */
  setSignedBy(change: ReleaseChange, seeds: readonly string[]): MetadataSet;
  /** Signs with all keys of the owner. */
  signed(change: ReleaseChange): ReleaseChange;
  publish(change: ReleaseChange): MetadataSet;
  release(name: string, manifest: AnyManifest): MetadataSet;
  rotate(seeds: Seeds): MetadataSet;
  /** What a thief of a role's keys signs under another version number. */
  forged(role: "timestamp" | "snapshot" | "targets", version: number): MetadataSet;
  manifestBytes(name: string): Uint8Array;
  /** Signs that the fleet was restored, with these keys; without any: with those of targets. */
  restored(
    statement: Omit<RestoreStatement, "_type" | "fleet"> & { fleet?: string },
    by?: readonly string[],
  ): string;
}

export function fleetOwner({
  seeds = ownSeeds,
  rootThreshold = 1,
  fleet = "plant",
}: { readonly seeds?: Seeds; readonly rootThreshold?: number; readonly fleet?: string } = {}): FleetOwner {
  const held = new Set([...seeds.root, ...seeds.targets, ...seeds.online]);
  const manifests = new Map<string, string>();
  let roots: readonly string[] = [];
  let targetsSeeds = seeds.targets;
  let now: PublishedReleases | undefined;
  const signWith = (change: ReleaseChange, all: Iterable<string>): ReleaseChange => {
    let signed = change;
    for (const seed of all) {
      try {
        signed = signChange(signed, keyOfSeed(seed.repeat(64))).change;
      } catch (error) {
        // A key of a role that this change does not touch.
        if (!isStemmaError(error, "KEY_INVALID")) throw error;
      }
    }
    return signed;
  };
  const owner: FleetOwner = {
    get roots() {
      return roots;
    },
    published: () => {
      if (now === undefined) throw new Error("nothing is published");
      return now;
    },
    set: () => owner.setOf({ fleet, ...owner.published(), root: undefined, manifests: {} }),
    setOf: (change) => metadataSetOf(roots, change),
    setSignedBy: (change, all) => metadataSetOf(roots, signWith(change, all)),
    signed: (change) => signWith(change, held),
    publish: (change) => {
      const signed = signWith(change, held);
      const set = metadataSetOf(roots, signed);
      roots = set.roots;
      for (const [name, text] of Object.entries(signed.manifests)) manifests.set(name, text);
      const root = signed.root ?? now?.root;
      if (root === undefined) throw new Error("a first change has a root");
      now = { root, timestamp: signed.timestamp, snapshot: signed.snapshot, targets: signed.targets };
      return set;
    },
    release: (name, manifest) => owner.publish(addRelease(owner.published(), name, manifest, validity)),
    rotate: (next) => {
      for (const seed of [...next.root, ...next.targets, ...next.online]) held.add(seed);
      targetsSeeds = next.targets;
      return owner.publish(rotateKeys(fleet, owner.published(), keysFor(next), validity));
    },
    forged: (role, version) => {
      const metadata = owner.published()[role];
      const changed = checkMetadata(role, { signatures: [], signed: { ...metadata.signed, version } });
      const signed = signWith(
        {
          fleet,
          ...owner.published(),
          before: owner.published(),
          root: undefined,
          manifests: {},
          [role]: changed,
        },
        held,
      );
      return { ...owner.set(), [role]: metadataText(signed[role]) };
    },
    restored: (statement, by = targetsSeeds) => {
      let approval = unsignedRestore({ fleet, ...statement });
      for (const seed of by) approval = withSignature(approval, keyIdOf(keyOf(seed).publicKey), keyOf(seed));
      return restoreApprovalText(approval);
    },
    manifestBytes: (name) => Buffer.from(manifests.get(name) ?? "", "utf8"),
  };
  owner.publish(firstChange(fleet, keysFor(seeds, rootThreshold), validity));
  return owner;
}
