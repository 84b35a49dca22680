/**
 * The queued replays of a fleet, in a file of its folder: what a server has to replay, and how the latest ended. A
 * version has at most one. The process that holds the home's lock is the only one that writes the file.
 */
import { join } from "node:path";
import * as z from "zod";
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { defined } from "../../../shared/defined.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { callerPaths, type Caller } from "../../../shared/journal/caller.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { replayReport } from "../../interface/api/models/evaluation-schemas.js";
import { count, errorCode, hash, timeMs } from "../../interface/api/fields.js";
import type { ValueOf } from "../../interface/api/operation.js";
import { defaultReplayPriority, replayPriority } from "../../interface/api/models/replay-schemas.js";
import type { Home } from "../../storage/repository/home.js";
import { queueDamaged, tooManyReplays } from "./replay-errors.js";

const caller = z.looseObject({
  who: z.string(),
  through: z.enum(callerPaths),
}) as unknown as z.ZodType<Caller>;
const storedReplay = z.object({
  versionId: hash,
  name: z.string(),
  version: count,
  state: z.enum(["waiting", "ended", "failed", "cancelled"]),
  priority: replayPriority,
  queuedAtMs: timeMs,
  maxMinutes: count.exactOptional(),
  predictedMs: count.exactOptional(),
  by: caller.exactOptional(),
  endedAtMs: timeMs.exactOptional(),
  report: replayReport.exactOptional(),
  problem: z.object({ code: errorCode, message: z.string() }).exactOptional(),
});
export type StoredReplay = ValueOf<typeof storedReplay>;

const fileSchema = z.object({
  kind: z.literal("stemma-replays"),
  format: z.literal(1),
  replays: z.array(storedReplay),
});

/** More may not wait at a time in one fleet. */
export const maxWaitingReplays = 1000;
/** The number of ended replays that are kept, the latest ones. */
const keptEnded = 200;

interface QueuedOptions {
  readonly priority?: number;
  readonly by?: Caller;
  /** The longest time that it may take. */
  readonly maxMinutes?: number;
  /** The predicted time. */
  readonly predictedMs?: number;
}

const queues = new WeakMap<Home, Map<string, SerialQueue>>();

export class ReplayJobs {
  readonly #queue: SerialQueue;
  readonly #path: string;

  constructor(
    private readonly home: Home,
    readonly fleet: string,
  ) {
    this.#path = join(home.fleetFolder(fleet), "replays.json");
    let ofHome = queues.get(home);
    if (ofHome === undefined) queues.set(home, (ofHome = new Map<string, SerialQueue>()));
    const known = ofHome.get(fleet);
    this.#queue = known ?? new SerialQueue();
    if (known === undefined) ofHome.set(fleet, this.#queue);
  }

  /** Lists the waiting replays in the order in which they run, then the others, the latest first. */
  list(): Promise<readonly StoredReplay[]> {
    return this.#queue.run(() => this.#read());
  }

  /**
   * Queues a replay; one of the same version that waits already gets the new priority.
   * @throws QUOTA_EXCEEDED where too many wait
   */
  add(
    version: { readonly versionId: Hash; readonly name: string; readonly version: number },
    { priority = defaultReplayPriority, by, ...bounds }: QueuedOptions,
  ): Promise<StoredReplay> {
    const { versionId, name, version: number } = version;
    return this.#change((replays) => {
      const known = replays.find((each) => each.versionId === versionId);
      if (known?.state === "waiting") return { ...known, priority, ...bounds };
      if (replays.filter(({ state }) => state === "waiting").length >= maxWaitingReplays)
        throw tooManyReplays(maxWaitingReplays);
      return {
        versionId,
        name,
        version: number,
        state: "waiting",
        priority,
        queuedAtMs: this.home.ports.clock.now(),
        ...defined({ by }),
        ...bounds,
      };
    });
  }

  /** The versions whose replay waits or runs. */
  async waiting(): Promise<ReadonlySet<Hash>> {
    return waitingOf(await this.list());
  }

  /**
   * Work that must not happen while a replay of the version waits or runs; none is queued meanwhile.
   * @returns whether the work was done
   */
  unlessWaiting(versionId: Hash, work: () => Promise<unknown>): Promise<boolean> {
    return this.#queue.run(async () => {
      if (waitingOf(await this.#read()).has(versionId)) return false;
      await work();
      return true;
    });
  }

  /** @returns undefined where it does not wait */
  cancel(versionId: Hash): Promise<StoredReplay | undefined> {
    return this.end(versionId, { state: "cancelled" });
  }

  /** Notes how a waiting replay ended; one that does not wait any more stays as it is. */
  async end(
    versionId: Hash,
    how: Pick<StoredReplay, "state" | "report" | "problem">,
  ): Promise<StoredReplay | undefined> {
    return await this.#queue.run(async () => {
      const replays = await this.#read();
      const known = replays.find((each) => each.versionId === versionId && each.state === "waiting");
      if (known === undefined) return undefined;
      const ended = { ...known, ...how, endedAtMs: this.home.ports.clock.now() };
      await this.#write([ended, ...replays.filter((each) => each !== known)]);
      return ended;
    });
  }

  #change(change: (replays: readonly StoredReplay[]) => StoredReplay): Promise<StoredReplay> {
    return this.#queue.run(async () => {
      const replays = await this.#read();
      const changed = change(replays);
      await this.#write([changed, ...replays.filter(({ versionId }) => versionId !== changed.versionId)]);
      return changed;
    });
  }

  /** @throws CONFIG_INVALID for a file that this release did not write */
  async #read(): Promise<readonly StoredReplay[]> {
    const { files } = this.home.ports;
    if ((await files.stat(this.#path)) === undefined) return [];
    try {
      return fileSchema.parse(JSON.parse(Buffer.from(await files.read(this.#path)).toString("utf8"))).replays;
    } catch (cause) {
      throw queueDamaged(this.#path, cause);
    }
  }

  async #write(replays: readonly StoredReplay[]): Promise<void> {
    const ended = replays.filter(({ state }) => state !== "waiting").sort(byEnd);
    const content = {
      kind: "stemma-replays",
      format: 1,
      replays: [
        ...replays.filter(({ state }) => state === "waiting").sort(byTurn),
        ...ended.slice(0, keptEnded),
      ],
    };
    await writeDurably(this.home.ports.files, this.#path, Buffer.from(`${JSON.stringify(content)}\n`));
  }
}

function waitingOf(replays: readonly StoredReplay[]): ReadonlySet<Hash> {
  return new Set(replays.filter(({ state }) => state === "waiting").map(({ versionId }) => versionId));
}

function byTurn(a: StoredReplay, b: StoredReplay): number {
  return b.priority - a.priority || a.queuedAtMs - b.queuedAtMs;
}

function byEnd(a: StoredReplay, b: StoredReplay): number {
  return (b.endedAtMs ?? 0) - (a.endedAtMs ?? 0);
}
