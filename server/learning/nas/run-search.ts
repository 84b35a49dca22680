/**
 * Runs a search: proposes candidates, has them trained, saves what each changed, and retires what leaves the
 * population. Processes of the engine on this machine, or devices of a fleet, train them. Killed at any
 * moment, the same call goes on: a candidate is noted before it is trained, and again when its model is
 * stored; one that was not noted as stored is made again.
 */
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { defined } from "../../../shared/defined.js";
import { isStemmaError, type StemmaError } from "../../../shared/errors.js";
import type { Clock, Files } from "../../../shared/ports.js";
import { isDiverged, isLostProcess } from "../../../shared/train/train-in-child.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { populationAfter, propose, type SearchSettings, type Trained } from "./evolution.js";
import type { DoneEvent, SearchEvent, SearchLog } from "./search-log.js";
import type { SearchSpace } from "./search-space.js";
import type { Inherited, SearchStore } from "./search-store.js";
import {
  candidateStart,
  fileOf,
  type CandidateJob,
  type CandidateJudge,
  type CandidateTrainer,
} from "./candidate.js";
import { defaultJudgeShare, Judge, type JudgedEvent } from "./judge.js";

export interface SearchRequest extends SearchSettings {
  readonly space: SearchSpace;
  /** The number of candidates that are made in total. */
  readonly candidates: number;
  readonly epochs: number;
  readonly batchSize: number;
  readonly learningRate: number;
  /** True if candidates take over layers of earlier ones; without, each is trained from scratch. */
  readonly transfer: boolean;
  /** True if candidates stay when they leave the population. */
  readonly keepAll: boolean;
  /** The step after which a candidate is judged by its loss; absent: each is trained to its end. */
  readonly judgeAfter?: number | undefined;
  /** The share of earlier candidates whose losses must be better for a candidate to be ended; absent: half. */
  readonly judgeShare?: number | undefined;
}

export interface SearchPorts {
  readonly store: SearchStore;
  readonly log: SearchLog;
  readonly files: Files;
  readonly clock: Clock;
  /** A folder for the work on a candidate; it is removed afterwards. */
  workFolder(candidate: number): string;
  /** Each makes one candidate at a time. At least one. */
  readonly trainers: readonly CandidateTrainer[];
  readonly signal?: AbortSignal | undefined;
  onEvent?(event: SearchEvent): void;
  /** A trainer can train no more; others make its candidate. */
  onLost?(error: StemmaError): void;
}

/** The state of a search, as its log tells it. */
export interface SearchState {
  readonly proposed: ReadonlyMap<number, Extract<SearchEvent, { readonly event: "proposed" }>>;
  readonly done: ReadonlyMap<number, DoneEvent>;
  readonly failed: ReadonlyMap<number, string>;
  readonly retired: ReadonlySet<number>;
  /** The candidates that were ended early, which are of no population, by their numbers. */
  readonly ended: ReadonlyMap<number, JudgedEvent>;
  /** True if any candidate was judged. */
  readonly isJudged: boolean;
  /** The number of candidates that are done, failed or ended. */
  readonly finished: number;
  /** The trained and failed candidates in the order in which they were finished. */
  readonly trained: readonly Trained[];
}

export function searchState(events: readonly SearchEvent[]): SearchState {
  const proposed = new Map<number, Extract<SearchEvent, { readonly event: "proposed" }>>();
  const done = new Map<number, DoneEvent>();
  const failed = new Map<number, string>();
  const retired = new Set<number>();
  const ended = new Map<number, JudgedEvent>();
  const trained: Trained[] = [];
  for (const event of events) {
    const { candidate } = event;
    const choices = proposed.get(candidate)?.choices ?? [];
    if (event.event === "proposed") proposed.set(candidate, event);
    else if (event.event === "retired") retired.add(candidate);
    else if (event.event === "judged" && event.isEnded) ended.set(candidate, event);
    else if (event.event === "done") {
      done.set(candidate, event);
      trained.push({ candidate, choices, quality: event.quality });
    } else if (event.event === "failed") {
      failed.set(candidate, event.message);
      trained.push({ candidate, choices, quality: null });
    }
  }
  const isJudged = events.some(({ event }) => event === "judged");
  const finished = trained.length + ended.size;
  return { proposed, done, failed, retired, ended, isJudged, finished, trained };
}

/**
 * @throws what training, saving and the log throw; TRAINING_STOPPED where the signal ended it; SEARCH_WORKER_LOST where
 * the last trainer can train no more
 */
export async function runSearch(request: SearchRequest, ports: SearchPorts): Promise<SearchState> {
  const stop = new AbortController();
  const signal = ports.signal === undefined ? stop.signal : AbortSignal.any([ports.signal, stop.signal]);
  const search = new Search(request, { ...ports, signal });
  let able = ports.trainers;
  try {
    await search.clearUp();
    do {
      const { left, lost } = await workTogether(search, able, stop);
      if (left.length === 0 && lost !== undefined && search.hasMore()) throw lost;
      able = left;
      // A candidate whose trainer was lost last is made by those that had nothing to do any more.
    } while (search.hasMore() && !signal.aborted);
  } finally {
    // What cannot be tidied up now, the next call of the search does.
    for (const trainer of ports.trainers) await trainer.close?.().catch(() => undefined);
  }
  return searchState(ports.log.events);
}

/** @returns the trainers that can train more, and why the last of the others cannot */
async function workTogether(
  search: Search,
  trainers: readonly CandidateTrainer[],
  stop: AbortController,
): Promise<{ readonly left: readonly CandidateTrainer[]; readonly lost: StemmaError | undefined }> {
  const left: CandidateTrainer[] = [];
  let lost: StemmaError | undefined;
  const ended = await Promise.allSettled(
    trainers.map(async (trainer) => {
      try {
        await search.work(trainer);
        left.push(trainer);
      } catch (error) {
        if (isStemmaError(error, "SEARCH_WORKER_LOST")) {
          search.lost(error);
          lost = error;
          return;
        }
        // The others end too: a full disk or a lost server would meet them next.
        stop.abort();
        throw error;
      }
    }),
  );
  const failures = ended.flatMap((each) => (each.status === "rejected" ? [each.reason as Error] : []));
  const [first] = failures.toSorted((a, b) => Number(isStopped(a)) - Number(isStopped(b)));
  if (first !== undefined) throw first;
  return { left, lost };
}

/** Errors of one candidate, after which the search goes on. */
const candidateFaults: ReadonlySet<string> = new Set(["NOT_A_NUMBER", "SEARCH_SPACE_INVALID"]);

/** An error of one candidate; its training diverged, or its process ended twice. */
const isOfCandidate = (error: unknown): error is StemmaError =>
  isStemmaError(error) && (candidateFaults.has(error.code) || isLostProcess(error) || isDiverged(error));

const isStopped = (error: unknown): boolean => isStemmaError(error, "TRAINING_STOPPED");

type Proposed = Extract<SearchEvent, { readonly event: "proposed" }>;

class Search {
  readonly #request: SearchRequest;
  readonly #ports: SearchPorts;
  /** Decisions and what is noted of them, one after the other. */
  readonly #decisions = new SerialQueue();
  readonly #running = new Set<number>();
  readonly #judge: Judge | undefined;

  constructor(request: SearchRequest, ports: SearchPorts) {
    this.#request = request;
    this.#ports = ports;
    const { judgeAfter, judgeShare = defaultJudgeShare, population } = request;
    if (judgeAfter !== undefined)
      this.#judge = new Judge(
        { judgeAfter, judgeShare, population },
        { ...ports, note: (event) => this.#decisions.run(() => this.#note(event)) },
      );
  }

  /** Retires what a killed process stored and did not note, and what left the population. */
  async clearUp(): Promise<void> {
    const { proposed, done, failed, ended } = searchState(this.#ports.log.events);
    const noted = new Set([...done.values()].map(({ versionId }) => versionId));
    for (const candidate of proposed.keys()) {
      if (done.has(candidate) || failed.has(candidate) || ended.has(candidate)) continue;
      for (const versionId of await this.#ports.store.modelsOf(candidate))
        if (!noted.has(versionId)) await this.#retire(versionId, "the search was killed before it was noted");
    }
    await this.#decisions.run(() => this.#retireLeft());
  }

  /** Makes candidates until there are enough. */
  async work(trainer: CandidateTrainer): Promise<void> {
    for (;;) {
      if (this.#ports.signal?.aborted === true) return;
      const next = await this.#decisions.run(() => this.#next());
      if (next === undefined) return;
      await this.#make(next, trainer);
    }
  }

  lost(error: StemmaError): void {
    this.#ports.onLost?.(error);
  }

  /** True if fewer candidates are finished than the search asks for. */
  hasMore(): boolean {
    return searchState(this.#ports.log.events).finished < this.#request.candidates;
  }

  async #next(): Promise<Proposed | undefined> {
    const { proposed, done, failed, ended, trained } = searchState(this.#ports.log.events);
    const left = [...proposed.values()].find(({ candidate }) =>
      [done, failed, ended, this.#running].every((known) => !known.has(candidate)),
    );
    if (left !== undefined) {
      this.#begin(left.candidate);
      return left;
    }
    const candidate = proposed.size;
    if (candidate >= this.#request.candidates) return undefined;
    const proposal = propose(candidate, trained, { space: this.#request.space, settings: this.#request });
    const event: Proposed = {
      event: "proposed",
      candidate,
      choices: [...proposal.choices],
      ...defined({ parent: proposal.parent }),
    };
    this.#begin(candidate);
    await this.#note(event);
    return event;
  }

  #begin(candidate: number): void {
    this.#running.add(candidate);
    this.#judge?.begin(candidate);
  }

  async #make({ candidate, choices }: Proposed, trainer: CandidateTrainer): Promise<void> {
    const { space, seed, epochs, batchSize, learningRate, transfer } = this.#request;
    const { store, files, signal } = this.#ports;
    const startedMs = this.#ports.clock.monotonic();
    const job: CandidateJob = { candidate, choices, space, seed, epochs, batchSize, learningRate };
    const workFolder = this.#ports.workFolder(candidate);
    let inherited: Inherited | undefined;
    let isSaved = false;
    try {
      inherited = transfer ? await store.inherit(candidateStart(job).modelJson) : undefined;
      await files.remove(workFolder);
      await files.makeFolder(workFolder);
      const made = await trainer.train(job, inherited, {
        workFolder,
        signal,
        ...defined({ judge: this.#judgeOf(candidate) }),
      });
      if (made === undefined) return;
      const file = await fileOf(made);
      const { versionId, root, bytes, newBytes } = await store.save({
        candidate,
        choices,
        quality: made.accuracy,
        modelJson: made.modelJson,
        file,
        lease: inherited?.lease,
        device: trainer.device,
      });
      isSaved = true;
      await this.#finished({
        event: "done",
        candidate,
        versionId,
        root,
        quality: made.accuracy,
        ancestor:
          inherited === undefined ? null : { versionId: inherited.versionId, layers: inherited.layers },
        frozen: made.frozen,
        layers: made.architecture.layers.length,
        trainMs: Math.round(made.trainMs),
        totalMs: Math.round(this.#ports.clock.monotonic() - startedMs),
        endedAtMs: Math.round(this.#ports.clock.now()),
        bytes,
        newBytes,
        ...defined({ device: trainer.device }),
      });
    } catch (error) {
      if (!isOfCandidate(error)) throw error;
      await this.#finished({ event: "failed", candidate, code: error.code, message: error.message });
    } finally {
      this.#running.delete(candidate);
      await files.remove(workFolder);
      if (inherited !== undefined && !isSaved) await store.endLease(inherited.lease).catch(() => undefined);
    }
  }

  #judgeOf(candidate: number): CandidateJudge | undefined {
    const { judgeAfter } = this.#request;
    const judge = this.#judge;
    if (judge === undefined || judgeAfter === undefined) return undefined;
    return { after: judgeAfter, isEnded: (loss) => judge.isEnded(candidate, loss) };
  }

  #finished(event: SearchEvent): Promise<void> {
    return this.#decisions.run(async () => {
      await this.#note(event);
      this.#judge?.end(event.candidate);
      await this.#retireLeft();
    });
  }

  async #retireLeft(): Promise<void> {
    if (this.#request.keepAll) return;
    const { done, retired, trained } = searchState(this.#ports.log.events);
    for (const candidate of populationAfter(trained, this.#request).leavers) {
      const stored = done.get(candidate);
      if (stored === undefined || retired.has(candidate)) continue;
      await this.#retire(stored.versionId, "it left the population of its search");
      await this.#note({ event: "retired", candidate });
    }
  }

  async #retire(versionId: Hash, because: string): Promise<void> {
    await this.#ports.store.retire(versionId, because);
  }

  async #note(event: SearchEvent): Promise<void> {
    await this.#ports.log.append(event);
    this.#ports.onEvent?.(event);
  }
}
