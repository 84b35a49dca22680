/**
 * Runs an evaluation (MH, section III-B): trains the candidates to each round, rules out those that the figures of
 * others leave no place for, trains what is kept to its end and has it saved. Killed at any moment, the same call goes
 * on: a figure is noted before anything depends on it, and equal trainings give equal bits.
 */
import { mapConcurrent } from "../../../shared/concurrency/map-concurrent.js";
import { defined } from "../../../shared/defined.js";
import { isStemmaError, type StemmaError } from "../../../shared/errors.js";
import { isDiverged, isLostProcess } from "../../../shared/train/train-in-child.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { survivors, type Figure, type KeepRule, type Round } from "../query/evaluate/keep-rule.js";
import type { EnumerationEvent, EnumerationLog } from "./enumeration-log.js";
import {
  candidateFaults,
  figureOf,
  type EndedTraining,
  type JudgedFigure,
  type TrainedSoFar,
  type WantedFigure,
} from "./train-candidate.js";

export interface EnumerationRequest {
  readonly rule: KeepRule;
  readonly figure: string;
  readonly rounds: readonly Round[];
  /** Numbers of the candidates. */
  readonly candidates: readonly number[];
}

/** @typeParam Outcome of a training that has ended */
export interface EnumerationPorts<Outcome extends EndedTraining> {
  readonly log: Pick<EnumerationLog, "events" | "append">;
  /** Candidates that are trained at the same time. */
  readonly concurrency: number;
  /** True if what is saved may come of another training than the one that was judged: its own figure is reported. */
  readonly mayTrainAgain?: boolean;
  /** Errors of one candidate, after which the others go on, in addition to those of every training. */
  readonly faults?: ReadonlySet<string> | undefined;
  /** Trains a candidate until it has a figure, or to its end; goes on where it was. */
  train(candidate: number, wanted: WantedFigure | undefined): Promise<TrainedSoFar<Outcome>>;
  /** Makes a version of a candidate that has ended; one that is there is not saved twice. */
  save(candidate: number, outcome: Outcome): Promise<Hash>;
  /** Removes what a candidate left on the disk. */
  forget(candidate: number): Promise<void>;
}

/** The end of a candidate. */
export interface CandidateEnd {
  readonly candidate: number;
  /** The figure of the last round that it was in; null: it has none. */
  readonly figure: Figure;
  /** The step after which that was measured; null: when the training had ended, or never. */
  readonly iteration: number | null;
  /** The version that it became. */
  readonly versionId?: Hash;
  /** The reason why it became none. */
  readonly reason?: string;
  /** True if it had to end before it could be judged. */
  readonly isAtEnd?: true;
}

function faultOf(error: unknown, others: ReadonlySet<string> | undefined): StemmaError {
  if (!isStemmaError(error)) throw error;
  const { code } = error;
  if (isDiverged(error) || isLostProcess(error) || candidateFaults.has(code) || others?.has(code) === true)
    return error;
  throw error;
}

/** @throws what training, saving and the log throw; TRAINING_STOPPED where the signal ended it */
export async function runEnumeration<Outcome extends EndedTraining>(
  request: EnumerationRequest,
  ports: EnumerationPorts<Outcome>,
): Promise<readonly CandidateEnd[]> {
  const running = new Enumeration(request, ports);
  let left = request.candidates;
  for (const [index, round] of request.rounds.entries())
    left = await running.round(left, { ...round, index });
  // The best is saved last: of several versions of one name the newest is meant where none is named.
  for (const candidate of left.toReversed()) await running.finish(candidate);
  return request.candidates.map((candidate) => running.endOf(candidate));
}

interface Judged extends JudgedFigure {
  readonly reason?: string | undefined;
  readonly isAtEnd?: true | undefined;
}

class Enumeration<Outcome extends EndedTraining> {
  readonly #ends = new Map<number, CandidateEnd>();
  /** The ended trainings of candidates that may be kept. */
  readonly #outcomes = new Map<number, Outcome>();
  readonly #ruledOut = new Set<number>();

  constructor(
    private readonly request: EnumerationRequest,
    private readonly ports: EnumerationPorts<Outcome>,
  ) {}

  endOf(candidate: number): CandidateEnd {
    return this.#ends.get(candidate) as CandidateEnd;
  }

  /** @returns the candidates that go on, the best first */
  async round(
    candidates: readonly number[],
    round: Round & { readonly index: number },
  ): Promise<readonly number[]> {
    const figures = new Map<number, Figure>();
    let ahead: readonly number[] = [];
    // By their numbers: which are judged first decides nothing, and a candidate's place in the log is plain.
    const inOrder = candidates.toSorted((a, b) => a - b);
    await mapConcurrent(inOrder, this.ports.concurrency, async (candidate) => {
      const { figure, iteration, reason, isAtEnd } = await this.#judge(candidate, round);
      figures.set(candidate, figure);
      this.#ends.set(candidate, {
        candidate,
        figure,
        iteration,
        ...defined({ reason, isAtEnd }),
      });
      ahead = survivors(this.request.rule, round, figures);
      const behind = [...figures.keys()].filter((other) => !ahead.includes(other));
      for (const other of behind) await this.#ruleOut(other, round);
    });
    return ahead;
  }

  async finish(candidate: number): Promise<void> {
    const { log } = this.ports;
    const end = this.endOf(candidate);
    for (const event of log.events) {
      if (!("candidate" in event) || event.candidate !== candidate) continue;
      if (event.event === "saved")
        this.#ends.set(candidate, { ...end, ...event.own, versionId: event.versionId });
      if (event.event === "failed") this.#ends.set(candidate, { ...end, reason: event.reason });
      if (event.event !== "judged") return await this.ports.forget(candidate);
    }
    let event: EnumerationEvent;
    try {
      const ended = this.#outcomes.get(candidate) ?? (await this.ports.train(candidate, undefined)).outcome;
      const versionId = await this.ports.save(candidate, ended as Outcome);
      const own = this.ports.mayTrainAgain === true ? this.#figureAtEnd(ended as Outcome) : undefined;
      event = { event: "saved", candidate, versionId, ...defined({ own }) };
      this.#ends.set(candidate, { ...end, ...own, versionId });
    } catch (error) {
      const { message } = faultOf(error, this.ports.faults);
      event = { event: "failed", candidate, reason: message };
      this.#ends.set(candidate, { ...end, reason: message });
    }
    await log.append(event);
    this.#outcomes.delete(candidate);
    await this.ports.forget(candidate);
  }

  async #judge(candidate: number, { iteration, index }: Round & { readonly index: number }): Promise<Judged> {
    const { log } = this.ports;
    for (const event of log.events)
      if (event.event === "judged" && event.candidate === candidate && event.round === index) return event;
    let judged: Judged;
    try {
      const { figure: name } = this.request;
      // An earlier round may have seen the end of a short training.
      const outcome = this.#outcomes.get(candidate);
      const trained =
        outcome === undefined
          ? await this.ports.train(candidate, { name, steps: iteration })
          : { measurements: outcome.result.measurements, outcome };
      if (trained.outcome !== undefined) this.#outcomes.set(candidate, trained.outcome);
      const found = figureOf(trained, name, iteration);
      const isAtEnd = "isAtEnd" in trained ? trained.isAtEnd : undefined;
      judged = {
        ...found,
        ...defined({ isAtEnd, reason: found.figure === null ? this.#noFigure(iteration) : undefined }),
      };
    } catch (error) {
      judged = { figure: null, iteration: null, reason: faultOf(error, this.ports.faults).message };
    }
    await log.append({ event: "judged", candidate, round: index, ...judged });
    return judged;
  }

  /** The figure that the last round went by, of a training that has ended. */
  #figureAtEnd(outcome: Outcome): JudgedFigure {
    const { measurements } = outcome.result;
    return figureOf({ measurements, outcome }, this.request.figure, this.request.rounds.at(-1)?.iteration);
  }

  #noFigure(iteration: number | undefined): string {
    return `it has no ${this.request.figure} ${iteration === undefined ? "at its end" : `from step ${iteration} on`}`;
  }

  async #ruleOut(candidate: number, { keeps }: Round): Promise<void> {
    if (this.#ruledOut.has(candidate)) return;
    this.#ruledOut.add(candidate);
    const end = this.endOf(candidate);
    if (end.reason === undefined) {
      const { kind, bound } = this.request.rule;
      const reason =
        kind === "above"
          ? `it is below ${String(bound)}`
          : `${keeps === 1 ? "another is" : `${keeps} others are`} as good or better`;
      this.#ends.set(candidate, { ...end, reason });
    }
    this.#outcomes.delete(candidate);
    await this.ports.forget(candidate);
  }
}
