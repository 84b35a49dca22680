/**
 * Applies retention rules to every fleet that has some, an hour after the start and once a day from then on.
 * It does not interpret the rules. A failure is logged, and the fleet is tried again the next day.
 */
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError } from "../../shared/errors.js";
import type { Clock, Log } from "../../shared/ports.js";
import type { ServerOperations } from "../api/server-operations.js";

export interface RetentionScheduleParts {
  readonly operations: Pick<ServerOperations, "retention" | "applyRetention">;
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
  let closed = false;
  const rounds = new SerialQueue();
  let cancel = clock.after(firstMs, next);
  function next(): void {
    if (closed) return;
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
      if (closed) return;
      try {
        if ((await operations.retention({ fleet })).length === 0) continue;
        const { retired, kept } = await operations.applyRetention({ fleet });
        // What was retired is reported as an event, too.
        log.debug("retention-applied", { fleet, retired: retired.length, kept });
      } catch (error) {
        log.error("retention-failed", { fleet, ...describe(error) });
      }
    }
  }
  return {
    settled: () => rounds.idle(),
    async close() {
      closed = true;
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
