/** The port through which queries look at a fleet, and what they know of a version. Types only. */
import type { ModelMetadata } from "../../../shared/model/metadata.js";
import type { Architecture, Names } from "../../../shared/model/model.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { FoundRows, RowFilter, VersionRow } from "../../storage/repository/row-keeper.js";
import type { Network } from "./network.js";

/** A version's network with its names, as they are stored. */
export interface StoredNetwork {
  readonly architecture: Architecture;
  readonly names: Names;
}

/** The values of a figure in the order of their iterations; null: not finite. */
export interface Course {
  readonly iterations: readonly number[];
  readonly values: readonly (number | null)[];
}
export type Courses = ReadonlyMap<string, Course>;

/** The values that are read from a version's objects, the cheapest first. */
export interface Facets {
  readonly metadata: ModelMetadata;
  readonly recipe: string;
  readonly network: Network;
  readonly courses: Courses;
}
export type Facet = keyof Facets;
export const facets: readonly Facet[] = ["metadata", "recipe", "network", "courses"];

/** A version that a variable may stand for. A facet is absent before it is loaded, and where the version has none. */
export interface Candidate extends Partial<Facets> {
  readonly row: VersionRow;
}

export interface QuerySource {
  find(filter: RowFilter): Promise<FoundRows>;
  /** Loads a facet. @returns the versions of which it cannot be read */
  load(facet: Facet, candidates: readonly Candidate[]): Promise<readonly Hash[]>;
  /** The network of a version as it is stored; undefined: none is known. @throws what reading it throws */
  storedNetwork(row: VersionRow): Promise<StoredNetwork | undefined>;
  /** The inheritable version that has the most layers in common with an architecture, from the inputs on. */
  nearest(architecture: Architecture): Promise<Hash | undefined>;
  /** The version that a reference means. @throws MODEL_NOT_FOUND, MODEL_AMBIGUOUS, MODEL_RETIRED */
  resolve(reference: string): Hash;
  basesOf(versionId: Hash): readonly Hash[];
  childrenOf(versionId: Hash): Iterable<Hash>;
  /** Texts of saved queries by their names; absent: there are none. */
  readonly saved?: ReadonlyMap<string, string>;
  now(): number;
}
