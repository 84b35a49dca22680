/** Operations on the lineage of models. */
import { turnAfter } from "../../../shared/concurrency/in-steps.js";
import { defined } from "../../../shared/defined.js";
import { decodeNames } from "../../../shared/model/names.js";
import { decodeOwnerMap, ownerOf } from "../../../shared/model/owner-map.js";
import { tensorByteLength } from "../../../shared/tensor/dtype.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type {
  LineageGraph,
  OwnerPage,
  Successors,
  TensorOwner,
} from "../../interface/api/models/lineage-definitions.js";
import type { OperationInput, ServerOperations } from "../../interface/api/server-operations.js";
import { defaultLimit } from "../../storage/catalog/version-query.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { DeclaredRelation } from "../../storage/repository/state/successors.js";
import { makerOf } from "../../storage/repository/state/version-state.js";

type LineageOperations = Pick<
  ServerOperations,
  "descendants" | "commonAncestor" | "lineage" | "transfer" | "owners" | "successors" | "setSuccessor"
>;

export function lineageOperations({ fleets, home, caller }: OperationsContext): LineageOperations {
  return {
    descendants: async ({ fleet, model, offset, limit = defaultLimit }) => {
      const repository = await fleets.get(fleet);
      return repository.descendants(repository.resolve(model).versionId, { offset: offset ?? 0, limit });
    },
    commonAncestor: async ({ fleet, a, b }) => {
      const repository = await fleets.get(fleet);
      const ids = [a, b].map((model) => repository.resolve(model).versionId) as [Hash, Hash];
      return repository.commonAncestor(...ids) ?? null;
    },
    lineage: async ({ fleet, model, ...query }) => {
      const repository = await fleets.get(fleet);
      return lineageOf(repository, repository.resolve(model).versionId, query);
    },
    owners: async ({ fleet, model, ...query }) => {
      const repository = await fleets.get(fleet);
      return ownersOf(repository, repository.resolve(model), query);
    },
    transfer: async ({ fleet, ...question }) =>
      (await import("./transfer-model.js")).startTransfer(await fleets.get(fleet), question, caller),
    successors: async ({ fleet, model }) => {
      const repository = await fleets.get(fleet);
      return relationsOf(repository, repository.resolve(model).versionId);
    },
    setSuccessor: async ({ fleet, model, successor, remove = false, because = "" }) => {
      const repository = await fleets.get(fleet);
      const { versionId } = repository.resolve(model);
      const next = repository.resolve(successor).versionId;
      const isDeclared = repository.successors(versionId).some((known) => known.versionId === next);
      if (isDeclared === remove)
        await repository.append({
          type: "succeeded",
          atMs: home.ports.clock.now(),
          versionId,
          successor: next,
          ...(remove ? { removed: true } : {}),
          because,
        });
      return relationsOf(repository, versionId);
    },
  };
}

function relationsOf(repository: FleetRepository, versionId: Hash): Successors {
  const named = (relation: DeclaredRelation): Successors["after"][number] => ({
    ...namedIn(repository, relation.versionId),
    ...defined({ declared: relation.declared }),
  });
  return {
    versionId,
    before: repository.predecessors(versionId).map(named),
    after: repository.successors(versionId).map(named),
  };
}

/** Newest first: a version is recorded after its bases. */
function lineageOf(
  repository: FleetRepository,
  versionId: Hash,
  {
    offset = 0,
    limit = defaultLimit,
    descendants = false,
  }: Omit<OperationInput<"lineage">, "fleet" | "model">,
): LineageGraph {
  const later = descendants ? repository.descendants(versionId).descendants : [];
  const versions = [...repository.lineage(versionId), ...later.map(({ version }) => version)];
  versions.sort((a, b) => b.position - a.position);
  return {
    versions: versions.slice(offset, offset + limit).map((summary) => {
      const { name, version, state, tags, held, record, recordedAtMs, ownBytes, storedBytes } = summary;
      return {
        versionId: summary.versionId,
        name,
        version,
        state,
        tags,
        held,
        device: makerOf(summary, record),
        line: record.line,
        savedAtMs: record.savedAtMs,
        clockErrorMs: record.clockErrorMs,
        recordedAtMs,
        ownBytes,
        ...defined({ storedBytes }),
        bases: record.bases,
        after: repository.predecessors(summary.versionId).map((relation) => relation.versionId),
      };
    }),
    total: versions.length,
  };
}

interface NamedState {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
  readonly state: string;
}

function namedIn(repository: FleetRepository, versionId: Hash): NamedState {
  const { name, version, state } = repository.get(versionId) ?? {
    name: "(not known here)",
    version: 0,
    state: "unknown",
  };
  return { versionId, name, version, state };
}

/**
 * Finds owners from the owner map alone (EvoStore, EV8), and from the bases: an ancestor of which no tensor
 * is left is not in the map.
 */
async function ownersOf(
  repository: FleetRepository,
  { versionId, record }: VersionSummary,
  { offset = 0, limit = defaultLimit, all = false }: Omit<OperationInput<"owners">, "fleet" | "model">,
): Promise<OwnerPage> {
  const leaves = await repository.leaves(versionId);
  await turnAfter(leaves);
  const names = decodeNames(await repository.objects.read("names", record.objects.names), leaves.length);
  await turnAfter(leaves);
  const map = decodeOwnerMap(
    await repository.objects.read("owner-map", record.objects.ownerMap),
    leaves.length,
  );
  const tensors = new Map<Hash, TensorOwner["tensors"][number][]>();
  for (const [index, { path, dtype, shape }] of leaves.entries()) {
    const owner = ownerOf(map, index, versionId);
    const tensor = { path, name: names.leaves[index] ?? path, bytes: tensorByteLength(dtype, shape) };
    const owned = tensors.get(owner);
    if (owned === undefined) tensors.set(owner, [tensor]);
    else owned.push(tensor);
  }
  const generations = repository.generations(versionId);
  const ids = new Set([...(all ? generations.keys() : []), ...tensors.keys()]);
  const positionOf = (id: Hash): number => repository.get(id)?.position ?? -1;
  const newestFirst = [...ids].sort((a, b) => positionOf(b) - positionOf(a));
  return {
    versionId,
    owners: newestFirst.slice(offset, offset + limit).map((id) => ({
      ...namedIn(repository, id),
      savedAtMs: repository.get(id)?.record.savedAtMs ?? null,
      clockErrorMs: repository.get(id)?.record.clockErrorMs ?? null,
      recordedAtMs: repository.get(id)?.recordedAtMs ?? null,
      generation: generations.get(id) ?? null,
      bytes: (tensors.get(id) ?? []).reduce((sum, { bytes }) => sum + bytes, 0),
      tensors: tensors.get(id) ?? [],
    })),
    total: ids.size,
    withoutTensors: [...generations.keys()].filter((id) => !tensors.has(id)).length,
  };
}
