/**
 * Finds the stored model that an architecture shares the most layers with, and what it can take over (EvoStore, EV1).
 */
import { LRUCache } from "lru-cache";
import { defined } from "../../../shared/defined.js";
import { nameOneOf } from "../../../shared/missing-errors.js";
import { weightSlots } from "../../../shared/model/architecture.js";
import { commonPrefix } from "../../../shared/model/common-prefix.js";
import { readModelJson } from "../../../shared/model/model-json.js";
import { decodeNames } from "../../../shared/model/names.js";
import type { Architecture, Names, SaveRecord } from "../../../shared/model/model.js";
import { tensorByteLength } from "../../../shared/tensor/dtype.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import type { NearestModel } from "../../interface/api/models/nearest-schemas.js";
import { requireArchitecture } from "../../services/context/require-architecture.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

type Question = Omit<OperationInput<"nearest">, "fleet">;

/** @throws USAGE, MODEL_NOT_FOUND, MODEL_RETIRED, MODEL_OPAQUE; for a model.json what readModelJson throws */
export async function nearestModel(repository: FleetRepository, question: Question): Promise<NearestModel> {
  const { nearest, ...answer } = await nearestTo(repository, await readArchitecture(repository, question));
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
  { architecture, except, rank }: Omit<AskedArchitecture, "paths">,
): Promise<NearestTo> {
  const { nearest: longest, indexed } = await repository.nearest(architecture, except);
  const nearest = rank === undefined ? longest : await repository.rankedSource(architecture, rank, except);
  const layers = architecture.layers.length;
  const summary = nearest === undefined ? undefined : repository.get(nearest.versionId);
  if (nearest === undefined || summary === undefined) return { layers, indexed, nearest: null };
  const prefix = commonPrefix(architecture, nearest.architecture);
  // A version is recorded only where its leaves are exactly its architecture's weights.
  const weights = weightSlots(nearest.architecture);
  const names = await namesOf(repository, summary.record, weights.length);
  const byPath = new Map(
    weights.map((weight, index) => [weight.path, { weight, name: names.leaves[index] }]),
  );
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
        const { weight, name = ancestor } = found;
        return [{ path: child, ancestor, name, bytes: tensorByteLength(weight.dtype, weight.shape) }];
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
  question: Question,
): Promise<AskedArchitecture> {
  const { record, names, ...asked } = await readArchitecture(repository, question);
  const paths = weightSlots(asked.architecture).map(({ path }) => path);
  if (record === undefined) return { ...asked, ...defined({ names }), paths };
  return { ...asked, names: await namesOf(repository, record, paths.length), paths };
}

/** An architecture that asks: a stored model's, whose names are in the store, or that of a model.json. */
interface ReadArchitecture extends Omit<AskedArchitecture, "paths"> {
  readonly record?: SaveRecord;
}

async function readArchitecture(
  repository: FleetRepository,
  { model, modelJson, rank }: Question,
): Promise<ReadArchitecture> {
  if ((model === undefined) === (modelJson === undefined))
    throw nameOneOf("a model of the fleet", "a model.json");
  if (modelJson !== undefined) return { ...readModelJson(Buffer.from(JSON.stringify(modelJson))), rank };
  const summary = repository.resolve(model as string);
  const architecture = await repository.architecture(requireArchitecture(summary));
  return { architecture, record: summary.record, except: summary.versionId, rank };
}

/** Bytes of the lists of names that are kept, counted as characters. */
const keptCharacters = 1024 * 1024;
/** Fleet and id of the object → names as they were decoded last: the versions of a line share them. */
const keptNames = new LRUCache<string, Names>({
  maxSize: keptCharacters,
  sizeCalculation: ({ leaves, layers = [] }) =>
    1 + [...leaves, ...layers].reduce((sum, { length }) => sum + length, 0),
});

async function namesOf(
  { home, fleet, objects }: FleetRepository,
  { objects: { names: id } }: SaveRecord,
  leaves: number,
): Promise<Names> {
  const key = [home, fleet, id, leaves].join("\0");
  const known = keptNames.get(key);
  if (known !== undefined) return known;
  const names = decodeNames(await objects.read("names", id), leaves);
  // What a file's header adds is not counted.
  if (names.fileHeader === undefined && names.fileMetadata === undefined) keptNames.set(key, names);
  return names;
}
