/**
 * A tier's folder that may be slow, unmounted, or not the one it was. Each operation has a deadline and runs alone,
 * so that a disk that hangs holds up one thread of this process and nothing else; while one hangs, the others fail at
 * once. A missing file counts as missing only where the folder is known to be the right one.
 */
import { SerialQueue } from "../../../../shared/concurrency/serial-queue.js";
import { messageOf } from "../../../../shared/error-text.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { folderTierFiles } from "../../../../shared/objects/tiers/folder-tier-files.js";
import { tierUnreachable, type TierFiles } from "../../../../shared/objects/tiers/tier-files.js";
import type { Clock, Files } from "../../../../shared/ports.js";
import { readIdentity, type KnownTier } from "./tiers-file.js";

/** The time that an operation may take, in addition to the time for its bytes at the slowest rate below. */
const deadlineMs = 20_000;
const slowestBytesPerMs = 64;

export interface GuardedTierPorts {
  readonly files: Files;
  readonly clock: Pick<Clock, "after">;
}

export class GuardedTier {
  readonly known: KnownTier;
  readonly #ports: GuardedTierPorts;
  readonly #queue = new SerialQueue();
  #overdue = 0;

  constructor(known: KnownTier, ports: GuardedTierPorts) {
    this.known = known;
    this.#ports = ports;
  }

  /** Requires that the folder is there and is this tier's. @throws TIER_UNREACHABLE */
  check(): Promise<void> {
    return this.#run(0, () => this.#requireIdentity());
  }

  freeBytes(): Promise<number> {
    return this.#run(0, async () => {
      await this.#requireIdentity();
      return await this.#ports.files.freeBytes(this.known.folder);
    });
  }

  /** Runs another operation on the folder under the same conditions. @throws TIER_UNREACHABLE */
  async use<T>(operation: (folder: string) => Promise<T>): Promise<T> {
    return await this.#run(0, async () => {
      await this.#requireIdentity();
      return await operation(this.known.folder);
    });
  }

  /** The files below a folder of the tier. */
  filesIn(folder: string): TierFiles {
    const inner = folderTierFiles(this.#ports.files, folder);
    const checked = <T>(bytes: number, operation: () => Promise<T>): Promise<T> =>
      this.#run(bytes, async () => {
        await this.#requireIdentity();
        return await operation();
      });
    return {
      list: () =>
        checked(0, async () => {
          const found = await inner.list();
          // A folder that was unmounted meanwhile looks empty.
          await this.#requireIdentity();
          return found;
        }),
      sizeOf: (name) => checked(0, () => inner.sizeOf(name)),
      read: (name, at, length) =>
        this.#run(length, async () => {
          try {
            return await inner.read(name, at, length);
          } catch (error) {
            await this.#requireIdentity();
            throw error;
          }
        }),
      write: (name, bytes) => checked(bytes.length, () => inner.write(name, bytes)),
      remove: (name) => checked(0, () => inner.remove(name)),
      removeHalfFiles: () => checked(0, () => inner.removeHalfFiles()),
      freeBytes: () => this.freeBytes(),
    };
  }

  /** @throws TIER_UNREACHABLE */
  async #requireIdentity(): Promise<void> {
    const { name, folder, id } = this.known;
    const identity = await readIdentity(this.#ports.files, folder);
    if (identity === undefined)
      throw tierUnreachable(
        name,
        `is not in ${folder}: the folder is missing or empty, so its disk is probably not mounted`,
      );
    if (identity.id !== id)
      throw tierUnreachable(name, `is not in ${folder}: that folder belongs to the tier ${identity.name}`);
  }

  #run<T>(bytes: number, operation: () => Promise<T>): Promise<T> {
    return this.#queue.run(() => this.#withDeadline(deadlineMs + bytes / slowestBytesPerMs, operation));
  }

  async #withDeadline<T>(ms: number, operation: () => Promise<T>): Promise<T> {
    const { name, folder } = this.known;
    if (this.#overdue > 0)
      throw tierUnreachable(name, `in ${folder} has not answered an earlier request yet`);
    let isOverdue = false;
    const running = operation().finally(() => {
      if (isOverdue) this.#overdue--;
    });
    running.catch(() => undefined);
    let cancel = (): void => undefined;
    const late = new Promise<never>((_, reject) => {
      cancel = this.#ports.clock.after(ms, () => {
        isOverdue = true;
        this.#overdue++;
        reject(tierUnreachable(name, `in ${folder} did not answer within ${Math.round(ms / 1000)} s`));
      });
    });
    try {
      return await Promise.race([running, late]);
    } catch (error) {
      if (isStemmaError(error, "FILE_FAILED") || isStemmaError(error, "TIER_INVALID"))
        throw tierUnreachable(name, `in ${folder} cannot be used now: ${messageOf(error)}`, error);
      throw error;
    } finally {
      cancel();
    }
  }
}
