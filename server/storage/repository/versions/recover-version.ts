/** Recovers versions, confirms that they are stored by reading them back, and releases them. */
import { defined } from "../../../../shared/defined.js";
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import { recoverModel } from "../../../../shared/recover/recover-model.js";
import type { EnvironmentPolicy } from "../../../../shared/model/environment.js";
import type { RecoveredPart } from "../../../../shared/recover/recovered-part.js";
import type { RecoveredModel } from "../../../../shared/recover/recovery.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { appendFacts } from "../state/append-facts.js";
import type { RepositoryContext } from "../context.js";
import { requireKept } from "./diff-versions.js";
import type { VersionSummary } from "../answers/version-answers.js";
import { requireVersion } from "../state/version-table.js";
import { verifyVersion } from "./verify-version.js";

export interface RecoverVersionOptions {
  /** Default: the model. */
  readonly part?: RecoveredPart | undefined;
  /** The layers to recover: only their tensors; see shared/recover/selected-leaves.ts. */
  readonly layers?: readonly string[] | undefined;
  /** A lease on the version: it may be retired meanwhile. */
  readonly lease?: string | undefined;
  readonly environment?: EnvironmentPolicy | undefined;
  /** The environment to compare with; that of this process when absent. */
  readonly here?: Readonly<Record<string, string>> | undefined;
}

/** See FleetRepository.recover. The tensors of a dropped version are made again first. */
export async function recoverVersion(
  context: RepositoryContext,
  versionId: Hash,
  options: RecoverVersionOptions = {},
): Promise<RecoveredModel> {
  requireKept(context, versionId, options.lease);
  await context.droppedTensors.ensure(context, versionId);
  try {
    return await recoverModel(context.objects, versionId, context.clock, {
      part: options.part,
      layers: options.layers,
      here: options.here ?? context.environment,
      ...defined({ policy: options.environment }),
    });
  } catch (error) {
    const isGone = isStemmaError(error, "RECOVERY_INCOMPLETE") || isStemmaError(error, "OBJECT_MISSING");
    const { state, name, version } = requireVersion(context, versionId);
    if (!isGone || state !== "retired") throw error;
    throw new StemmaError(
      "MODEL_RETIRED",
      `${name}:${version} was retired, and what no lease holds of it was collected; nothing is damaged. A lease holds ` +
        "what its child takes over: recover these layers only, or start with `stemma model transfer` again.",
      { versionId, cause: error },
    );
  }
}

/**
 * Reads everything that the version needs back from disk, hashes every byte, compares the roots and appends the
 * fact `stored`.
 * @throws MODEL_NOT_FOUND, MODEL_RETIRED, ROOT_MISMATCH, OBJECT_HASH_MISMATCH
 */
export async function confirmStored(context: RepositoryContext, versionId: Hash): Promise<VersionSummary> {
  const version = requireKept(context, versionId);
  if (version.state !== "recorded" || version.dropped !== undefined) return version;
  await verifyVersion(context, versionId);
  await appendFacts(context, [{ type: "stored", atMs: context.clock.now(), versionId }]);
  return requireVersion(context, versionId);
}

/**
 * Appends the fact `released`: the release policy's conditions hold, and the device may delete its copy.
 * @throws MODEL_NOT_FOUND, NOT_ALLOWED before it is stored
 */
export async function releaseVersion(
  context: RepositoryContext,
  versionId: Hash,
  because: string,
): Promise<VersionSummary> {
  const version = requireVersion(context, versionId);
  if (version.state === "released" || version.state === "retired") return version;
  if (version.state !== "stored")
    throw new StemmaError(
      "NOT_ALLOWED",
      `${version.name}:${version.version} is recorded but was not yet read back from disk, so no device may delete it. Confirm it first.`,
      { versionId },
    );
  await appendFacts(context, [{ type: "released", atMs: context.clock.now(), versionId, because }]);
  return requireVersion(context, versionId);
}
