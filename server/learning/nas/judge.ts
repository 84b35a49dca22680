/**
 * Judges candidates of a search after their first steps: one whose loss is worse than that of a share of those before
 * it is ended. It is compared with the candidates of lower numbers, also where several train at the same time, so that
 * the losses alone decide.
 */
import { judgeStopped } from "./search-errors.js";
import type { SearchEvent, SearchLog } from "./search-log.js";

export const defaultJudgeShare = 0.5;

export interface JudgeSettings {
  /** The step after which each candidate is judged. */
  readonly judgeAfter: number;
  /** The share of earlier candidates whose losses must be better for a candidate to be ended. */
  readonly judgeShare: number;
  /** Candidates of lower numbers than this are never ended: they are the first population. */
  readonly population: number;
}

export type JudgedEvent = Extract<SearchEvent, { readonly event: "judged" }>;

/** @param before losses of the candidates before it. Pure. */
export function isEnded(
  candidate: number,
  loss: number,
  before: readonly number[],
  { judgeShare, population }: Pick<JudgeSettings, "judgeShare" | "population">,
): boolean {
  if (candidate < population) return false;
  const better = before.filter((other) => other < loss).length;
  return better > 0 && better >= judgeShare * before.length;
}

function resolvable(): { readonly resolved: Promise<void>; readonly resolve: () => void } {
  let resolve = (): void => undefined;
  const resolved = new Promise<void>((done) => {
    resolve = done;
  });
  return { resolved, resolve };
}

interface Running {
  /** Resolves when the candidate's loss is noted, or will never be known. */
  readonly known: Promise<void>;
  readonly tell: () => void;
  verdict?: Promise<boolean>;
}

/** The judgements of a search, kept in its log. */
export class Judge {
  /** The running candidates that no log has a judgement of. */
  readonly #running = new Map<number, Running>();

  constructor(
    private readonly settings: JudgeSettings,
    private readonly ports: {
      readonly log: SearchLog;
      readonly signal?: AbortSignal | undefined;
      /** Notes an event, one after the other. */
      readonly note: (event: JudgedEvent) => Promise<void>;
    },
  ) {}

  /** Begins the training of a candidate. Call in the order of the candidates. */
  begin(candidate: number): void {
    if (this.#noted(candidate) !== undefined) return;
    const { resolved: known, resolve: tell } = resolvable();
    this.#running.set(candidate, { known, tell });
  }

  /** Ends that of a candidate which is noted as done or failed, so that none waits for its loss. */
  end(candidate: number): void {
    this.#running.get(candidate)?.tell();
    this.#running.delete(candidate);
  }

  /**
   * Resolves when the judgement is noted; one that was noted before stays.
   * @returns true where the candidate is ended
   * @throws TRAINING_STOPPED where the search was stopped before the losses were known
   */
  isEnded(candidate: number, loss: number): Promise<boolean> {
    const running = this.#running.get(candidate);
    if (running === undefined) return Promise.resolve(this.#noted(candidate)?.isEnded === true);
    return (running.verdict ??= this.#judge(candidate, loss, running));
  }

  async #judge(candidate: number, loss: number, { tell }: Running): Promise<boolean> {
    // The lowest one waits for none, so each has its turn.
    const before = [...this.#running].filter(([other]) => other < candidate);
    await this.#unlessStopped(Promise.all(before.map(([, { known }]) => known)));
    const losses = this.#judged()
      .filter((event) => event.candidate < candidate)
      .map((event) => event.loss);
    const ended = isEnded(candidate, loss, losses, this.settings);
    const { judgeAfter: step } = this.settings;
    await this.ports.note({ event: "judged", candidate, step, loss, isEnded: ended });
    tell();
    return ended;
  }

  /** A stopped search tells no more losses. */
  async #unlessStopped(known: Promise<unknown>): Promise<void> {
    const { signal } = this.ports;
    const isStopped = (): boolean => signal?.aborted === true;
    const { resolved: aborted, resolve: abort } = resolvable();
    signal?.addEventListener("abort", abort, { once: true });
    // A signal that was aborted before tells it no more.
    if (!isStopped()) await Promise.race([known, aborted]);
    signal?.removeEventListener("abort", abort);
    if (isStopped()) throw judgeStopped();
  }

  #noted(candidate: number): JudgedEvent | undefined {
    return this.#judged().find((event) => event.candidate === candidate);
  }

  #judged(): readonly JudgedEvent[] {
    return this.ports.log.events.filter((event) => event.event === "judged");
  }
}
