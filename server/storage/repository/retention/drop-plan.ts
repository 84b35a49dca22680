/**
 * Decides which versions' tensors may be dropped because a replay gives them again. A recovery replays a chain: from
 * the nearest ancestor with tensors through all versions without. Its summed time stays within a bound, also that of
 * versions whose tensors were dropped before. Pure.
 */
import type { Hash } from "../../../../shared/tensor/tensor.js";

export interface DroppableVersion {
  readonly versionId: Hash;
  /** The version that its training began from; null: from none. */
  readonly base: Hash | null;
  /** True if its tensors were dropped before. */
  readonly isDropped: boolean;
  /** Milliseconds that its training took here; undefined where that was not measured. */
  readonly replayMs: number | undefined;
  /** The reason why its tensors stay whatever the bound; undefined: they may go. */
  readonly stays?: string | undefined;
}

export interface DropPlan<Version> {
  /** `recoveryMs`: of its own recovery, the trainings of its ancestors without tensors included. */
  readonly drop: readonly { readonly version: Version; readonly recoveryMs: number }[];
  readonly keep: readonly { readonly version: Version; readonly because: string }[];
}

/**
 * Goes through the versions in their order; each decision counts those before it.
 * @param versions all that are not retired, a base before what was trained from it
 * @param isAsked which of them are to be dropped
 * @param maxMs the bound of any recovery
 */
export function planDrops<Version extends DroppableVersion>(
  versions: readonly Version[],
  isAsked: (version: Version) => boolean,
  maxMs: number,
): DropPlan<Version> {
  const chains = new ReplayChains(versions);
  const drop: { version: Version; recoveryMs: number }[] = [];
  const keep: { version: Version; because: string }[] = [];
  for (const version of versions) {
    if (!isAsked(version) || version.isDropped) continue;
    const because = version.stays ?? chains.whyNot(version, maxMs);
    if (because !== undefined) {
      keep.push({ version, because });
      continue;
    }
    chains.drop(version);
    drop.push({ version, recoveryMs: chains.recoveryMs(version.versionId) });
  }
  return { drop, keep };
}

/** The versions without tensors, and what their recoveries take. */
export class ReplayChains {
  readonly #known: ReadonlyMap<Hash, DroppableVersion>;
  /** Version without tensors → milliseconds of its training. */
  readonly #dropped = new Map<Hash, number>();
  /** Version → the versions without tensors that were trained from it. */
  readonly #children = new Map<Hash, Hash[]>();

  constructor(versions: readonly DroppableVersion[]) {
    this.#known = new Map(versions.map((version) => [version.versionId, version]));
    for (const version of versions) if (version.isDropped) this.drop(version);
  }

  drop({ versionId, base, replayMs = Number.POSITIVE_INFINITY }: DroppableVersion): void {
    this.#dropped.set(versionId, replayMs);
    if (base === null) return;
    const siblings = this.#children.get(base);
    if (siblings === undefined) this.#children.set(base, [versionId]);
    else siblings.push(versionId);
  }

  /** Returns why the tensors of a version cannot be dropped now; undefined if they can. */
  whyNot({ versionId, base, replayMs }: DroppableVersion, maxMs: number): string | undefined {
    if (replayMs === undefined) return "no replay on this server has proved it with data that stay";
    if (base !== null && !this.#known.has(base)) return "what it was trained from is not kept here";
    const before = base === null ? 0 : this.recoveryMs(base);
    const longest = before + replayMs + this.#longestAfter(versionId);
    if (longest <= maxMs) return undefined;
    return (
      `a recovery would replay for ${seconds(longest)}, and ${seconds(maxMs)} are allowed` +
      (longest === replayMs
        ? ""
        : ", with the versions that it is recovered from, or that are recovered from it")
    );
  }

  /** Milliseconds of training for the recovery of a version; 0 where it has its tensors. */
  recoveryMs(versionId: Hash): number {
    let sum = 0;
    const seen = new Set<Hash>();
    for (let at: Hash | null | undefined = versionId; at != null; at = this.#known.get(at)?.base) {
      const ms = this.#dropped.get(at);
      // A base is recorded before what was trained from it; a journal that says otherwise must not loop.
      if (ms === undefined || seen.has(at)) break;
      seen.add(at);
      sum += ms;
    }
    return sum;
  }

  /** The longest chain of versions without tensors that begins with a child of this one. */
  #longestAfter(versionId: Hash): number {
    let longest = 0;
    const seen = new Set<Hash>();
    const waiting: { readonly id: Hash; readonly ms: number }[] = [{ id: versionId, ms: 0 }];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      longest = Math.max(longest, next.ms);
      if (seen.has(next.id)) continue;
      seen.add(next.id);
      for (const child of this.#children.get(next.id) ?? [])
        waiting.push({ id: child, ms: next.ms + (this.#dropped.get(child) ?? 0) });
    }
    return longest;
  }
}

function seconds(ms: number): string {
  return Number.isFinite(ms) ? `${Math.ceil(ms / 100) / 10} s` : "an unknown time";
}
