/**
 * The state of an interrupted transfer, kept with its spool, and how a transfer is resumed from it. A state
 * that cannot be used costs a transfer, never a model.
 */
import type { LeafTable } from "../../../../shared/model/model.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { HeldVersion } from "../../../../shared/wire/coding/references.js";
import type { ObjectRef } from "../../../../shared/wire/messages.js";
import type { ReceiverState } from "../../../../shared/wire/transfer/receiver.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";
import { heldOptimizer, heldVersion } from "../downloads/held-versions.js";
import { codedAgainstIncomplete, listedNotInVersion } from "../ingest-errors.js";
import type { IngestLimits } from "../limits.js";
import type { Spool, SpoolFolder } from "./spool.js";
import { tensorRefsOf } from "./want-messages.js";

/** Content of a spool's state file. Format 1 is raw; format 2 may be coded against `references`. */
export interface SavedTransfer {
  readonly format: 1 | 2;
  readonly transfer: string;
  /** Generation of the device that sent what is in the spool. */
  readonly generation: number;
  /** Bytes that came over the wire for this transfer so far. */
  readonly wireBytes: number;
  readonly objects: readonly ObjectRef[];
  readonly receiver: ReceiverState;
  readonly references?: readonly Hash[];
  /** The version whose optimizer's state it may be coded against. */
  readonly optimizerReference?: Hash;
}

export interface ResumedTransfer {
  readonly spool: Spool;
  readonly saved: SavedTransfer;
  readonly indices: readonly number[];
  readonly references: readonly HeldVersion[] | undefined;
  readonly optimizer: HeldVersion | undefined;
}

export interface ResumeOptions {
  readonly repository: Pick<FleetRepository, "objects" | "get">;
  readonly spools: SpoolFolder;
  readonly limits: Pick<IngestLimits, "maxModelBytes" | "maxUsesBytes">;
  readonly versionId: Hash;
  readonly device: string;
  /** Leaves of all trees of the version; empty while one is not here. */
  readonly leaves: LeafTable;
  /** Tensors and streams that are still missing: the saved list has to contain them all, of the same sizes. */
  readonly missing: readonly ObjectRef[];
  /** Generation of the device: it must have sent everything itself. */
  readonly generation: number;
  /** True if only a raw transfer may be resumed. */
  readonly rawOnly: boolean;
}

/**
 * The saved transfer of a version; undefined where there is none or it cannot be used. Its spool is then
 * removed.
 */
export async function resumeTransfer(options: ResumeOptions): Promise<ResumedTransfer | undefined> {
  const { maxModelBytes, maxUsesBytes } = options.limits;
  const { versionId, device } = options;
  const found = await options.spools.resume(versionId, maxModelBytes + maxUsesBytes, device);
  if (found === undefined) return undefined;
  const { spool, state } = found;
  try {
    const saved = JSON.parse(Buffer.from(state).toString("utf8")) as SavedTransfer;
    if (isUsable(saved, spool, options))
      return {
        spool,
        saved,
        indices: indicesOf(options.versionId, saved.objects, options.leaves),
        references: await heldReferences(options.repository, saved.references),
        optimizer: await optimizerReference(options.repository, saved.optimizerReference),
      };
  } catch {
    // A saved state that cannot be read costs a transfer, not a model.
  }
  await spool.remove();
  return undefined;
}

function isUsable(
  saved: SavedTransfer,
  spool: Spool,
  { missing, generation, rawOnly }: ResumeOptions,
): boolean {
  const isKnownFormat = saved.format === 1 || (saved.format === 2 && !rawOnly);
  // The saved list may contain tensors that have arrived another way; it must contain all that are missing.
  const listed = new Map(saved.objects.map(({ id, byteLength }) => [id, byteLength]));
  return (
    isKnownFormat &&
    saved.generation === generation &&
    saved.receiver.shape.byteLength === spool.byteLength &&
    missing.every(({ id, byteLength }) => listed.get(id) === byteLength)
  );
}

/** @throws REFERENCE_MISSING where a version that the transfer may be coded against is incomplete here */
async function heldReferences(
  repository: ResumeOptions["repository"],
  references: readonly Hash[] | undefined,
): Promise<readonly HeldVersion[] | undefined> {
  if (references === undefined) return undefined;
  return await Promise.all(references.map(async (id) => complete(await heldVersion(repository, id), id)));
}

/** @throws REFERENCE_MISSING where that optimizer's state is incomplete here */
async function optimizerReference(
  repository: ResumeOptions["repository"],
  id: Hash | undefined,
): Promise<HeldVersion | undefined> {
  return id === undefined ? undefined : complete(await heldOptimizer(repository, id), id);
}

function complete(version: HeldVersion | undefined, id: Hash): HeldVersion {
  if (version !== undefined) return version;
  throw codedAgainstIncomplete(id);
}

/** First position of each tensor of a list among the leaves. @throws TRANSFER_MANIFEST_INVALID */
function indicesOf(versionId: Hash, refs: readonly ObjectRef[], leaves: LeafTable): readonly number[] {
  const first = new Map<Hash, number>();
  leaves.forEach(({ tensor }, index) => {
    if (!first.has(tensor)) first.set(tensor, index);
  });
  return tensorRefsOf(refs).map(({ id }) => {
    const index = first.get(id);
    if (index === undefined) throw listedNotInVersion(versionId);
    return index;
  });
}
