/**
 * Plans and carries out the move of old versions' low-order bytes to a tier. It states which tensors, what
 * that frees here, and what a recovery then reads from the tier. Tensors that are not stored in byte planes
 * are re-encoded first, by the steps of any other application of a plan.
 */
import { defined } from "../../../shared/defined.js";
import { listReferences } from "../../../shared/delta/links.js";
import { planeBytes } from "../../../shared/delta/numbers.js";
import { isInPlanes } from "../../../shared/objects/high-planes.js";
import { minLowBytes, planesKept } from "../../../shared/objects/tiers/low-bytes-moves.js";
import type { Clock } from "../../../shared/ports.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { FleetRepository } from "../repository/fleet-repository.js";
import type { MovableVersion } from "../repository/tiers/tier-port.js";
import type { ArchiveCoder } from "./archive-coder.js";
import { edgeKinds } from "./edge-costs.js";
import type { ApplyItem } from "./pending-work.js";
import { PlanApplier } from "./plan-applier.js";
import type { ApplyReport } from "./plan-application.js";

export interface TierRecovery {
  /** Bytes that recovering a version reads from tiers, by its own tensors. */
  readonly meanBytes: number;
  readonly largestBytes: number;
  /** The mean time of a recovery at the measured rate, in ms. */
  readonly meanMs: number;
  readonly largestMs: number;
}

export interface TierPlan {
  readonly fleet: string;
  readonly tier: string;
  /** Versions whose tensors stay here, and those of which some may be moved. */
  readonly nearVersions: number;
  readonly versions: number;
  /** Tensors that only the latter have; of these, the ones whose low-order bytes are in a tier already. */
  readonly tensors: number;
  readonly movedTensors: number;
  readonly movedBytes: number;
  /** Tensors that would be moved, and about how many bytes of them. */
  readonly toMove: number;
  readonly toMoveBytes: number;
  /** The number of them that are re-encoded into byte planes first. */
  readonly toRecode: number;
  /** Bytes of all packs now. */
  readonly packBytes: number;
  readonly tierFreeBytes: number;
  /** Measured in the tier's folder, past the cache of the operating system where that is possible. */
  readonly tierBytesPerSecond: number;
  /** The cost of a recovery after the move. */
  readonly recovery: TierRecovery;
}

export interface TierApplied {
  readonly fleet: string;
  readonly tier: string;
  readonly movedTensors: number;
  readonly movedBytes: number;
  readonly recoded: number;
  readonly failed: ApplyReport["failed"];
  /** The reason for ending early; null where everything was moved. */
  readonly stopped: ApplyReport["stopped"];
  readonly packBytesBefore: number;
  readonly packBytesAfter: number;
}

export interface TierWork {
  readonly repository: FleetRepository;
  readonly tier: string;
  /** The versions that running work needs. */
  readonly busy: () => ReadonlyMap<Hash, string>;
}

export interface TierMeasures {
  readonly freeBytes: number;
  readonly usPerByte: number;
}

/** Plans the move; reads trees, and no tensor. */
export async function planTier(
  { repository, tier, busy }: TierWork,
  { freeBytes, usPerByte }: TierMeasures,
): Promise<TierPlan> {
  const { versions, nearVersions, tensors } = await repository.tiers.choose(busy);
  const candidates = [...tensors].map((id) => candidateOf(repository, id));
  const moved = candidates.filter(({ isMoved }) => isMoved);
  const toMove = candidates.filter(({ isMoved, bytes }) => !isMoved && bytes >= minLowBytes);
  return {
    fleet: repository.fleet,
    tier,
    nearVersions,
    versions: versions.length,
    tensors: tensors.size,
    movedTensors: moved.length,
    movedBytes: sumOf(moved),
    toMove: toMove.length,
    toMoveBytes: sumOf(toMove),
    toRecode: toMove.filter(({ isRecoded }) => isRecoded).length,
    packBytes: (await repository.stats()).packBytes,
    tierFreeBytes: freeBytes,
    tierBytesPerSecond: Math.round(1e6 / usPerByte),
    recovery: recoveryOf(
      versions,
      new Map([...moved, ...toMove].map(({ id, bytes }) => [id, bytes])),
      usPerByte,
    ),
  };
}

interface Candidate {
  readonly id: Hash;
  /** Low-order bytes: of a moved tensor exactly, else as many as its low-order planes have at most. */
  readonly bytes: number;
  readonly isMoved: boolean;
  readonly isRecoded: boolean;
}

function candidateOf({ objects, tiers }: FleetRepository, id: Hash): Candidate {
  const low = tiers.lowPartOf(id);
  if (low !== undefined) return { id, bytes: low.bytes, isMoved: true, isRecoded: false };
  const stored = objects.stat(id);
  const encoding = objects.encodingOf(id);
  const width = stored?.header === undefined ? 0 : planeBytes(stored.header.dtype);
  if (stored === undefined || encoding === undefined || width < 2)
    return { id, bytes: 0, isMoved: false, isRecoded: false };
  const lowShare = (width - planesKept(width)) / width;
  return {
    id,
    bytes: Math.round(Math.min(stored.storedBytes, stored.byteLength * lowShare)),
    isMoved: false,
    isRecoded: !isInPlanes(encoding.code),
  };
}

function recoveryOf(
  versions: readonly MovableVersion[],
  lowBytes: ReadonlyMap<Hash, number>,
  usPerByte: number,
): TierRecovery {
  const bytes = versions.map(({ tensors }) => tensors.reduce((sum, id) => sum + (lowBytes.get(id) ?? 0), 0));
  const meanBytes =
    bytes.length === 0 ? 0 : Math.round(bytes.reduce((sum, each) => sum + each, 0) / bytes.length);
  const largestBytes = bytes.reduce((max, each) => Math.max(max, each), 0);
  const ms = (each: number): number => (each * usPerByte) / 1000;
  return { meanBytes, largestBytes, meanMs: ms(meanBytes), largestMs: ms(largestBytes) };
}

export interface ApplyTierParts {
  readonly coder: ArchiveCoder;
  readonly clock: Clock;
  readonly freeBytes: () => Promise<number>;
}

export interface TierApplyOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((line: string) => void) | undefined;
}

/**
 * Carries out the move. It can be stopped or killed at any moment; the next one continues.
 * @throws TIER_UNREACHABLE, DISK_FULL of the tier, FILE_FAILED, STORE_FAILED; what was moved before stays moved
 */
export async function applyTier(
  { repository, tier, busy }: TierWork,
  { coder, clock, freeBytes }: ApplyTierParts,
  { signal, onProgress }: TierApplyOptions = {},
): Promise<TierApplied> {
  const { tensors } = await repository.tiers.choose(busy);
  const packBytes = async (): Promise<number> => (await repository.stats()).packBytes;
  const packBytesBefore = await packBytes();
  const applier = new PlanApplier(
    { target: repository, coder, clock, freeBytes },
    {
      signal,
      onProgress: ({ done, total }) => {
        onProgress?.(`${done} of ${total} tensors re-encoded into byte planes`);
      },
    },
  );
  await applier.run(itemsOf(repository, tensors));
  const moved = await repository.tiers.move(tier, tensors, {
    signal,
    onProgress: (so) => {
      onProgress?.(`low-order bytes of ${so.tensors} tensors moved, ${so.bytes} bytes`);
    },
  });
  return {
    fleet: repository.fleet,
    tier,
    movedTensors: moved.tensors,
    movedBytes: moved.bytes,
    recoded: applier.totals.rewrittenTensors,
    failed: applier.failed,
    stopped: signal?.aborted === true ? "interrupted" : applier.stopped,
    packBytesBefore,
    packBytesAfter: await packBytes(),
  };
}

/** The tensors that are not in byte planes yet, with what they are encoded against now; references first. */
function itemsOf(repository: FleetRepository, tensors: ReadonlySet<Hash>): readonly ApplyItem[] {
  const items: { readonly item: ApplyItem; readonly depth: number }[] = [];
  for (const id of tensors) {
    const encoding = repository.objects.encodingOf(id);
    const { bytes, isRecoded } = candidateOf(repository, id);
    if (encoding === undefined || !isRecoded || bytes < minLowBytes) continue;
    // A tensor of the tier would have to be read for each of these.
    const base = listReferences(encoding).find(
      (reference) => repository.objects.encodingOf(reference)?.needsLowFile !== true,
    );
    items.push({
      item: {
        id,
        kind: base === undefined ? edgeKinds.planes : edgeKinds.deltaPlanes,
        plannedBytes: encoding.storedBytes,
        ...defined({ base }),
      },
      depth: encoding.depth,
    });
  }
  return items.sort((a, b) => a.depth - b.depth).map(({ item }) => item);
}

function sumOf(candidates: readonly Candidate[]): number {
  return candidates.reduce((sum, { bytes }) => sum + bytes, 0);
}
