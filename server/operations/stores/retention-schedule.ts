/**
 * Applies retention rules and policies that drop tensors of proved models, by themselves. Every fleet that
 * has some is looked at an hour after the start and once a day from then on. It does not interpret them. A
 * failure is logged, and the fleet is tried again the next day.
 */
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError } from "../../../shared/errors.js";
import type { Clock, Log } from "../../../shared/ports.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";

export interface RetentionScheduleParts {
  readonly operations: Pick<
    ServerOperations,
    "retention" | "applyRetention" | "dropPolicies" | "applyDropPolicies"
  >;
  readonly fleets: () => Promise<readonly string[]>;
  readonly clock: Pick<Clock, "after">;
  readonly log: Log;
  readonly firstMs?: number;
  readonly everyMs?: number;
}

const hourMs = 3_600_000;

export interface RetentionSchedule {
  /** Resolves when the round under way, if any, has ended. */
  settled(): Promise<void>;
  /** Starts no further round, and waits for the one under way. */
  close(): Promise<void>;
}

export function startRetentionSchedule({
  operations,
  fleets,
  clock,
  log,
  firstMs = hourMs,
  everyMs = 24 * hourMs,
}: RetentionScheduleParts): RetentionSchedule {
  const closing = new AbortController();
  const rounds = new SerialQueue();
  let cancel = clock.after(firstMs, next);
  function next(): void {
    if (closing.signal.aborted) return;
    // The time to the next round is counted from the start of this one, however long it takes.
    cancel = clock.after(everyMs, next);
    void rounds.run(applyToAll);
  }
  async function applyToAll(): Promise<void> {
    let names: readonly string[] = [];
    try {
      names = await fleets();
    } catch (error) {
      log.error("retention-failed", describe(error));
    }
    for (const fleet of names) {
      if (closing.signal.aborted) return;
      try {
        if ((await operations.retention({ fleet })).length > 0) {
          const { retired, kept } = await operations.applyRetention({ fleet });
          // What was retired is reported as an event, too.
          log.debug("retention-applied", { fleet, retired: retired.length, kept });
        }
      } catch (error) {
        log.error("retention-failed", { fleet, ...describe(error) });
      }
      if (closing.signal.aborted) return;
      try {
        if ((await operations.dropPolicies({ fleet })).length === 0) continue;
        const { signal } = closing;
        const { dropped, tensorBytes, freedBytes, data } = await operations.applyDropPolicies(
          { fleet },
          { signal },
        );
        if (dropped.length > 0)
          log.info("tensors-dropped", {
            fleet,
            versions: dropped.length,
            bytes: tensorBytes,
            freedBytes,
            text: `${dropped.length} proved models of ${fleet} lost their tensors by policy; storage gc frees the space`,
          });
        if (data !== undefined && data.dropped.length > 0)
          log.info("data-dropped", {
            fleet,
            versions: data.dropped.length,
            bytes: data.freedBytes,
            text: `the data of ${data.dropped.length} proved models of ${fleet} went by policy; storage gc frees the space`,
          });
      } catch (error) {
        if (!closing.signal.aborted) log.error("drop-policy-failed", { fleet, ...describe(error) });
      }
    }
  }
  return {
    settled: () => rounds.idle(),
    async close() {
      closing.abort();
      cancel();
      await rounds.idle();
    },
  };
}

function describe(error: unknown): { readonly code: string; readonly message: string } {
  return {
    code: isStemmaError(error) ? error.code : "INTERNAL",
    message: messageOf(error),
  };
}
