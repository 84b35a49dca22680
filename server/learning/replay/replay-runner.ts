/**
 * Runs the queued replays and the claims of a server's fleets, one at a time, each training in a process of its own.
 * What waits is on the disk (waiting-replays.ts), and so is the state of the training: a server that was killed goes
 * on where it was. A verdict in the journal is not computed again.
 */
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { defined } from "../../../shared/defined.js";
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError } from "../../../shared/errors.js";
import type { Log } from "../../../shared/ports.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { TrainingProgress } from "../../../shared/train/training.js";
import { fleetsAs } from "../../services/context/open-fleets.js";
import type {
  LiveFleet,
  OperationsContext,
  RunningReplay,
} from "../../services/context/operations-context.js";
import type { EventHub } from "../../interface/events/event-hub.js";
import type { ClaimSummary } from "../../storage/repository/claim.js";
import type { ClaimRules } from "./claim-rules.js";
import { replayClaim } from "./replay-claim.js";
import { ReplayJobs, type StoredReplay } from "./replay-jobs.js";
import { replayVersion, withinReplayLimit } from "./replay-version.js";
import { waitingReplays, type WaitingReplay } from "./waiting-replays.js";

export interface ReplayRunnerParts extends Pick<
  OperationsContext,
  "home" | "fleets" | "version" | "recipeConfinement" | "trainingLimits"
> {
  readonly log: Log;
  readonly events: Pick<EventHub, "emit">;
  readonly rules: ClaimRules;
  /** Returns the part that tells devices how their claims ended. */
  fleetOf(fleet: string): Promise<Pick<LiveFleet, "claimEnded">>;
}

/** Milliseconds until a claim is tried again whose replay failed because of the machine. */
const retryClaimMs = 10 * 60_000;

type QueuedReplay = WaitingReplay & { readonly stored: StoredReplay };
type ClaimReplay = WaitingReplay & { readonly claim: ClaimSummary };

export class ReplayRunner {
  #running: { readonly at: RunningReplay; readonly abort: AbortController } | undefined;
  readonly #closing = new AbortController();
  #work: Promise<void> | undefined;
  #isDue = false;
  #isTidy = false;
  /** Claims that are tried again later, with what ends the wait. */
  readonly #paused = new Map<Hash, () => void>();

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
    for (const cancel of this.#paused.values()) cancel();
    await this.idle();
  }

  /** Runs everything that waits, and never rejects: where the disk fails, the next wake tries again. */
  async #runAll(): Promise<void> {
    try {
      await this.#removeOthers();
      while (this.#isDue && !this.#closing.signal.aborted) {
        this.#isDue = false;
        for (let next = await this.#next(); next !== undefined; next = await this.#next()) {
          await this.#run(next);
          if (this.#closing.signal.aborted) break;
        }
      }
    } catch (error) {
      this.parts.log.error("replays-stopped", { message: messageOf(error) });
    } finally {
      this.#work = undefined;
    }
  }

  /** Removes what is left of replays that were cancelled while no server ran. */
  async #removeOthers(): Promise<void> {
    if (this.#isTidy) return;
    this.#isTidy = true;
    const folder = keptFolderOf(this.parts.home);
    const kept = new Set<string>((await waitingReplays(this.parts)).map(({ versionId }) => versionId));
    for (const name of await readdir(folder).catch(() => []))
      if (!kept.has(name)) await rm(join(folder, name), { recursive: true, force: true });
  }

  async #next(): Promise<WaitingReplay | undefined> {
    return (await waitingReplays(this.parts)).find(({ versionId }) => !this.#paused.has(versionId));
  }

  async #run(next: WaitingReplay): Promise<void> {
    const { home, log } = this.parts;
    const { fleet, versionId } = next;
    const keptFolder = join(keptFolderOf(home), versionId);
    const abort = new AbortController();
    if (this.#closing.signal.aborted) return;
    const at: RunningReplay = { fleet, versionId, startedAtMs: home.ports.clock.now(), progress: undefined };
    this.#running = { at, abort };
    const options = { signal: abort.signal, keptFolder, at };
    try {
      await ("claim" in next ? this.#replayClaim(next, options) : this.#replayQueued(next, options));
    } catch (error) {
      // A replay that was cancelled does not wait any more; one that the end of the server cut short waits on.
      if (abort.signal.aborted) return;
      const code = isStemmaError(error) ? error.code : "INTERNAL";
      const message = messageOf(error);
      log.warn("replay-failed", { fleet, versionId, code, message });
      if ("claim" in next) this.#pause(versionId);
      else await new ReplayJobs(home, fleet).end(versionId, { state: "failed", problem: { code, message } });
    } finally {
      this.#running = undefined;
      if (!this.#closing.signal.aborted) await rm(keptFolder, { recursive: true, force: true });
    }
  }

  #pause(versionId: Hash): void {
    const cancel = this.parts.home.ports.clock.after(retryClaimMs, () => {
      this.#paused.delete(versionId);
      this.wake();
    });
    this.#paused.set(versionId, cancel);
  }

  async #replayQueued({ fleet, stored }: QueuedReplay, options: RunOptions): Promise<void> {
    const { home, log } = this.parts;
    const { versionId } = stored;
    const report = (await this.#finished(fleet, stored)) ?? (await this.#replay({ fleet, stored }, options));
    if (report === undefined) return;
    await new ReplayJobs(home, fleet).end(versionId, { state: "ended", report });
    log.info("replay-ended", { fleet, versionId, verdict: report.verdict, text: report.text });
  }

  async #replayClaim({ fleet, claim }: ClaimReplay, { at, ...options }: RunOptions): Promise<void> {
    const { log, events, rules } = this.parts;
    const { versionId, record, name } = claim;
    const onProgress = (progress: TrainingProgress): void => {
      at.progress = progress;
    };
    const report = await this.#whenFree(options.signal, () =>
      replayClaim(this.parts, { fleet, versionId }, { ...options, onProgress, rules }),
    );
    if (report === undefined) return;
    const { verdict, text } = report;
    const { device, line } = record;
    log[verdict === "proved" ? "info" : "warn"]("claim-ended", {
      fleet,
      device,
      line,
      versionId,
      verdict,
      text,
    });
    events.emit({ event: "claim-ended", fleet, device, line, versionId, name, verdict, because: text });
    await (await this.parts.fleetOf(fleet)).claimEnded(versionId);
  }

  /** The verdict that a server which was killed had written already; undefined: there is none. */
  async #finished(fleet: string, { versionId, queuedAtMs }: StoredReplay): Promise<StoredReplay["report"]> {
    const summary = (await this.parts.fleets.get(fleet)).get(versionId);
    if (summary?.replayed === undefined || summary.replayed.atMs < queuedAtMs) return undefined;
    const { verdict, grade, engineId, because } = summary.replayed;
    const { name, version } = summary;
    return { versionId, name, version, verdict, grade, engineId, text: because };
  }

  async #replay(
    { fleet, stored: { versionId, by, maxMinutes } }: Pick<QueuedReplay, "fleet" | "stored">,
    { signal, keptFolder, at }: RunOptions,
  ): Promise<StoredReplay["report"]> {
    const fleets = by === undefined ? this.parts.fleets : fleetsAs(this.parts.fleets, { caller: by });
    const context: OperationsContext = { ...this.parts, fleets, ...defined({ caller: by }) };
    const onProgress = (progress: TrainingProgress): void => {
      at.progress = progress;
    };
    return await this.#whenFree(signal, () =>
      replayVersion(context, { fleet, model: versionId, maxMinutes }, { signal, keptFolder, onProgress }),
    );
  }

  /** A replay that a person waits for runs first. Undefined where it is stopped before it begins. */
  async #whenFree<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T | undefined> {
    while (!signal.aborted)
      try {
        return await work();
      } catch (error) {
        if (!isStemmaError(error, "QUOTA_EXCEEDED")) throw error;
        await withinReplayLimit.whenFree(this.parts, signal);
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
