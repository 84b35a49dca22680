/**
 * Runs the queued replays of a server's fleets, one at a time, each training in a process of its own. What is queued
 * is on the disk (replay-jobs.ts), and so is the state of the training, so that a server that was killed goes on
 * where it was. A verdict in the journal is not computed again.
 */
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError } from "../../shared/errors.js";
import type { Log } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { TrainingProgress } from "../../shared/train/training.js";
import { fleetsAs } from "../context/open-fleets.js";
import type { OperationsContext, RunningReplay } from "../context/operations-context.js";
import { ReplayJobs, type StoredReplay } from "./replay-jobs.js";
import { replayVersion, withinReplayLimit } from "./replay-version.js";

export interface ReplayRunnerParts extends Pick<OperationsContext, "home" | "fleets" | "version"> {
  readonly log: Log;
}

interface NextReplay {
  readonly fleet: string;
  readonly stored: StoredReplay;
}

export class ReplayRunner {
  #running: { readonly at: RunningReplay; readonly abort: AbortController } | undefined;
  readonly #closing = new AbortController();
  #work: Promise<void> | undefined;
  #isDue = false;
  #isTidy = false;

  constructor(private readonly parts: ReplayRunnerParts) {}

  /** Call when something was queued, and once at the start. */
  wake(): void {
    this.#isDue = true;
    this.#work ??= this.#runAll();
  }

  get running(): RunningReplay | undefined {
    return this.#running?.at;
  }

  /** Ends the replay of a version where it runs now; the queue has been told already. */
  stop(fleet: string, versionId: Hash): void {
    const { at, abort } = this.#running ?? {};
    if (at?.fleet === fleet && at.versionId === versionId) abort?.abort();
  }

  /** Resolves when nothing is left to do. */
  async idle(): Promise<void> {
    while (this.#work !== undefined) await this.#work;
  }

  /** Ends the replay that runs; its state is kept for the next start. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#running?.abort.abort();
    await this.idle();
  }

  async #runAll(): Promise<void> {
    await this.#removeOthers();
    while (this.#isDue && !this.#closing.signal.aborted) {
      this.#isDue = false;
      for (let next = await this.#next(); next !== undefined; next = await this.#next()) {
        await this.#run(next);
        if (this.#closing.signal.aborted) break;
      }
    }
    this.#work = undefined;
  }

  /** Removes what is left of replays that were cancelled while no server ran. */
  async #removeOthers(): Promise<void> {
    if (this.#isTidy) return;
    this.#isTidy = true;
    const { home, fleets } = this.parts;
    const kept = new Set<string>();
    try {
      for (const fleet of await fleets.names())
        for (const { versionId, state } of await new ReplayJobs(home, fleet).list())
          if (state === "waiting") kept.add(versionId);
      for (const name of await readdir(keptFolderOf(home)).catch(() => []))
        if (!kept.has(name)) await rm(join(keptFolderOf(home), name), { recursive: true, force: true });
    } catch (error) {
      this.parts.log.error("replays-not-read", { message: messageOf(error) });
    }
  }

  async #next(): Promise<NextReplay | undefined> {
    const { home, fleets, log } = this.parts;
    const waiting: NextReplay[] = [];
    for (const fleet of await fleets.names())
      try {
        const stored = (await new ReplayJobs(home, fleet).list()).find(({ state }) => state === "waiting");
        if (stored !== undefined) waiting.push({ fleet, stored });
      } catch (error) {
        log.error("replays-not-read", { fleet, message: messageOf(error) });
      }
    return waiting.sort(
      (a, b) => b.stored.priority - a.stored.priority || a.stored.queuedAtMs - b.stored.queuedAtMs,
    )[0];
  }

  async #run({ fleet, stored }: NextReplay): Promise<void> {
    const { home, log } = this.parts;
    const { versionId } = stored;
    const keptFolder = join(keptFolderOf(home), versionId);
    const abort = new AbortController();
    if (this.#closing.signal.aborted) return;
    const at: RunningReplay = { fleet, versionId, startedAtMs: home.ports.clock.now(), progress: undefined };
    this.#running = { at, abort };
    const jobs = new ReplayJobs(home, fleet);
    try {
      const report =
        (await this.#finished(fleet, stored)) ??
        (await this.#replay({ fleet, stored }, { signal: abort.signal, keptFolder, at }));
      if (report === undefined) return;
      await jobs.end(versionId, { state: "ended", report });
      log.info("replay-ended", { fleet, versionId, verdict: report.verdict, text: report.text });
    } catch (error) {
      // A replay that was cancelled does not wait any more; one that the end of the server cut short waits on.
      if (abort.signal.aborted) return;
      const code = isStemmaError(error) ? error.code : "INTERNAL";
      log.warn("replay-failed", { fleet, versionId, code, message: messageOf(error) });
      await jobs.end(versionId, { state: "failed", problem: { code, message: messageOf(error) } });
    } finally {
      this.#running = undefined;
      if (!this.#closing.signal.aborted) await rm(keptFolder, { recursive: true, force: true });
    }
  }

  /** The verdict that a server which was killed had written already; undefined: there is none. */
  async #finished(fleet: string, { versionId, queuedAtMs }: StoredReplay): Promise<StoredReplay["report"]> {
    const summary = (await this.parts.fleets.get(fleet)).get(versionId);
    if (summary?.replayed === undefined || summary.replayed.atMs < queuedAtMs) return undefined;
    const { verdict, grade, engineId, because } = summary.replayed;
    const { name, version } = summary;
    return { versionId, name, version, verdict, grade, engineId, text: because };
  }

  /** Undefined where the server stops. A replay that a person waits for runs first. */
  async #replay(
    { fleet, stored: { versionId, by } }: NextReplay,
    { signal, keptFolder, at }: RunOptions,
  ): Promise<StoredReplay["report"]> {
    const { home, version } = this.parts;
    const fleets = by === undefined ? this.parts.fleets : fleetsAs(this.parts.fleets, by);
    const context: OperationsContext = { home, fleets, version, ...(by === undefined ? {} : { caller: by }) };
    const onProgress = (progress: TrainingProgress): void => {
      at.progress = progress;
    };
    while (!signal.aborted)
      try {
        return await replayVersion(context, { fleet, model: versionId }, { signal, keptFolder, onProgress });
      } catch (error) {
        if (!isStemmaError(error, "QUOTA_EXCEEDED")) throw error;
        await withinReplayLimit.whenFree(context, signal);
      }
    return undefined;
  }
}

function keptFolderOf({ path }: OperationsContext["home"]): string {
  return join(path, "run", "replays");
}

interface RunOptions {
  readonly signal: AbortSignal;
  readonly keptFolder: string;
  readonly at: RunningReplay;
}
