/**
 * Makes the tensors of dropped versions for those who need them, by a replay. They are stored for a while under a
 * lease, and removed by a later collection. What is stored this way can go at any time: another replay gives it.
 */
import { StemmaError } from "../../../../shared/errors.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { PackStore } from "../../../../shared/objects/pack-store.js";
import { readLeaves } from "../state/references.js";
import { requireVersion, type VersionTable } from "../state/version-table.js";

/** Makes the tensors of a dropped version again and stores them. @throws REBUILD_FAILED, ROOT_MISMATCH, DISK_FULL */
export type RebuildTensors = (versionId: Hash, signal: AbortSignal) => Promise<void>;

/** The time that tensors that were made again are protected against collection after their last use. */
const protectedMs = 3_600_000;
/** Bytes of such tensors that are protected at a time; beyond, those used longest ago are released. */
const maxProtectedBytes = 8 * 1024 ** 3;

/** The versions of a fleet and the store of their tensors. */
type StoredVersions = VersionTable & { readonly objects: PackStore };

interface Rebuilding {
  readonly done: Promise<void>;
  readonly abort: AbortController;
  waiting: number;
}

export class DroppedTensors {
  /** The one used last comes last. */
  readonly #protected = new Map<Hash, { readonly lease: string; readonly bytes: number }>();
  readonly #rebuilding = new Map<Hash, Rebuilding>();
  constructor(private readonly rebuild: RebuildTensors | undefined) {}

  /**
   * Makes sure that the tensors of a version are in the store, and stay for an hour. Does nothing for one that was not
   * dropped. Callers that ask for the same version at the same time share one replay, which ends early only when all
   * of them have aborted.
   * @throws MODEL_DROPPED where nothing here can replay; TRAINING_STOPPED when aborted; as RebuildTensors
   */
  async ensure(context: StoredVersions, versionId: Hash, signal?: AbortSignal): Promise<void> {
    if (context.state.versions.get(versionId)?.dropped === undefined) return;
    const { record, name, version, tensorBytes } = requireVersion(context, versionId);
    const tensors = (await readLeaves(context.objects, record)).map(({ tensor }) => tensor);
    // Before the look at what is there, so that no collection takes it in between.
    this.#protect(context, versionId, tensors, tensorBytes);
    if (tensors.every((tensor) => context.objects.has(tensor))) return;
    if (this.rebuild === undefined)
      throw new StemmaError(
        "MODEL_DROPPED",
        `The tensors of ${name}:${version} were dropped, and this program cannot train them again. Recover it with ` +
          "`stemma model recover`, or keep its tensors with `stemma model keep`.",
        { versionId },
      );
    await this.#shared(versionId, this.rebuild, signal);
  }

  /** Ends the replays that run; what they have done so far is kept for the next time. */
  async close(): Promise<void> {
    const running = [...this.#rebuilding.values()];
    for (const { abort } of running) abort.abort();
    await Promise.allSettled(running.map(({ done }) => done));
  }

  #protect({ objects }: StoredVersions, versionId: Hash, tensors: readonly Hash[], bytes: number): void {
    const lease = objects.lease(tensors, protectedMs).id;
    const before = this.#protected.get(versionId);
    if (before !== undefined) objects.release(before.lease);
    this.#protected.delete(versionId);
    this.#protected.set(versionId, { lease, bytes });
    let sum = [...this.#protected.values()].reduce((total, each) => total + each.bytes, 0);
    for (const [other, held] of this.#protected) {
      if (sum <= maxProtectedBytes) return;
      if (other === versionId || this.#rebuilding.has(other)) continue;
      objects.release(held.lease);
      this.#protected.delete(other);
      sum -= held.bytes;
    }
  }

  async #shared(versionId: Hash, rebuild: RebuildTensors, signal: AbortSignal | undefined): Promise<void> {
    const known = this.#rebuilding.get(versionId);
    // One that everybody left ends first: both would work in the same folder.
    const isEnding = known?.abort.signal.aborted === true;
    const work = known === undefined || isEnding ? this.#start(versionId, rebuild, known?.done) : known;
    work.waiting++;
    const leave = new Promise<never>((_, reject) => {
      const stop = (): void => {
        reject(
          new StemmaError(
            "TRAINING_STOPPED",
            "The recovery was stopped. Its replay goes on from here next time.",
          ),
        );
      };
      if (signal?.aborted === true) stop();
      else signal?.addEventListener("abort", stop, { once: true });
    });
    leave.catch(() => undefined);
    try {
      await Promise.race([work.done, leave]);
    } finally {
      if (--work.waiting === 0) work.abort.abort();
    }
  }

  #start(versionId: Hash, rebuild: RebuildTensors, ending: Promise<void> | undefined): Rebuilding {
    const abort = new AbortController();
    const run = async (): Promise<void> => {
      await ending?.catch(() => undefined);
      await rebuild(versionId, abort.signal);
    };
    const done = run().finally(() => {
      if (this.#rebuilding.get(versionId) === work) this.#rebuilding.delete(versionId);
    });
    done.catch(() => undefined);
    const work: Rebuilding = { done, abort, waiting: 0 };
    this.#rebuilding.set(versionId, work);
    return work;
  }
}
