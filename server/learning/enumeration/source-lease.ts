/**
 * The lease on the versions that candidates are trained from, and on those that give weights to their new layers
 * (EvoStore, EV2): from the plan to the last save, also when they are retired meanwhile. Its id is kept in the
 * evaluation's folder, so that one which goes on after a kill finds them for a day.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isStemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import type { Clock } from "../../../shared/ports.js";
import { objectsOf } from "../../../shared/model/record-objects.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { versionGone } from "../query/query-errors.js";

/** The longest that a lease may last. */
const leaseMs = 24 * 3_600_000;
const renewMs = 3_600_000;

type Leased = Pick<
  FleetRepository,
  "leases" | "leaves" | "ensureTensors" | "get" | "resolve" | "recover" | "objects"
>;

/** Names an evaluation as the holder of a lease. */
export const holderOf = ({ seed, query }: { readonly seed: string; readonly query: string }): string =>
  `an evaluation with seed ${seed}: ${query.replace(/\s+/g, " ").trim().slice(0, 80)}`;

const pathIn = (folder: string): string => join(folder, "lease");

/** The lease that an evaluation had before it was cut short; undefined: none, or it has ended. */
export async function leaseIn(
  repository: Pick<FleetRepository, "leases">,
  folder: string,
): Promise<string | undefined> {
  const id = await readFile(pathIn(folder), "utf8").catch(() => undefined);
  if (id === undefined) return undefined;
  try {
    await repository.leases.renew(id, leaseMs);
    return id;
  } catch (error) {
    if (isStemmaError(error, "LEASE_UNKNOWN") || isStemmaError(error, "LEASE_EXPIRED")) return undefined;
    throw error;
  }
}

/** @throws MODEL_RETIRED where one of these versions was retired, and the lease is not on it */
export function requireLeased(
  { get, leases }: Pick<Leased, "get" | "leases">,
  versions: readonly Hash[],
  lease: string | undefined,
): void {
  const gone = versions.find(
    (versionId) => get(versionId)?.state === "retired" && !leases.covers(lease, versionId),
  );
  if (gone !== undefined) throw versionGone(gone);
}

/**
 * Leases versions, whose tensors are made again where they were dropped.
 * @throws MODEL_RETIRED, OBJECT_MISSING where a collection was faster; NOT_ALLOWED where too many leases are held
 */
export async function leaseSources(
  repository: Leased,
  versions: readonly Hash[],
  {
    folder,
    holder,
    signal,
  }: { readonly folder: string; readonly holder: string; readonly signal?: AbortSignal | undefined },
): Promise<string> {
  const objects = new Set<Hash>();
  for (const versionId of versions) {
    await repository.ensureTensors(versionId, signal);
    for (const id of await objectsToKeep(repository, versionId)) objects.add(id);
  }
  const [versionId, ...further] = versions as [Hash, ...Hash[]];
  const { id } = await repository.leases.grant(
    { versionId, further, holder, objects: [...objects], tensors: [] },
    leaseMs,
  );
  try {
    await writeDurably(nodeFiles(), pathIn(folder), Buffer.from(id));
  } catch (error) {
    await repository.leases.end(id);
    throw error;
  }
  return id;
}

/**
 * Renews a lease each hour until the returned function is called: one training may take longer than a lease lasts.
 * Readers of a lease that ended nevertheless refuse only what was retired meanwhile.
 */
export function keepLeased({ leases }: Pick<Leased, "leases">, clock: Clock, lease: string): () => void {
  const renew = (): void => {
    leases.renew(lease, leaseMs).catch(() => undefined);
    cancel = clock.after(renewMs, renew);
  };
  let cancel = clock.after(renewMs, renew);
  return () => cancel();
}

/** The objects that a training from the version reads, and a save with it as base. */
async function objectsToKeep(repository: Leased, versionId: Hash): Promise<readonly Hash[]> {
  const { record } = repository.resolve(versionId);
  const own = objectsOf(record).filter(({ presence, streams }) => presence === "required" && !streams);
  const tensors = (await repository.leaves(versionId)).map(({ tensor }) => tensor);
  if (record.uses?.optimizer !== undefined) {
    const { leaves } = await repository.recover(versionId, { part: "optimizer" });
    tensors.push(...leaves.map(({ tensor }) => tensor));
  }
  return [...own.map(({ id }) => id), ...tensors];
}
