/**
 * After a version is recorded: read it back from disk, compare its root (`stored`), and release it
 * when the policy's conditions hold (`released`). In the background, few at a time; each step is a
 * fact before it is reported.
 */
import { isStemmaError } from "../../shared/errors.js";
import type { Log } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { FleetRepository, VersionSummary } from "../repository/fleet-repository.js";

/** When a device may forget: once the server has proved its own copy, or once a backup holds it too. */
export type ReleasePolicy = "stored" | "backed-up";

export interface Confirmations {
  /** Queues a recorded version; one that is queued already is not queued twice. */
  add(versionId: Hash): void;
  /** Releases what a new backup covers. */
  backedUp(): void;
  readonly waiting: number;
  /** Resolves when nothing is queued or under way. */
  idle(): Promise<void>;
  close(): Promise<void>;
}

export interface ConfirmationParts {
  readonly repository: Pick<FleetRepository, "get" | "confirmStored" | "release" | "versions" | "backedUpTo">;
  readonly log: Log;
  /**
   * Models read back at a time, so that their facts share fsyncs; together at most so many bytes, or one
   * larger model alone.
   */
  readonly maxConcurrent: number;
  readonly maxConcurrentBytes: number;
  releasePolicyOf(summary: VersionSummary): ReleasePolicy;
  onStored(summary: VersionSummary): void;
  onReleased(summary: VersionSummary): void;
  /** The stored model is not what was recorded: the device must keep it, and a person must look. */
  onDamaged(versionId: Hash, error: unknown): void;
}

export function startConfirmations(parts: ConfirmationParts): Confirmations {
  const queue: Hash[] = [];
  const known = new Set<Hash>();
  const running = new Set<Promise<void>>();
  let closed = false;
  let underWay = 0;
  let idleWaiters: (() => void)[] = [];

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
    if (running.size === 0 && (queue.length === 0 || closed)) {
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
    running.size === 0 && queue.length === 0
      ? Promise.resolve()
      : new Promise((resolve) => idleWaiters.push(resolve));
  return {
    add,
    backedUp() {
      for (const summary of parts.repository.versions())
        if (summary.state === "stored") add(summary.versionId);
    },
    get waiting() {
      return queue.length + running.size;
    },
    idle,
    async close() {
      closed = true;
      queue.length = 0;
      await Promise.all(running);
    },
  };
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
    // A stopped journal does not mean that this model is damaged. It is reported elsewhere, and the next start
    // confirms again.
    if (isStemmaError(error, "JOURNAL_STOPPED")) {
      parts.log.error("confirmation-stopped", { versionId, message: error.message });
      return;
    }
    // Retired, and perhaps collected, while it was read: nothing waits for it any more.
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
