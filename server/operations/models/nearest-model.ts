/**
 * Finds the stored model that an architecture shares the most layers with, and what it can take over (EvoStore, EV1).
 */
import { nameOneOf } from "../../../shared/missing-errors.js";
import { weightSlots } from "../../../shared/model/architecture.js";
import { commonPrefix } from "../../../shared/model/common-prefix.js";
import { readModelJson } from "../../../shared/model/model-json.js";
import { decodeNames } from "../../../shared/model/names.js";
import type { Architecture, Names } from "../../../shared/model/model.js";
import { tensorByteLength } from "../../../shared/tensor/dtype.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import type { NearestModel } from "../../interface/api/models/nearest-schemas.js";
import { requireArchitecture } from "../../services/context/require-architecture.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

type Question = Omit<OperationInput<"nearest">, "fleet">;

/** @throws USAGE, MODEL_NOT_FOUND, MODEL_RETIRED, MODEL_OPAQUE; for a model.json what readModelJson throws */
export async function nearestModel(repository: FleetRepository, question: Question): Promise<NearestModel> {
  const { nearest, ...answer } = await nearestTo(repository, await askedArchitecture(repository, question));
  if (nearest === null) return { ...answer, nearest };
  const { prefix: _, ...shown } = nearest;
  return { ...answer, nearest: shown };
}

/** The nearest model with the child's layers that both have. */
export interface NearestTo extends Omit<NearestModel, "nearest"> {
  readonly nearest:
    | (NonNullable<NearestModel["nearest"]> & {
        /** Indices of the child's layers. */
        readonly prefix: readonly number[];
      })
    | null;
}

export async function nearestTo(
  repository: FleetRepository,
  { architecture, except, rank }: AskedArchitecture,
): Promise<NearestTo> {
  const { nearest: longest, indexed } = await repository.nearest(architecture, except);
  const nearest = rank === undefined ? longest : await repository.rankedSource(architecture, rank, except);
  const layers = architecture.layers.length;
  const summary = nearest === undefined ? undefined : repository.get(nearest.versionId);
  if (nearest === undefined || summary === undefined) return { layers, indexed, nearest: null };
  const prefix = commonPrefix(architecture, nearest.architecture);
  const leaves = await repository.leaves(nearest.versionId);
  const names = decodeNames(
    await repository.objects.read("names", summary.record.objects.names),
    leaves.length,
  );
  const byPath = new Map(leaves.map((leaf, index) => [leaf.path, { leaf, name: names.leaves[index] }]));
  return {
    layers,
    indexed,
    nearest: {
      versionId: nearest.versionId,
      name: summary.name,
      version: summary.version,
      layers: nearest.layers,
      ofLayers: nearest.architecture.layers.length,
      prefix: prefix.layers.map(({ child }) => child),
      tensors: prefix.weights.flatMap(({ child, ancestor }) => {
        const found = byPath.get(ancestor);
        if (found === undefined) return [];
        const { leaf, name = ancestor } = found;
        return [{ path: child, ancestor, name, bytes: tensorByteLength(leaf.dtype, leaf.shape) }];
      }),
    },
  };
}

/** The architecture that asks, with its names and the paths of its weights. */
export interface AskedArchitecture {
  readonly architecture: Architecture;
  readonly names?: Names;
  readonly paths: readonly string[];
  readonly except?: Hash;
  readonly rank?: string | undefined;
}

/** @throws USAGE, MODEL_NOT_FOUND, MODEL_RETIRED, MODEL_OPAQUE; for a model.json what readModelJson throws */
export async function askedArchitecture(
  repository: FleetRepository,
  { model, modelJson, rank }: Question,
): Promise<AskedArchitecture> {
  if ((model === undefined) === (modelJson === undefined))
    throw nameOneOf("a model of the fleet", "a model.json");
  if (modelJson !== undefined) {
    const { architecture, names } = readModelJson(Buffer.from(JSON.stringify(modelJson)));
    return { architecture, names, paths: pathsOf(architecture), rank };
  }
  const summary = repository.resolve(model as string);
  const id = requireArchitecture(summary);
  const architecture = await repository.architecture(id);
  const paths = pathsOf(architecture);
  const names = decodeNames(
    await repository.objects.read("names", summary.record.objects.names),
    paths.length,
  );
  return { architecture, names, paths, except: summary.versionId, rank };
}

function pathsOf(architecture: Architecture): readonly string[] {
  return weightSlots(architecture).map(({ path }) => path);
}
