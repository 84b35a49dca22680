/**
 * Takes bundles: says what is lacking, stores what comes, each object compared with its id, and makes all of it visible
 * in one step. Objects that were here before are not sent again, but their sender proves that it has them.
 */
import { decodeSaveRecord, versionIdOf } from "../../../shared/model/save-record.js";
import { hexOf } from "../../../shared/tensor/hash.js";
import type { Clock } from "../../../shared/ports.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { bundleKinds, type BundleKind } from "../../interface/api/models/bundle-schemas.js";
import type { BegunDeposit, BundleManifest } from "../../interface/api/models/bundle-schemas.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { Home } from "../../storage/repository/home.js";
import type { PreparedBundle, ReceivedBundle } from "../../storage/repository/versions/record-bundle.js";
import { bundleInvalid, noDeposit, tooManyDeposits } from "./hub-errors.js";

const depositMs = 60 * 60_000;
/** Deposits of one fleet that are open, at most. */
const maxDeposits = 8;

export interface Deposit {
  readonly id: string;
  /** The sender: nobody else sends into it or ends it. */
  readonly owner: string;
  readonly manifest: BundleManifest;
  readonly bundle: ReceivedBundle;
  readonly kinds: ReadonlyMap<Hash, BundleKind>;
  /** Objects that came in this deposit, each compared with its id. */
  readonly received: Set<Hash>;
  readonly challenge: Hash;
  readonly lease: string;
  usedAtMs: number;
  /** The versions as they were read and checked, once everything is here. */
  prepared?: PreparedBundle;
}

/** The open deposits of each store; a restart forgets them, and then their senders begin again. */
const openDeposits = new WeakMap<object, Map<string, Deposit>>();

/** @throws BUNDLE_INVALID, RECORD_INVALID, QUOTA_EXCEEDED */
export function beginDeposit(
  repository: FleetRepository,
  { clock, random }: Pick<Home["ports"], "clock" | "random">,
  { manifest, owner }: { readonly manifest: BundleManifest; readonly owner: string },
): BegunDeposit {
  const kinds = new Map<Hash, BundleKind>();
  for (const kind of bundleKinds)
    for (const id of manifest.objects[kind] ?? []) {
      if (kinds.has(id)) throw bundleInvalid(`it names ${id.slice(0, 12)} twice`);
      kinds.set(id, kind);
    }
  const records = manifest.records.map((text) => Buffer.from(text, "base64"));
  // Looked at before anything is sent.
  for (const record of records) decodeSaveRecord(record);
  const ids = records.map(versionIdOf);
  if (!manifest.models.every((id) => ids.includes(id)))
    throw bundleInvalid("it has not the models that it was made for");
  const deposits = depositsOf(repository, clock);
  const before = [...deposits.values()].find((each) => each.owner === owner && isOfSame(each, manifest));
  // After a cut its sender begins again; what came is known to be theirs.
  if (before !== undefined) deposits.delete(before.id);
  if (deposits.size >= maxDeposits) throw tooManyDeposits(maxDeposits);
  const deposit: Deposit = {
    id: Buffer.from(random.bytes(16)).toString("hex"),
    owner,
    manifest,
    bundle: receivedOf(manifest, records, kinds),
    kinds,
    received: new Set([...(before?.received ?? [])].filter((id) => kinds.has(id))),
    usedAtMs: clock.monotonic(),
    challenge: hexOf(random.bytes(32)),
    lease: repository.objects.lease([...kinds.keys(), ...ids], depositMs).id,
  };
  deposits.set(deposit.id, deposit);
  return {
    deposit: deposit.id,
    lacking: [...kinds.keys()].filter((id) => !repository.objects.has(id)),
    versions: ids.filter((id) => repository.get(id) === undefined).length,
  };
}

function isOfSame({ manifest: { models } }: Deposit, other: BundleManifest): boolean {
  return models.length === other.models.length && models.every((id, i) => id === other.models[i]);
}

function receivedOf(
  { absent, redacted, tags, evaluations, listings }: BundleManifest,
  records: readonly Uint8Array[],
  objects: ReadonlyMap<Hash, BundleKind>,
): ReceivedBundle {
  return {
    records,
    objects,
    absent: new Set(absent.map(({ versionId }) => versionId)),
    redacted: new Set(redacted),
    tags,
    evaluations,
    listings,
  };
}

/** The open deposits of a fleet, without those of which nothing came for an hour. */
function depositsOf({ objects }: Pick<FleetRepository, "objects">, clock: Clock): Map<string, Deposit> {
  let deposits = openDeposits.get(objects);
  if (deposits === undefined) openDeposits.set(objects, (deposits = new Map<string, Deposit>()));
  for (const [id, { usedAtMs }] of deposits)
    if (clock.monotonic() - usedAtMs >= depositMs) deposits.delete(id);
  return deposits;
}

/** @throws NOT_FOUND for one that ended, or another sender's; LEASE_EXPIRED */
export function openDeposit(
  repository: FleetRepository,
  clock: Clock,
  { id, owner }: Pick<Deposit, "id" | "owner">,
): Deposit {
  const deposit = depositsOf(repository, clock).get(id);
  if (deposit === undefined || deposit.owner !== owner) throw noDeposit();
  repository.objects.renew(deposit.lease, depositMs);
  deposit.usedAtMs = clock.monotonic();
  return deposit;
}

/** Forgets a deposit. Its lease stays a while: a collection that has begun may not have counted the new versions. */
export function endDeposit(repository: FleetRepository, clock: Clock, { id }: Deposit): void {
  depositsOf(repository, clock).delete(id);
}
