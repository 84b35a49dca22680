/**
 * Trains candidates of an evaluation on devices, each of which trains one at a time. A candidate that was judged trains
 * on until the rule has no place for it: then the device is told to end. What a device was given is noted before, so
 * that the same command goes on with it after a kill. A device that can train no more is given up, and its candidate
 * goes to another.
 */
import { join } from "node:path";
import * as z from "zod";
import { defined } from "../../../shared/defined.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import type { Files } from "../../../shared/ports.js";
import { isHash } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { Measurement } from "../../../shared/train/training.js";
import {
  endTrainingCommand,
  trainingCourse,
  trainingCourseCommand,
} from "../../../shared/wire/judged-training.js";
import type { AskedTraining, DeviceWork, Version } from "../nas/device-work.js";
import { EventLog } from "../nas/event-log.js";
import { searchStopped } from "../nas/search-errors.js";
import { enumerationDamaged } from "./enumeration-log.js";
import {
  candidateFaults,
  figureOf,
  type EndedTraining,
  type TrainedSoFar,
  type WantedFigure,
} from "./train-candidate.js";

const hash = z.custom<Hash>(isHash, "not a hash");
const note = z.discriminatedUnion("event", [
  z.strictObject({ event: z.literal("given"), candidate: z.number(), device: z.string(), start: hash }),
  z.strictObject({ event: z.literal("trained"), candidate: z.number(), device: z.string(), versionId: hash }),
]);
type Note = z.infer<typeof note>;
export type DeviceNotes = EventLog<Note>;

export function openDeviceNotes(files: Files, folder: string): Promise<DeviceNotes> {
  return EventLog.open(files, join(folder, "devices.jsonl"), { schema: note, damaged: enumerationDamaged });
}

/** A candidate as a device has trained it. */
export interface DeviceOutcome extends EndedTraining {
  readonly device: string;
  /** The version that it reported. */
  readonly versionId: Hash;
}

/** The version that a device trains, and the parameters of its recipe. */
export interface CandidateStart {
  readonly start: Hash;
  readonly parameters: Readonly<Record<string, string | number | boolean>>;
}

export interface DevicePorts {
  /** A version of its own for a candidate, which devices begin from. */
  start(candidate: number, known: Hash | undefined): Promise<CandidateStart>;
  /** @throws SEARCH_WORKER_LOST where the device did something else than it was asked for */
  check(what: {
    readonly candidate: number;
    readonly start: Hash;
    readonly trained: Version;
    readonly device: DeviceWork;
  }): Promise<void>;
  /** Reads how a version was trained, and measures it where the rule wants that. */
  outcome(versionId: Hash, device: DeviceWork, signal: AbortSignal): Promise<EndedTraining["result"]>;
  /** Retires what a candidate that is not kept left on the server. */
  clear(candidate: number, start: Hash): Promise<void>;
  command(
    device: string,
    name: string,
    body: unknown,
  ): Promise<{ readonly code: string; readonly result?: unknown }>;
  onStep(candidate: number, device: string, iteration: number | undefined): void;
  onLost(device: string, error: StemmaError): void;
}

export interface DeviceTrainingsOptions {
  readonly devices: readonly DeviceWork[];
  readonly line: string;
  readonly ports: DevicePorts;
  readonly notes: DeviceNotes;
  /** True if programs of the devices' own train, which tell no figure before they have ended. */
  readonly isOwn?: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** The place where a candidate is trained. */
interface Place {
  readonly device: string;
  readonly start: Hash;
}

interface Training {
  readonly stop: AbortController;
  readonly wanted: WantedFigure | undefined;
  place?: Place;
  /** The steps from which a figure is waited for, and what takes the measurements that have it. */
  figure?: {
    readonly name: string;
    readonly steps: number;
    readonly found: (measurements: readonly Measurement[]) => void;
  };
}

export class DeviceTrainings {
  readonly #trainings = new Map<
    number,
    { readonly training: Training; readonly done: Promise<DeviceOutcome> }
  >();
  readonly #places: WaitingLine<DeviceWork>;
  readonly #stop = new AbortController();
  /** The error after which nothing is trained any more. */
  #failure: unknown;
  /** Devices whose agents do not tell how a training goes. */
  readonly #silent = new Set<string>();

  constructor(private readonly options: DeviceTrainingsOptions) {
    const { devices, signal } = options;
    this.#places = new WaitingLine(devices);
    if (signal?.aborted === true) this.#stop.abort();
    signal?.addEventListener("abort", () => this.#stop.abort(), { once: true });
  }

  /** Trains a candidate until it has a figure, and meanwhile on, or to its end. */
  async train(candidate: number, wanted: WantedFigure | undefined): Promise<TrainedSoFar<DeviceOutcome>> {
    const { training, done } = this.#trainings.get(candidate) ?? this.#begin(candidate, wanted);
    const ended = done.then(
      (outcome) => ({ measurements: outcome.result.measurements, outcome }),
      (error: unknown) => {
        // A candidate that nobody waits for may have failed first: why the others were stopped is told.
        throw isStemmaError(error, "TRAINING_STOPPED") ? (this.#failure ?? error) : error;
      },
    );
    const { name, steps } = wanted ?? {};
    if (name === undefined || steps === undefined) return await ended;
    const judged = new Promise<TrainedSoFar<DeviceOutcome>>((resolve) => {
      training.figure = { name, steps, found: (measurements) => resolve({ measurements }) };
    });
    const isOwn = this.options.isOwn === true;
    return await Promise.race([
      isOwn ? ended.then((all) => ({ ...all, isAtEnd: true as const })) : ended,
      judged,
    ]);
  }

  /** Ends the training of a candidate that is not kept, where it runs or ran before a kill. */
  async forget(candidate: number): Promise<void> {
    const { training, done } = this.#trainings.get(candidate) ?? {};
    this.#trainings.delete(candidate);
    const place = training?.place ?? this.#noted(candidate).given;
    const { ports } = this.options;
    if (place !== undefined && this.#noted(candidate).trained === undefined) await this.#end(place);
    training?.stop.abort();
    await done?.catch(() => undefined);
    if (place !== undefined) await ports.clear(candidate, place.start);
  }

  /** Waits for nothing any more; devices train on. */
  async close(): Promise<void> {
    this.#stop.abort();
    for (const { done } of this.#trainings.values()) await done.catch(() => undefined);
  }

  /** Tells a device to end. One that is away trains to its end; the next evaluation retires what it reports. */
  async #end({ device, start }: Place): Promise<void> {
    const { line, ports } = this.options;
    await ports.command(device, endTrainingCommand, { line, base: start }).catch(() => undefined);
  }

  #begin(
    candidate: number,
    wanted: WantedFigure | undefined,
  ): { readonly training: Training; readonly done: Promise<DeviceOutcome> } {
    const training: Training = { stop: new AbortController(), wanted };
    const begun = { training, done: this.#make(candidate, training) };
    begun.done.catch(() => undefined);
    this.#trainings.set(candidate, begun);
    return begun;
  }

  async #make(candidate: number, training: Training): Promise<DeviceOutcome> {
    const signal = AbortSignal.any([this.#stop.signal, training.stop.signal]);
    for (;;) {
      const device = await this.#places.take(this.#noted(candidate).given?.device, signal);
      try {
        const outcome = await this.#trainOn(device, { candidate, training, signal });
        this.#places.giveBack(device);
        return outcome;
      } catch (error) {
        const isLost = isStemmaError(error, "SEARCH_WORKER_LOST");
        const failure = isLost ? failureIn(error) : undefined;
        if (isLost && failure === undefined) {
          this.options.ports.onLost(device.device, error);
          const { place } = training;
          if (place?.device === device.device) void this.#end(place);
          this.#places.lose(error);
          continue;
        }
        this.#places.giveBack(device);
        if (failure !== undefined) throw failure;
        // The others end too: a full disk would meet them next.
        if (!signal.aborted && !isStemmaError(error, "NOT_A_NUMBER")) {
          this.#failure = error;
          this.#stop.abort();
        }
        throw error;
      }
    }
  }

  async #trainOn(
    device: DeviceWork,
    {
      candidate,
      training,
      signal,
    }: { readonly candidate: number; readonly training: Training; readonly signal: AbortSignal },
  ): Promise<DeviceOutcome> {
    const { ports, notes } = this.options;
    const { given, trained: before } = this.#noted(candidate);
    const { start, parameters } = await ports.start(candidate, given?.start);
    const name = before?.device ?? device.device;
    training.place = { device: name, start };
    let versionId = before?.versionId;
    if (versionId === undefined) {
      const isNoted = given?.device === name && given.start === start;
      if (!isNoted) await notes.append({ event: "given", candidate, device: name, start });
      let trained = isNoted ? await device.trainedFrom(start) : undefined;
      if (trained === undefined) {
        await device.give(start, signal);
        const isJudged = training.wanted?.steps !== undefined;
        const watch = this.#watch(candidate, { training, device, start });
        trained = await device.train({ start, parameters, isJudged, watch }, signal);
      }
      await ports.check({ candidate, start, trained, device });
      versionId = trained.versionId;
      await notes.append({ event: "trained", candidate, device: name, versionId });
    }
    return { device: name, versionId, result: await ports.outcome(versionId, device, signal) };
  }

  #watch(
    candidate: number,
    { training, device: { device }, start }: { training: Training; device: DeviceWork; start: Hash },
  ): NonNullable<AskedTraining["watch"]> {
    const { line, ports } = this.options;
    return async ({ iteration = 0 }) => {
      ports.onStep(candidate, device, iteration);
      const { figure } = training;
      if (figure === undefined || iteration < figure.steps || this.#silent.has(device)) return;
      const { name, steps, found } = figure;
      const { code, result } = await ports.command(device, trainingCourseCommand, {
        ...{ line, base: start, steps },
      });
      if (code === "USAGE") this.#silent.add(device);
      const course = trainingCourse.safeParse(result);
      if (!course.success) return;
      const measurements = course.data.measurements.map(({ validation = null, ...each }) => ({
        ...each,
        validation,
      }));
      if (figureOf({ measurements }, name, steps).figure !== null) found(measurements);
    };
  }

  /** The newest notes of a candidate. */
  #noted(candidate: number): {
    readonly given?: Place;
    readonly trained?: Extract<Note, { event: "trained" }>;
  } {
    const own = this.options.notes.events.filter((event) => event.candidate === candidate);
    const given = own.findLast((event) => event.event === "given");
    const trained = own.findLast((event) => event.event === "trained");
    return defined({ given, trained });
  }
}

/** The error of a training on a device that is the candidate's fault, not the device's. */
function failureIn(error: StemmaError): StemmaError | undefined {
  const { code, message } = (error.details["failure"] ?? {}) as Partial<
    Pick<StemmaError, "code" | "message">
  >;
  if (code === undefined || !candidateFaults.has(code)) return undefined;
  return new StemmaError(code, message ?? "", { cause: error });
}

interface Waiting<Place> {
  readonly resolve: (place: Place) => void;
  readonly reject: (error: Error) => void;
}

/** Devices that nobody uses, and those who wait for one. */
class WaitingLine<Place extends { readonly device: string }> {
  readonly #free: Place[];
  readonly #waiting = new Set<Waiting<Place>>();
  /** Devices that were not given up. */
  #able: number;
  #lost: Error | undefined;

  constructor(places: readonly Place[]) {
    this.#free = [...places];
    this.#able = places.length;
  }

  /** @throws SEARCH_WORKER_LOST where none is left, TRAINING_STOPPED */
  async take(preferred: string | undefined, signal: AbortSignal): Promise<Place> {
    if (signal.aborted) throw searchStopped();
    if (this.#able === 0 && this.#lost !== undefined) throw this.#lost;
    const at = Math.max(
      0,
      this.#free.findIndex(({ device }) => device === preferred),
    );
    const [found] = this.#free.splice(at, 1);
    if (found !== undefined) return found;
    return await new Promise((resolve, reject) => {
      const waiting = { resolve, reject };
      this.#waiting.add(waiting);
      signal.addEventListener("abort", () => {
        if (this.#waiting.delete(waiting)) reject(searchStopped());
      });
    });
  }

  giveBack(place: Place): void {
    const [next] = this.#waiting;
    if (next === undefined) this.#free.push(place);
    else {
      this.#waiting.delete(next);
      next.resolve(place);
    }
  }

  /** A place is given up. */
  lose(error: Error): void {
    this.#lost = error;
    if (--this.#able > 0) return;
    for (const { reject } of this.#waiting) reject(error);
    this.#waiting.clear();
  }
}
