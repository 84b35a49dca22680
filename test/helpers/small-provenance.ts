/** A small provenance with one committed member, and its openings, for tests that only carry them. */
import { makeProvenance, type ProvenanceObjects } from "../../shared/provenance/make-provenance.js";
import { objectId } from "../../shared/tensor/hash.js";

export function smallProvenance(seed: number): ProvenanceObjects {
  return makeProvenance(
    {
      engine: undefined,
      recipe: undefined,
      exactness: "none",
      bases: [],
      data: [],
      environment: objectId("environment", new Uint8Array()),
    },
    { notes: { seed } },
    { bytes: (count) => new Uint8Array(count).fill(seed) },
  );
}
