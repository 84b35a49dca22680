/**
 * Says how a device stands to the version of a rollout: whether it has it, by what it runs and what it trained itself.
 * A version that somebody else trained from the rollout's is another one: whoever runs that goes back.
 */
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { DeviceSummary } from "../../storage/repository/answers/device-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

/**
 * - `has`: it runs the version, or what it trained from it itself.
 * - `goes back`: it runs one that others trained from the version.
 * - `newer`: such a one was given to it after the rollout was created, so it keeps that.
 * - `other`: anything else, or nothing.
 */
export type Standing = "has" | "goes back" | "newer" | "other";
type Known = Pick<DeviceSummary, "device" | "active" | "assigned">;
type Repository = Pick<FleetRepository, "get" | "claim" | "descendants">;

/** A rollout's version on a line; without a time of creation it is planned only. */
export interface RolledOut {
  readonly line: string;
  readonly versionId: Hash;
  readonly createdAtMs?: number;
}

/** Returns the function that says how devices stand to the version. */
export function standingsOf(
  repository: Repository,
  { line, versionId, createdAtMs }: RolledOut,
): (device: Known) => Standing {
  const { descendants } = repository.descendants(versionId);
  const family = new Set(descendants.map(({ version }) => version.versionId));
  return ({ device, active, assigned }) => {
    const runs = active[line]?.versionId;
    if (runs === undefined) return "other";
    const { given, own } = originOf(repository, device, runs);
    if (given.has(versionId) || own.has(versionId)) return "has";
    const later = [...given].filter((id) => family.has(id));
    if (later.length === 0) return "other";
    const newest = assigned?.[line];
    const isNewer =
      newest !== undefined && later.includes(newest.versionId) && newest.atMs > (createdAtMs ?? Infinity);
    return isNewer ? "newer" : "goes back";
  };
}

/**
 * Walks back from what a device runs over the versions that it trained itself.
 * @returns those, and the versions that it was given to begin with
 */
function originOf(
  repository: Repository,
  device: string,
  runs: Hash,
): { readonly given: ReadonlySet<Hash>; readonly own: ReadonlySet<Hash> } {
  const given = new Set<Hash>();
  const own = new Set<Hash>();
  const waiting = [runs];
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    if (own.has(id) || given.has(id)) continue;
    const record = (repository.get(id) ?? repository.claim(id))?.record;
    if (record?.device !== device) given.add(id);
    else {
      own.add(id);
      waiting.push(...record.bases);
    }
  }
  return { given, own };
}
