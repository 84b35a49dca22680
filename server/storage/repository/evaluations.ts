/** Evaluations of a fleet's versions: objects, referenced by facts (ME4). */
import { defined } from "../../../shared/defined.js";
import { StemmaError } from "../../../shared/errors.js";
import type { ObjectReader } from "../../../shared/objects/object-store.js";
import {
  decodeEvaluation,
  encodeEvaluation,
  type StoredEvaluation,
} from "../../../shared/provenance/stored-evaluation.js";
import { objectId } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { RepositoryContext } from "./context.js";
import type { EvaluationState } from "./state/evaluation-state.js";
import { versionsInUse } from "./state/versions-in-use.js";
import type { VersionState } from "./state/version-state.js";
import { requireKept } from "./versions/diff-versions.js";

/** Long enough for a fact to be written. */
const leaseMs = 10 * 60_000;
/** The largest predictions that are stored with an evaluation; they are read whole. */
export const maxPredictionsBytes = 16 * 1024 * 1024;

/**
 * @param predictions as `stored-evaluation.ts` names them: float32, little-endian
 * @throws MODEL_NOT_FOUND, MODEL_RETIRED, SIZE_OVER_LIMIT
 */
export async function storeEvaluation(
  context: RepositoryContext,
  evaluation: StoredEvaluation,
  predictions?: Uint8Array,
): Promise<EvaluationState> {
  const { objects, clock } = context;
  const { versionId } = evaluation;
  requireKept(context, versionId);
  const bytes = encodeEvaluation(evaluation);
  const parts = [
    ["evaluation", bytes],
    ...(predictions === undefined ? [] : [["predictions", predictions] as const]),
  ] as const;
  const ids = parts.map(([kind, part]) => objectId(kind, part));
  const [object, predicted] = ids as [Hash, Hash | undefined];
  const atMs = clock.now();
  const lease = objects.lease(ids, leaseMs);
  try {
    const pack = await objects.begin();
    try {
      for (const [kind, part] of parts) await pack.put(kind, part);
      await pack.commit();
    } catch (error) {
      await pack.abort();
      throw error;
    }
    await context.queue.submit({
      requiredObjects: ids,
      decide: () => {
        requireKept(context, versionId);
        return [
          {
            type: "evaluated",
            atMs,
            versionId,
            object,
            ...defined({ predictions: predicted }),
          },
        ];
      },
      onApplied: () => {
        context.versionsChanged([versionId]);
      },
    });
  } finally {
    objects.release(lease.id);
  }
  return { object, ...defined({ predictions: predicted }), atMs };
}

export function evaluationsOf(
  { state }: Pick<RepositoryContext, "state">,
  versionIds: Iterable<Hash>,
): ReadonlyMap<Hash, readonly EvaluationState[]> {
  // Finding the retired versions in use takes a look at all versions and devices: once, and only where one is
  // asked for.
  let inUse: ReadonlyMap<Hash, string> | undefined;
  const isKept = (version: VersionState): boolean =>
    version.retired === undefined ||
    version.hold !== undefined ||
    (inUse ??= versionsInUse(state)).has(version.versionId);
  const found = new Map<Hash, readonly EvaluationState[]>();
  for (const versionId of versionIds) {
    const version = state.versions.get(versionId);
    if (version?.evaluations !== undefined && isKept(version)) found.set(versionId, version.evaluations);
  }
  return found;
}

/**
 * @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH; EVALUATION_INVALID where it is malformed, or is not what the fact
 * states
 */
export async function readEvaluation(
  objects: Pick<ObjectReader, "read">,
  versionId: Hash,
  { object, predictions }: Pick<EvaluationState, "object" | "predictions">,
): Promise<StoredEvaluation> {
  const evaluation = decodeEvaluation(await objects.read("evaluation", object));
  if (evaluation.versionId === versionId && evaluation.predictions?.object === predictions) return evaluation;
  throw new StemmaError(
    "EVALUATION_INVALID",
    `The stored evaluation ${object.slice(0, 12)} is of another version than the journal states. Restore the ` +
      "journal from a backup, or evaluate the version again.",
    { object, versionId },
  );
}
