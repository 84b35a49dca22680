/**
 * Takes bundles: says what is lacking, stores what comes, each object compared with its id, and makes all of it visible
 * in one step. Objects that were here before are not sent again, but their sender proves that it has them.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { defined } from "../../../shared/defined.js";
import { decodeSaveRecord, versionIdOf } from "../../../shared/model/save-record.js";
import type { Files } from "../../../shared/ports.js";
import { hexOf } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { bundleKinds, type BundleKind } from "../../interface/api/models/bundle-schemas.js";
import type { BegunDeposit, BundleManifest } from "../../interface/api/models/bundle-schemas.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { Home } from "../../storage/repository/home.js";
import type { PreparedBundle, ReceivedBundle } from "../../storage/repository/versions/record-bundle.js";
import { begunIn, removeOldParts } from "./entry-part.js";
import { bundleInvalid, noDeposit, tooManyDeposits } from "./hub-errors.js";
import { UnfinishedBytes } from "./unfinished-bytes.js";

const depositMs = 60 * 60_000;
/** The file of an object that came in part stays so long without progress. */
const partMs = 24 * depositMs;
/** Deposits of one fleet that are open, at most, and those of one sender, who cannot keep all others out. */
const maxDeposits = 8;
const maxDepositsOfSender = 4;

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
  /** The file of an object that is on its way. */
  readonly partPath: string;
  usedAtMs: number;
  /** The versions as they were read and checked, once everything is here. */
  prepared?: PreparedBundle;
}

/** The deposits of one fleet that were begun and not finished. */
interface FleetDeposits {
  readonly open: Map<string, Deposit>;
  readonly unfinished: UnfinishedBytes;
}

/** The deposits of each store; a restart forgets them, and then their senders begin again. */
const depositsOfStores = new WeakMap<object, FleetDeposits>();

type DepositHome = Pick<Home, "fleetFolder" | "ports">;

/** @throws BUNDLE_INVALID, RECORD_INVALID, QUOTA_EXCEEDED */
export async function beginDeposit(
  repository: FleetRepository,
  home: DepositHome,
  { manifest, owner }: { readonly manifest: BundleManifest; readonly owner: string },
): Promise<BegunDeposit> {
  const { clock, random, files } = home.ports;
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
  const partFolder = join(home.fleetFolder(repository.fleet), "deposits");
  const partPath = join(partFolder, `${partNameOf(owner, manifest)}.part`);
  await dropOldParts(repository, home, partFolder);
  const begun = await begunIn(files, partPath);
  const { open: deposits } = depositsOf(repository, home.ports);
  const before = [...deposits.values()].find((each) => each.owner === owner && isOfSame(each, manifest));
  // After a cut its sender begins again; what came is known to be theirs.
  if (before !== undefined) deposits.delete(before.id);
  if ([...deposits.values()].filter((each) => each.owner === owner).length >= maxDepositsOfSender)
    throw tooManyDeposits(maxDepositsOfSender, "one sender");
  if (deposits.size >= maxDeposits) throw tooManyDeposits(maxDeposits, "a fleet");
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
    partPath,
  };
  deposits.set(deposit.id, deposit);
  if (before !== undefined) repository.objects.release(before.lease);
  const lacking = [...kinds.keys()].filter((id) => !repository.objects.has(id));
  return {
    deposit: deposit.id,
    lacking,
    ...defined({ begun: begun !== undefined && lacking.includes(begun.id) ? begun : undefined }),
    versions: ids.filter((id) => repository.get(id) === undefined).length,
  };
}

/** Another sender's part is never gone on with: who has only the rest of an object has not the object. */
function partNameOf(owner: string, { models }: BundleManifest): string {
  return createHash("sha256")
    .update(JSON.stringify([owner, models]))
    .digest("hex");
}

async function dropOldParts(
  repository: FleetRepository,
  { ports: { files, clock, log } }: DepositHome,
  folder: string,
): Promise<void> {
  const { gone, parts } = await removeOldParts(files, folder, { nowMs: clock.now(), maxAgeMs: partMs });
  unfinishedIn(repository).setParts(parts);
  for (const part of gone) log?.warn("upload-dropped", { fleet: repository.fleet, ...part });
}

function isOfSame({ manifest: { models } }: Deposit, other: BundleManifest): boolean {
  return models.length === other.models.length && models.every((id, i) => id === other.models[i]);
}

function receivedOf(
  { absent, redacted, tags, evaluations, listings, succeeded = [] }: BundleManifest,
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
    succeeded,
  };
}

type Store = Pick<FleetRepository, "objects">;

function ofStore({ objects }: Store): FleetDeposits {
  let deposits = depositsOfStores.get(objects);
  if (deposits === undefined)
    depositsOfStores.set(
      objects,
      (deposits = { open: new Map<string, Deposit>(), unfinished: new UnfinishedBytes(objects) }),
    );
  return deposits;
}

/** The bytes that came in deposits of the fleet and belong to no version. */
export function unfinishedIn(store: Store): UnfinishedBytes {
  return ofStore(store).unfinished;
}

/** The deposits of a fleet, without those that had no progress for an hour: a collection may free their objects. */
function depositsOf(
  repository: FleetRepository,
  { clock, log }: Pick<Home["ports"], "clock" | "log">,
): FleetDeposits {
  const deposits = ofStore(repository);
  for (const [id, { usedAtMs, owner, manifest, received }] of deposits.open) {
    if (clock.monotonic() - usedAtMs < depositMs) continue;
    deposits.open.delete(id);
    const bytes = deposits.unfinished.of(received);
    const { fleet } = repository;
    log?.warn("upload-dropped", { fleet, owner, models: manifest.models, objects: received.size, bytes });
  }
  return deposits;
}

/** @throws NOT_FOUND for one that ended, or another sender's; LEASE_EXPIRED */
export function openDeposit(
  repository: FleetRepository,
  ports: Pick<Home["ports"], "clock" | "log">,
  { id, owner }: Pick<Deposit, "id" | "owner">,
): Deposit {
  const deposit = depositsOf(repository, ports).open.get(id);
  if (deposit === undefined || deposit.owner !== owner) throw noDeposit();
  repository.objects.renew(deposit.lease, depositMs);
  deposit.usedAtMs = ports.clock.monotonic();
  return deposit;
}

/**
 * Forgets a deposit and its part: another sender may have brought that object meanwhile. Its lease stays a while: a
 * collection that has begun may not have counted the new versions. What it named and no version needs stays counted.
 */
export async function endDeposit(
  repository: FleetRepository,
  { id, partPath, prepared }: Deposit,
  files: Pick<Files, "remove">,
): Promise<void> {
  const { open, unfinished } = ofStore(repository);
  open.delete(id);
  unfinished.belong(prepared?.required ?? []);
  await files.remove(partPath);
  unfinished.setPart(partPath, 0);
}
