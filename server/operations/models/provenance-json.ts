/** The provenance of a version as JSON, and the differences of two. */
import { decodeCanonical, type CanonicalValue } from "../../../shared/model/canonical-json.js";
import { decodeEnvironment, type Environment } from "../../../shared/model/environment.js";
import type { SaveRecord } from "../../../shared/model/model.js";
import { diffProvenance, viewOf, type DiffLabels } from "../../../shared/provenance/diff-provenance.js";
import { plainOf } from "../../../shared/provenance/plain-value.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { ProvenanceDiffJson } from "../../interface/api/models/version-schemas.js";
import { readOpenedProvenance, type ProvenanceStore } from "../../services/context/opened-provenance.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";

/** All that can be seen of a version's provenance; undefined where it has none. @throws OPENINGS_MISMATCH */
export async function provenanceJson(
  repository: ProvenanceStore,
  own: SaveRecord["objects"],
): Promise<unknown> {
  const opened = await readOpenedProvenance(repository, own);
  if (opened !== undefined) return { format: 1, ...(plainOf(viewOf(opened) as CanonicalValue) as object) };
  return own.provenance === undefined
    ? undefined
    : jsonOf(await repository.objects.read("provenance", own.provenance));
}

/** Compares two provenances; undefined where one of the versions has none of format 1. @throws OPENINGS_MISMATCH */
export async function provenanceDiffJson(
  repository: ProvenanceStore,
  a: VersionSummary,
  b: VersionSummary,
  labels: DiffLabels,
): Promise<ProvenanceDiffJson | undefined> {
  const [first, second] = [
    await readOpenedProvenance(repository, a.record.objects),
    await readOpenedProvenance(repository, b.record.objects),
  ];
  if (first === undefined || second === undefined) return undefined;
  const environments = [
    await readEnvironment(repository, first.provenance.environment),
    await readEnvironment(repository, second.provenance.environment),
  ] as const;
  const { differences, redacted, sameStory } = diffProvenance(first, second, {
    labels,
    environments: hasBoth(environments) ? environments : undefined,
  });
  return {
    differences: plainOf(differences) as ProvenanceDiffJson["differences"],
    redacted,
    sameStory,
  };
}

/** The environment of a version; undefined where it is not stored here, as of a claim. */
async function readEnvironment({ objects }: ProvenanceStore, id: Hash): Promise<Environment | undefined> {
  return objects.has(id) ? decodeEnvironment(await objects.read("environment", id)) : undefined;
}

function hasBoth<Value>(
  pair: readonly [Value | undefined, Value | undefined],
): pair is readonly [Value, Value] {
  return pair.every((each) => each !== undefined);
}

/** Parses what a device or a training wrote as JSON; returns it as text where it is not JSON. */
export function jsonOf(bytes: Uint8Array): unknown {
  const text = Buffer.from(bytes).toString("utf8");
  // Canonical JSON writes doubles as their bits; callers get the numbers.
  try {
    return plainOf(decodeCanonical(bytes));
  } catch {
    /* other JSON, or not JSON */
  }
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text.slice(0, 4096);
  }
}
