/**
 * Confirms recorded versions in the background, a few at a time. It reads each one back from disk and
 * compares its root (`stored`), then releases it when the policy's conditions hold (`released`). Each step is
 * a fact before it is reported.
 */
import { inSteps } from "../../../../shared/concurrency/in-steps.js";
import { defined } from "../../../../shared/defined.js";
import { messageOf } from "../../../../shared/error-text.js";
import { isStemmaError } from "../../../../shared/errors.js";
import type { Log } from "../../../../shared/ports.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { VersionSummary } from "../../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";

/**
 * The time from which a device may delete a model: once the server has verified its own copy, or once a
 * backup holds it too.
 */
export type ReleasePolicy = "stored" | "backed-up";

export interface Confirmations {
  /** Queues a recorded version; one that is queued already is not queued twice. */
  add(versionId: Hash): void;
  /** Queues what a process that ended left: recorded versions that were not read back, and those to be released. */
  resume(): void;
  /** Releases what a new backup covers. */
  backedUp(): void;
  readonly waiting: number;
  /** Resolves when nothing is queued or under way. */
  idle(): Promise<void>;
  close(): Promise<void>;
}

export interface ConfirmationParts {
  readonly repository: Pick<FleetRepository, "get" | "confirmStored" | "release" | "select" | "backedUpTo">;
  readonly log: Log;
  /** Max models read back concurrently; their facts share fsyncs. */
  readonly maxConcurrent: number;
  /** Max bytes of these models together; a larger model is read back alone. */
  readonly maxConcurrentBytes: number;
  releasePolicyOf(summary: VersionSummary): ReleasePolicy;
  onStored(summary: VersionSummary): void;
  onReleased(summary: VersionSummary): void;
  /**
   * The stored model differs from what was recorded. The device must keep its copy, and a person must look.
   */
  onDamaged(versionId: Hash, error: unknown): void;
}

export function startConfirmations(parts: ConfirmationParts): Confirmations {
  const queue: Hash[] = [];
  const known = new Set<Hash>();
  const running = new Set<Promise<void>>();
  const walks = new Set<Promise<void>>();
  let closed = false;
  let underWay = 0;
  let idleWaiters: (() => void)[] = [];

  const isIdle = (): boolean => running.size === 0 && walks.size === 0 && (queue.length === 0 || closed);
  const next = (): void => {
    while (!closed && running.size < parts.maxConcurrent) {
      const versionId = queue[0];
      if (versionId === undefined) break;
      const bytes = parts.repository.get(versionId)?.tensorBytes ?? 0;
      if (running.size > 0 && underWay + bytes > parts.maxConcurrentBytes) break;
      queue.shift();
      underWay += bytes;
      const work = confirm(parts, versionId).finally(() => {
        running.delete(work);
        known.delete(versionId);
        underWay -= bytes;
        next();
      });
      running.add(work);
    }
    if (isIdle()) {
      for (const wake of idleWaiters) wake();
      idleWaiters = [];
    }
  };
  const add = (versionId: Hash): void => {
    if (closed || known.has(versionId)) return;
    known.add(versionId);
    queue.push(versionId);
    next();
  };
  const idle = (): Promise<void> =>
    isIdle() ? Promise.resolve() : new Promise((resolve) => idleWaiters.push(resolve));
  /** Goes through all that may wait, which may be many, beside the other work. */
  const addUnsettled = (until?: number): void => {
    const walk = walkUnsettled(parts, { until, isEnded: () => closed, add })
      .catch((error: unknown) => {
        // A damaged index ends the server, and the next start confirms the rest.
        parts.log.error("confirmations-stopped", { message: messageOf(error) });
      })
      .finally(() => {
        walks.delete(walk);
        next();
      });
    walks.add(walk);
  };
  return {
    add,
    resume() {
      addUnsettled();
    },
    backedUp() {
      addUnsettled(parts.repository.backedUpTo());
    },
    get waiting() {
      return queue.length + running.size;
    },
    idle,
    async close() {
      closed = true;
      queue.length = 0;
      await Promise.all([...walks, ...running]);
    },
  };
}

async function walkUnsettled(
  parts: ConfirmationParts,
  {
    until,
    isEnded,
    add,
  }: {
    readonly until: number | undefined;
    readonly isEnded: () => boolean;
    readonly add: (versionId: Hash) => void;
  },
): Promise<void> {
  for await (const summary of inSteps(parts.repository.select("unsettled", defined({ until })))) {
    if (isEnded()) return;
    if (
      summary.state === "recorded" ||
      (summary.state === "stored" && releaseReason(parts, summary) !== undefined)
    )
      add(summary.versionId);
  }
}

async function confirm(parts: ConfirmationParts, versionId: Hash): Promise<void> {
  try {
    let summary = parts.repository.get(versionId);
    if (summary?.state === "recorded") {
      summary = await parts.repository.confirmStored(versionId);
      parts.onStored(summary);
    }
    if (summary?.state !== "stored") return;
    const because = releaseReason(parts, summary);
    if (because === undefined) return;
    parts.onReleased(await parts.repository.release(versionId, because));
  } catch (error) {
    // A stopped journal does not mean that this model is damaged. The stop is reported elsewhere, and the
    // next start confirms the model again.
    if (isStemmaError(error, "JOURNAL_STOPPED")) {
      parts.log.error("confirmation-stopped", { versionId, message: error.message });
      return;
    }
    // Nothing says that the model is damaged; the next start confirms it, where the tier can be reached then.
    if (isStemmaError(error, "TIER_UNREACHABLE")) {
      parts.log.warn("confirmation-waits-for-tier", { versionId, message: error.message });
      return;
    }
    // Retired, and perhaps garbage-collected, while it was read: nothing waits for it any more.
    if (parts.repository.get(versionId)?.state === "retired") return;
    parts.onDamaged(versionId, error);
  }
}

function releaseReason(parts: ConfirmationParts, summary: VersionSummary): string | undefined {
  if (parts.releasePolicyOf(summary) === "stored")
    return "the server read it back from its own disk and found its root";
  return parts.repository.backedUpTo() > summary.position
    ? `a backup holds everything before journal position ${parts.repository.backedUpTo()}`
    : undefined;
}
