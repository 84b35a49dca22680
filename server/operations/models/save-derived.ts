/**
 * Saves the models that a query derives. Each is one version, saved whole or not at all; one that is there already is
 * not saved again, so a command that was ended is repeated with its seed.
 */
import { defined } from "../../../shared/defined.js";
import { architectureHash, weightSlots } from "../../../shared/model/architecture.js";
import { inheritableKey } from "../../../shared/model/metadata.js";
import type { Leaf, ModelSource, Names } from "../../../shared/model/model.js";
import { contentId, treeRoot } from "../../../shared/model/tree.js";
import { Streams } from "../../../shared/random/streams.js";
import { tensorId } from "../../../shared/tensor/hash.js";
import { sourceOfTensor, type Hash, type TensorSource } from "../../../shared/tensor/tensor.js";
import type {
  DerivedModel as Answer,
  SavedDerivedModels,
} from "../../interface/api/models/query-definitions.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import { derivedModelOf } from "../../learning/query/derive/derived-answer.js";
import type { InheritedWeights } from "../../learning/query/evaluate/plan-evaluation.js";
import type { Derivation, DerivedModel } from "../../learning/query/derive/derive-models.js";
import { initialTensor } from "../../learning/query/derive/initial-weights.js";
import { repositorySource } from "../../learning/query/repository-source.js";
import { runDerivation } from "../../learning/query/run-query.js";
import { drawSeed } from "../../learning/training/kept-trainings.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { requireRoom } from "../../services/context/room-for-models.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

/** @throws as runQuery; RECIPE_PARAMETERS_INVALID for a seed, DISK_FULL, QUOTA_EXCEEDED */
export async function saveDerived(
  context: OperationsContext,
  { fleet, query, seed }: OperationInput<"saveDerived">,
  signal?: AbortSignal,
): Promise<SavedDerivedModels> {
  const { fleets, home } = context;
  const repository = await fleets.get(fleet);
  const derivations = await runDerivation(await repositorySource(repository, home.ports.clock), query);
  const drawing = new Streams(seed ?? drawSeed(home.ports.random.bytes(8)), 0);
  const isDrawn = derivations.some(({ result }) => "drawers" in result && result.drawnBytes > 0);
  const derived: Answer[] = [];
  for (const derivation of derivations) {
    signal?.throwIfAborted();
    const saved = await saveDerivation(context, repository, derivation, { query, seed: drawing.seed });
    derived.push({ ...derivedModelOf(derivation), ...(saved && { saved }) });
  }
  return { seed: isDrawn ? drawing.seed : null, derived };
}

/** Weights of another model, and the lease on it and on the source, which may be retired meanwhile. */
interface LeasedWeights {
  readonly inherited?: InheritedWeights | undefined;
  readonly lease?: string;
}

/** Saves the model of a derivation, unless it is there; undefined: it cannot be made. */
export async function saveDerivation(
  { home, live }: OperationsContext,
  repository: FleetRepository,
  { row: { versionId: source }, name, result }: Derivation,
  { query, seed, ...from }: LeasedWeights & { readonly query: string; readonly seed: string },
): Promise<Answer["saved"]> {
  if ("reason" in result) return undefined;
  const { inherited, lease } = from;
  await repository.ensureTensors(source);
  const inheritable = await inheritableLeaves(repository, source, { model: result, ...from });
  const model = await derivedSource(repository, inheritable, result, new Streams(seed, 0));
  const id = contentId(architectureHash(result.architecture), treeRoot(model.leaves));
  const known = repository
    .versions({ name })
    .find(({ record }) => record.contentId === id && record.bases[0] === source);
  if (known !== undefined) return { versionId: known.versionId, version: known.version, isNew: false };
  await requireRoom(home, result.drawnBytes);
  const { summary } = await repository.save(model, {
    name,
    ...defined({ lease }),
    // The source may have the layers that are inserted, in the same places.
    bases: [...new Set([source, ...(inherited === undefined ? [] : [inherited.row.versionId])])],
    metadata: {
      "commit.message": query.trim(),
      // Other models take over weights that were trained.
      ...(result.drawnBytes === 0 ? {} : { "commit.seed": seed, [inheritableKey]: false }),
    },
  });
  (await live?.fleet(repository.fleet))?.saved(summary.versionId);
  return { versionId: summary.versionId, version: summary.version, isNew: true };
}

/**
 * The stored tensors of a derived model, by their paths in it: of its source, and of the model that has its new layers.
 * They are there when this resolves.
 */
export async function inheritableLeaves(
  repository: FleetRepository,
  source: Hash,
  { model, inherited, lease }: LeasedWeights & { readonly model: DerivedModel },
): Promise<ReadonlyMap<string, Leaf>> {
  const found = new Map<string, Leaf>();
  const add = async (versionId: Hash, paths: Iterable<readonly [string, string]>): Promise<void> => {
    await repository.ensureTensors(versionId);
    const stored = new Map((await repository.leaves(versionId, lease)).map((leaf) => [leaf.path, leaf]));
    for (const [path, from] of paths) {
      const leaf = stored.get(from);
      if (leaf !== undefined) found.set(path, leaf);
    }
  };
  await add(
    source,
    weightSlots(model.architecture).flatMap(({ path }, at) => {
      const from = model.inherited[at];
      return from === undefined ? [] : [[path, from] as const];
    }),
  );
  if (inherited !== undefined) await add(inherited.row.versionId, inherited.paths);
  return found;
}

/** The model with its tensors: those that the store has, and new ones. */
export async function derivedSource(
  { objects }: FleetRepository,
  stored: ReadonlyMap<string, Leaf>,
  result: DerivedModel,
  streams: Streams,
): Promise<ModelSource> {
  const { architecture, names: layers, leafNames, frozenLayers } = result;
  const leaves: Leaf[] = [];
  const sources: TensorSource[] = [];
  for (const [at, slot] of weightSlots(architecture).entries()) {
    const { path, dtype, shape } = slot;
    const inherited = stored.get(path);
    const draw = result.drawers[at];
    if (inherited !== undefined) {
      leaves.push({ path, dtype, shape, tensor: inherited.tensor });
      sources.push(objects.openTensor(inherited.tensor));
    } else if (draw !== undefined) {
      const tensor = await initialTensor(draw, slot, { layerName: layers[slot.layer] ?? "", streams });
      leaves.push({ path, dtype, shape, tensor: tensorId(tensor, tensor.bytes) });
      sources.push(sourceOfTensor(tensor));
    }
  }
  const names: Names = { leaves: leafNames, layers, ...(frozenLayers.length === 0 ? {} : { frozenLayers }) };
  return { kind: "architecture", architecture, leaves, sources, names };
}
