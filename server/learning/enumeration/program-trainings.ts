/**
 * Trains candidates of an evaluation by a program of the user's own, one at a time. A candidate that was judged by a
 * line of progress trains on until the rule has no place for it: then the program is ended. One whose program told no
 * such figure is judged when it has ended.
 */
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { StemmaError } from "../../../shared/errors.js";
import type { Measurement, TrainingProgress } from "../../../shared/train/training.js";
import { figureOf, type EndedTraining, type TrainedSoFar, type WantedFigure } from "./train-candidate.js";

/** Losses of one training that are kept: of more, the last replaces the one before. */
const maxTold = 10_000;

/** @typeParam Outcome of a training that has ended */
export interface ProgramPorts<Outcome extends EndedTraining> {
  /** Runs the program to its end, or takes what it left before a kill. */
  run(candidate: number, running: RunningProgram): Promise<Outcome>;
  /** Removes what a candidate left on the disk. */
  remove(candidate: number): Promise<void>;
}

export interface RunningProgram {
  readonly signal: AbortSignal;
  readonly onProgress: (progress: TrainingProgress) => void;
  /** Forgets what a run before told, which may have been another training. */
  readonly beginAgain: () => void;
  /** The losses that it told so far. */
  readonly told: readonly Measurement[];
}

interface Training<Outcome> {
  readonly stop: AbortController;
  readonly told: Measurement[];
  readonly done: Promise<Outcome>;
  /** Called with each new loss. */
  onTold: () => void;
}

export class ProgramTrainings<Outcome extends EndedTraining> {
  readonly #trainings = new Map<number, Training<Outcome>>();
  /** One after the other: programs take the machine's memory and processors as they like. */
  readonly #queue = new SerialQueue();

  constructor(
    private readonly ports: ProgramPorts<Outcome>,
    private readonly signal: AbortSignal | undefined,
  ) {}

  /** Trains a candidate until it has told a figure, and meanwhile on, or to its end. */
  async train(candidate: number, wanted: WantedFigure | undefined): Promise<TrainedSoFar<Outcome>> {
    const training = this.#trainings.get(candidate) ?? this.#begin(candidate);
    const { done, told } = training;
    const { name, steps } = wanted ?? {};
    const ended = done.then((outcome) => ({ measurements: outcome.result.measurements, outcome }));
    if (name === undefined || steps === undefined) return await ended;
    const isTold = (): boolean => figureOf({ measurements: told }, name, steps).figure !== null;
    if (isTold()) {
      // A program may fail after that: whoever waits for its end gets the error.
      ended.catch(() => undefined);
      return { measurements: [...told] };
    }
    const judged = new Promise<TrainedSoFar<Outcome>>((resolve) => {
      training.onTold = () => {
        if (isTold()) resolve({ measurements: [...told] });
      };
    });
    return await Promise.race([judged, ended.then((all) => ({ ...all, isAtEnd: true as const }))]);
  }

  /** Ends the program of a candidate that is not kept, where it runs, and removes what it left. */
  async forget(candidate: number): Promise<void> {
    const training = this.#trainings.get(candidate);
    this.#trainings.delete(candidate);
    training?.stop.abort();
    await training?.done.catch(() => undefined);
    await this.ports.remove(candidate);
  }

  /** Ends the program that runs. */
  async close(): Promise<void> {
    for (const { stop } of this.#trainings.values()) stop.abort();
    for (const { done } of this.#trainings.values()) await done.catch(() => undefined);
  }

  #begin(candidate: number): Training<Outcome> {
    const stop = new AbortController();
    const signal = this.signal === undefined ? stop.signal : AbortSignal.any([this.signal, stop.signal]);
    const told: Measurement[] = [];
    const done = this.#queue.run(async () => {
      if (signal.aborted) throw stopped();
      return await this.ports.run(candidate, {
        signal,
        told,
        beginAgain: () => told.splice(0),
        onProgress: (progress) => {
          if (take(told, progress)) training.onTold();
        },
      });
    });
    done.catch(() => undefined);
    const training: Training<Outcome> = { stop, told, done, onTold: () => undefined };
    this.#trainings.set(candidate, training);
    return training;
  }
}

/** @returns whether it tells the loss of a step that comes after those before */
function take(told: Measurement[], { iteration, epoch = 0, loss }: TrainingProgress): boolean {
  if (iteration === undefined || loss === undefined || !Number.isFinite(loss)) return false;
  if (iteration <= (told.at(-1)?.iteration ?? -1)) return false;
  const measurement = { iteration, epoch, loss, learningRate: 0, validation: null };
  if (told.length < maxTold) told.push(measurement);
  else told[maxTold - 1] = measurement;
  return true;
}

const stopped = (): StemmaError =>
  new StemmaError(
    "TRAINING_STOPPED",
    "The evaluation was stopped before this candidate began. The same command goes on with it.",
  );
