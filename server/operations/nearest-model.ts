/** Which stored model an architecture shares the most layers with, and what it can take over (EvoStore, EV1). */
import { StemmaError } from "../../shared/errors.js";
import { decodeArchitecture } from "../../shared/model/architecture.js";
import { commonPrefix } from "../../shared/model/common-prefix.js";
import { readModelJson } from "../../shared/model/model-json.js";
import { decodeNames } from "../../shared/model/names.js";
import type { Architecture } from "../../shared/model/model.js";
import { tensorByteLength } from "../../shared/tensor/dtype.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { OperationInput } from "../api/server-operations.js";
import type { NearestModel } from "../api/nearest-schemas.js";
import { requireArchitecture } from "../context/require-architecture.js";
import type { FleetRepository } from "../repository/fleet-repository.js";

type Question = Omit<OperationInput<"nearest">, "fleet">;

/** @throws USAGE, MODEL_NOT_FOUND, MODEL_RETIRED, MODEL_OPAQUE; for a model.json what readModelJson throws */
export async function nearestModel(repository: FleetRepository, question: Question): Promise<NearestModel> {
  const { architecture, except } = await askedArchitecture(repository, question);
  const { nearest, indexed } = await repository.nearest(architecture, except);
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
      tensors: prefix.weights.flatMap(({ child, ancestor }) => {
        const found = byPath.get(ancestor);
        if (found === undefined) return [];
        const { leaf, name = ancestor } = found;
        return [{ path: child, ancestor, name, bytes: tensorByteLength(leaf.dtype, leaf.shape) }];
      }),
    },
  };
}

async function askedArchitecture(
  repository: FleetRepository,
  { model, modelJson }: Question,
): Promise<{ readonly architecture: Architecture; readonly except?: Hash }> {
  if ((model === undefined) === (modelJson === undefined))
    throw new StemmaError("USAGE", "Give either a model of the fleet or a model.json, not both.");
  if (modelJson !== undefined)
    return { architecture: readModelJson(Buffer.from(JSON.stringify(modelJson))).architecture };
  const summary = repository.resolve(model as string);
  const id = requireArchitecture(summary);
  return {
    architecture: decodeArchitecture(await repository.objects.read("architecture", id)),
    except: summary.versionId,
  };
}
