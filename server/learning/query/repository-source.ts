/**
 * Queries on an open repository. What was read of an object is kept for the next query: objects never change, and
 * many versions share metadata, networks and names.
 */
import { LRUCache } from "lru-cache";
import { mapConcurrent } from "../../../shared/concurrency/map-concurrent.js";
import { isStemmaError } from "../../../shared/errors.js";
import { decodeArchitecture, weightSlots } from "../../../shared/model/architecture.js";
import { decodeMetadata } from "../../../shared/model/metadata.js";
import { decodeNames } from "../../../shared/model/names.js";
import type { Clock } from "../../../shared/ports.js";
import { sha256 } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { readOpenedProvenance } from "../../services/context/opened-provenance.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { VersionRow } from "../../storage/repository/row-keeper.js";
import { coursesOf, sizeOfCourses } from "./courses.js";
import { networkOf, type Network } from "./network.js";
import type { Candidate, Facet, Facets, QuerySource, StoredNetwork } from "./query-source.js";

/** Memory that each facet's values may take, as estimated. */
const maxKeptBytes = 64 * 1024 * 1024;
const maxConcurrentReads = 8;

interface Read<Value> {
  readonly value: Value;
  readonly bytes: number;
}
interface FacetReader<Value> {
  /** The objects that it is read of, as one text; undefined: the version has none. */
  readonly keyOf: (row: VersionRow) => string | undefined;
  readonly read: (row: VersionRow) => Promise<Read<Value> | undefined>;
}
type Readers = { readonly [Name in Facet]: FacetReader<Facets[Name]> };
type Kept = LRUCache<string, Read<Facets[Facet]>>;

/** The values of a repository's objects, while it is open. */
const keptValues = new WeakMap<FleetRepository["objects"], Readonly<Record<Facet, Kept>>>();

function keptOf({ objects }: FleetRepository): Readonly<Record<Facet, Kept>> {
  const kept = keptValues.get(objects);
  if (kept !== undefined) return kept;
  const empty = (): Kept =>
    new LRUCache({ maxSize: maxKeptBytes, sizeCalculation: ({ bytes }) => bytes + 500 });
  const made = { metadata: empty(), recipe: empty(), network: empty(), courses: empty() };
  keptValues.set(objects, made);
  return made;
}

export async function repositorySource(
  repository: FleetRepository,
  clock: Pick<Clock, "now">,
  rank?: string,
): Promise<QuerySource> {
  const kept = keptOf(repository);
  const readers = readersOf(repository);
  const rows = await repository.rows();
  return {
    find: (filter) => rows.find(filter),
    load: (facet, candidates) => loadFacet(facet, candidates, { reader: readers[facet], kept: kept[facet] }),
    nearest: async (architecture) =>
      (rank === undefined
        ? (await repository.nearest(architecture)).nearest
        : await repository.rankedSource(architecture, rank)
      )?.versionId,
    storedNetwork: async ({ network }) =>
      network === undefined ? undefined : await readStored(network, repository.objects),
    resolve: (reference) => repository.resolve(reference).versionId,
    basesOf: (versionId) => rows.basesOf(versionId),
    childrenOf: (versionId) => rows.childrenOf(versionId),
    saved: new Map(repository.savedQueries().map(({ name, text }) => [name, text])),
    now: () => clock.now(),
  };
}

async function loadFacet(
  facet: Facet,
  candidates: readonly Candidate[],
  { reader, kept }: { readonly reader: FacetReader<Facets[Facet]>; readonly kept: Kept },
): Promise<readonly Hash[]> {
  const missing = new Map<string, Candidate[]>();
  const found = new Map<string, Facets[Facet]>();
  const put = (candidate: Candidate, value: Facets[Facet]): void => {
    Object.assign(candidate, { [facet]: value });
  };
  for (const candidate of candidates) {
    const key = candidate[facet] === undefined ? reader.keyOf(candidate.row) : undefined;
    if (key === undefined) continue;
    const known = found.get(key) ?? kept.get(key)?.value;
    if (known === undefined) {
      const same = missing.get(key);
      if (same === undefined) missing.set(key, [candidate]);
      else same.push(candidate);
    } else {
      found.set(key, known);
      put(candidate, known);
    }
  }
  const failed = await mapConcurrent(missing, maxConcurrentReads, async ([key, same]) => {
    try {
      const read = await reader.read((same[0] as Candidate).row);
      if (read === undefined) return [];
      kept.set(key, read);
      for (const candidate of same) put(candidate, read.value);
      return [];
    } catch (error) {
      // One version that cannot be read does not keep a query from answering; the answer tells how many there were.
      if (!isStemmaError(error)) throw error;
      return same.map(({ row }) => row.versionId);
    }
  });
  return failed.flat();
}

function readersOf(repository: FleetRepository): Readers {
  const { objects } = repository;
  return {
    metadata: {
      keyOf: ({ objects: own }) => own.metadata,
      read: async ({ objects: own }) => {
        const bytes = await objects.read("metadata", own.metadata as Hash);
        return { value: decodeMetadata(bytes), bytes: 2 * bytes.length };
      },
    },
    recipe: {
      keyOf: ({ objects: own }) => own.provenance,
      read: async ({ objects: own }) => {
        const recipe = (await readOpenedProvenance(repository, own))?.provenance.recipe;
        if (recipe === undefined) return undefined;
        return { value: "bundle" in recipe ? recipe.bundle : recipe.name, bytes: 64 };
      },
    },
    network: {
      keyOf: ({ network }) => network,
      read: ({ network = "" }) => readNetwork(network, objects),
    },
    courses: {
      keyOf: ({ objects: own }) => own.measurements,
      read: async ({ objects: own }) => {
        const value = coursesOf(await objects.read("measurements", own.measurements as Hash));
        return { value, bytes: sizeOfCourses(value) };
      },
    },
  };
}

/** Architecture and layers' names → the network, also where the objects with the names differ in something else. */
const sharedNetworks = new LRUCache<string, Read<Network>>({
  maxSize: maxKeptBytes,
  sizeCalculation: ({ bytes }) => bytes + 500,
});

async function readNetwork(network: string, objects: FleetRepository["objects"]): Promise<Read<Network>> {
  const [architectureId = ""] = network.split(" ");
  const { architecture, names, bytes } = await readStored(network, objects);
  const { layers = [] } = names;
  const key = `${architectureId} ${sha256(layers.join("\0"))}`;
  const known = sharedNetworks.get(key);
  if (known !== undefined) return known;
  const read = { value: networkOf(architecture, layers), bytes: 4 * bytes };
  sharedNetworks.set(key, read);
  return read;
}

/** @param network ids of architecture and names. @returns the size of the architecture's object too */
async function readStored(
  network: string,
  objects: FleetRepository["objects"],
): Promise<StoredNetwork & { readonly bytes: number }> {
  const [architectureId, namesId] = network.split(" ") as [Hash, Hash];
  const bytes = await objects.read("architecture", architectureId);
  const architecture = decodeArchitecture(bytes);
  const names = decodeNames(await objects.read("names", namesId), weightSlots(architecture).length);
  return { architecture, names, bytes: bytes.length };
}
