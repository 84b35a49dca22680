/**
 * Merges small packs of the open fleets in the background of a server. One round at a time, with a pause of
 * several times its duration after each, so that devices and commands have the disk and the processor most of
 * the time. While transfers are under way only a larger backlog is worked on.
 */
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError } from "../../../shared/errors.js";
import { packsPerMerge, type MergedPacks, type MergeOptions } from "../../../shared/objects/pack-merging.js";
import type { Clock, Log } from "../../../shared/ports.js";

export interface MergedFleet {
  readonly fleet: string;
  mergePacks(options: MergeOptions): Promise<MergedPacks | undefined>;
}

export interface MergeScheduleParts {
  readonly fleets: () => readonly MergedFleet[];
  /** True if devices are sending models. */
  readonly isBusy: (fleet: string) => Promise<boolean>;
  readonly clock: Pick<Clock, "after" | "monotonic">;
  readonly log: Log;
}

export interface MergeSchedule {
  /** Resolves when the round under way, if any, has ended. */
  settled(): Promise<void>;
  /** Starts no further round, and waits for the one under way. */
  close(): Promise<void>;
}

const idleMs = 60_000;
/** The pause after a failure: damage or a failing disk is not mended within a minute. */
const failedMs = 60 * 60_000;
const minPauseMs = 1000;
const pausePerRound = 4;
/** Packs of one level that are merged although transfers are under way. */
const minPacksWhileBusy = 4 * packsPerMerge;

export function startMergeSchedule({ fleets, isBusy, clock, log }: MergeScheduleParts): MergeSchedule {
  let closed = false;
  let running: Promise<void> = Promise.resolve();
  const notBefore = new Map<string, number>();
  let cancel = clock.after(idleMs, next);
  function next(): void {
    running = mergeRound().then((pauseMs) => {
      if (!closed) cancel = clock.after(pauseMs, next);
    });
  }
  /** One round of each fleet. Returns how long to wait for the next. */
  async function mergeRound(): Promise<number> {
    const startMs = clock.monotonic();
    let hasMerged = false;
    for (const repository of fleets()) {
      const { fleet } = repository;
      if (closed) break;
      if (clock.monotonic() < (notBefore.get(fleet) ?? Number.NEGATIVE_INFINITY)) continue;
      try {
        const minPacks = (await isBusy(fleet)) ? minPacksWhileBusy : packsPerMerge;
        const merged = await repository.mergePacks({ minPacks });
        if (merged === undefined) continue;
        hasMerged = true;
        log.info("packs-merged", { fleet, ...merged });
      } catch (error) {
        notBefore.set(fleet, clock.monotonic() + failedMs);
        const code = isStemmaError(error) ? error.code : "INTERNAL";
        log.error("packs-not-merged", { fleet, code, message: messageOf(error) });
      }
    }
    return hasMerged ? Math.max(minPauseMs, pausePerRound * (clock.monotonic() - startMs)) : idleMs;
  }
  return {
    settled: () => running,
    async close() {
      closed = true;
      cancel();
      await running;
    },
  };
}
