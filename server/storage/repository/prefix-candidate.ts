/** The part of a version by which the search for a nearest ancestor compares it with others. */
import { isStemmaError } from "../../../shared/errors.js";
import {
  decodeMetadata,
  inheritableKey,
  qualityKey,
  type ModelMetadata,
} from "../../../shared/model/metadata.js";
import type { SaveRecord } from "../../../shared/model/model.js";
import type { ObjectReader } from "../../../shared/objects/object-store.js";
import type { Log } from "../../../shared/ports.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { CandidateTable } from "../lineage/candidate-table.js";
import type { PrefixCandidate } from "../lineage/prefix-index.js";
import type { VersionState } from "./state/version-state.js";

export interface ReadCandidate extends PrefixCandidate {
  readonly architecture: Hash;
}

interface CandidateSource {
  readonly objects: Pick<ObjectReader, "read">;
  readonly log: Log | undefined;
}

/**
 * Returns undefined for a version without an architecture, and for one that says itself that nothing is to be
 * inherited from it.
 */
export async function candidateOf(
  source: CandidateSource,
  versionId: Hash,
  { objects: { architecture, metadata }, savedAtMs }: Pick<SaveRecord, "objects" | "savedAtMs">,
): Promise<ReadCandidate | undefined> {
  if (architecture === undefined) return undefined;
  const { [qualityKey]: quality, [inheritableKey]: isInheritable } = await metadataOf(source, metadata);
  if (isInheritable === false) return undefined;
  return {
    id: versionId,
    architecture,
    savedAtMs,
    quality: typeof quality === "number" ? quality : undefined,
  };
}

/** Call in journal order. A version that was retired meanwhile is left out. */
export function addCandidate(
  { candidates }: { readonly candidates: CandidateTable },
  { position, retired }: Pick<VersionState, "position" | "retired">,
  candidate: ReadCandidate | undefined,
): void {
  if (candidate !== undefined && retired === undefined)
    candidates.add(position, candidate.architecture, candidate);
}

/** Empty where a version has none, and where they cannot be read. */
async function metadataOf(
  { objects, log }: CandidateSource,
  metadata: Hash | undefined,
): Promise<ModelMetadata> {
  if (metadata === undefined) return {};
  try {
    return decodeMetadata(await objects.read("metadata", metadata));
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    log?.warn("metadata-unreadable", { metadata, error });
    return {};
  }
}
