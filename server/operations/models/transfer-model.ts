/**
 * Transfer (EvoStore, EV1): finds the nearest ancestor of an architecture and leases what a child takes over from it,
 * in one step. The child's tensors are then read under the lease (`recover`), and what a training changed is saved
 * under it (`import`), which ends it.
 */
import { isStemmaError } from "../../../shared/errors.js";
import { byOf, type Caller } from "../../../shared/journal/caller.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import type { Transfer } from "../../interface/api/models/lineage-definitions.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { askedArchitecture, nearestTo } from "./nearest-model.js";

const defaultMinutes = 60;
/** The tries to lease one of the nearest models, which a collection may remove between question and lease. */
const maxTries = 4;

/** @throws as nearestModel; NOT_ALLOWED where too many leases are held */
export async function startTransfer(
  repository: FleetRepository,
  { minutes = defaultMinutes, ...question }: Omit<OperationInput<"transfer">, "fleet">,
  caller?: Caller,
): Promise<Transfer> {
  const asked = await askedArchitecture(repository, question);
  for (let tries = 1; ; tries++) {
    try {
      const answer = await nearestTo(repository, asked);
      const { nearest } = answer;
      if (nearest === null) return { ...answer, nearest, lease: null, frozen: [] };
      const frozen = nearest.prefix.map((layer) => asked.names?.layers?.[layer] ?? `${layer}`);
      const childNames = new Map(asked.paths.map((path, i) => [path, asked.names?.leaves[i] ?? path]));
      const tensors = nearest.tensors.map(({ path, ancestor }) => ({
        path: ancestor,
        name: childNames.get(path) ?? path,
      }));
      const objects = await objectsFor(
        repository,
        nearest.versionId,
        new Set(tensors.map(({ path }) => path)),
      );
      const lease = await repository.leases.grant(
        { versionId: nearest.versionId, objects, tensors, ...byOf({ by: caller }) },
        minutes * 60_000,
      );
      const { prefix: _, ...shown } = nearest;
      return {
        ...answer,
        nearest: {
          ...shown,
          tensors: shown.tensors.map((tensor) => ({
            ...tensor,
            childName: childNames.get(tensor.path) ?? tensor.path,
          })),
        },
        lease: { id: lease.id, expiresAtMs: lease.expiresAtMs },
        frozen,
      };
    } catch (error) {
      const isGone = isStemmaError(error, "OBJECT_MISSING") || isStemmaError(error, "MODEL_RETIRED");
      if (!isGone || tries === maxTries) throw error;
    }
  }
}

/** Returns the objects that a recovery of these leaves reads, and a save with the version as base. */
async function objectsFor(
  repository: FleetRepository,
  versionId: Hash,
  paths: ReadonlySet<string>,
): Promise<readonly Hash[]> {
  const { record } = repository.resolve(versionId);
  const leaves = await repository.leaves(versionId);
  await repository.ensureTensors(versionId);
  const { tree, names, ownerMap, environment, architecture } = record.objects;
  const tensors = leaves.filter(({ path }) => paths.has(path)).map(({ tensor }) => tensor);
  const others = [tree, names, ownerMap, environment, ...(architecture === undefined ? [] : [architecture])];
  return [...new Set([...others, ...tensors])];
}
