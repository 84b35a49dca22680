/**
 * Trains members of an ensemble in workers of the engine's process, each with a backend of its own. A member's bits do
 * not depend on where it is trained, so this only decides how long an ensemble takes.
 */
import { Worker } from "node:worker_threads";
import { StemmaError } from "../../errors.js";
import type { ErrorCode } from "../../errors.js";
import type { SampleSet } from "../datasets/dataset.js";
import type { MemberPool, StartPool } from "../ensembles/fit-ensemble.js";
import type { MemberHooks, MemberResult, MemberTask } from "../ensembles/train-member.js";
import type { Measurement } from "../training.js";
import type { FitSnapshot, FitState } from "../training-state.js";

/** The data that a worker is started with. */
export interface MemberWorkerData {
  readonly purpose: "members";
  readonly set: SampleSet;
  /** The engine's folder. */
  readonly folder: string;
  readonly memoryLimitMb: number | undefined;
  /** Milliseconds between two states that it sends; Infinity for none. */
  readonly stateEveryMs: number;
}

/** The messages of a worker. */
export type MemberMessage =
  | { readonly type: "steps"; readonly measurement: Measurement; readonly steps: number }
  | { readonly type: "state"; readonly state: FitState }
  | { readonly type: "done"; readonly result: MemberResult }
  | {
      readonly type: "failed";
      readonly code: string;
      readonly message: string;
      readonly details: Readonly<Record<string, unknown>>;
    };

interface PoolOptions {
  /** The program that calls runMemberWorker in a worker. */
  readonly script: URL;
  readonly folder: string;
  readonly threads: number;
  readonly memoryLimitMb: number | undefined;
  /** The seconds between two states, as in the job; undefined where no state is kept. */
  readonly stateEverySeconds: number | undefined;
}

/** Fewer steps are done here before workers have started: each takes about half a second. */
const minSteps = 5000;
/** Each worker has a copy of the samples. */
const maxCopiedBytes = 512 * 2 ** 20;
/** A worker has no less for its tensors. */
const minWorkerMb = 64;
/** A worker sends its state about as often, where states are saved less often. */
const maxStateMs = 1000;

function bytesOf({ train, validation }: SampleSet): number {
  return [train, validation].reduce((sum, part) => sum + part.inputs.byteLength + part.targets.byteLength, 0);
}

/** Starts pools where they pay. */
export function memberPools(options: PoolOptions): StartPool {
  const { threads, memoryLimitMb } = options;
  return (set, members, steps) => {
    const size = Math.min(
      threads,
      members,
      memoryLimitMb === undefined ? Infinity : Math.floor(memoryLimitMb / minWorkerMb),
    );
    if (size < 2 || steps < minSteps || bytesOf(set) * size > maxCopiedBytes) return undefined;
    return new WorkerPool(set, size, options);
  };
}

class WorkerPool implements MemberPool {
  readonly #idle: Worker[] = [];
  readonly #all: Worker[] = [];

  constructor(
    private readonly set: SampleSet,
    readonly size: number,
    private readonly options: PoolOptions,
  ) {}

  /** @throws the worker's typed error; INTERNAL where it ended without one */
  async train(task: MemberTask, hooks: MemberHooks): Promise<MemberResult> {
    const worker = this.#idle.pop() ?? this.#start();
    try {
      return await resultOf(worker, task, hooks);
    } finally {
      this.#idle.push(worker);
    }
  }

  #start(): Worker {
    const { script, folder, memoryLimitMb, stateEverySeconds } = this.options;
    const nothing = { count: 0, inputs: new Float32Array(), targets: new Float32Array() };
    const workerData: MemberWorkerData = {
      purpose: "members",
      // Members are neither trained nor stopped by the held-out samples, nor by metadata.
      set: {
        ...this.set,
        train: { ...this.set.train, metadata: undefined },
        validation: { ...this.set.validation, metadata: undefined },
        heldOut: nothing,
      },
      folder,
      memoryLimitMb: memoryLimitMb === undefined ? undefined : Math.floor(memoryLimitMb / this.size),
      stateEveryMs:
        stateEverySeconds === undefined ? Infinity : Math.min(maxStateMs, stateEverySeconds * 1000),
    };
    const worker = new Worker(script, { workerData, env: {}, stdin: false });
    this.#all.push(worker);
    return worker;
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map((worker) => worker.terminate()));
  }
}

function resultOf(worker: Worker, task: MemberTask, hooks: MemberHooks): Promise<MemberResult> {
  return new Promise((resolve, reject) => {
    const settle = (end: () => void): void => {
      worker.off("message", onMessage).off("error", onError).off("exit", onExit);
      end();
    };
    const onError = (cause: Error): void => {
      settle(() => {
        reject(ended(task, cause));
      });
    };
    const onExit = (): void => {
      settle(() => {
        reject(ended(task, undefined));
      });
    };
    const onMessage = (message: MemberMessage): void => {
      switch (message.type) {
        case "steps":
          void Promise.resolve(hooks.onSteps(message.measurement, message.steps)).catch(reject);
          return;
        case "state":
          void Promise.resolve(hooks.onState(() => snapshotOf(message.state))).catch(reject);
          return;
        case "done":
          settle(() => {
            resolve(message.result);
          });
          return;
        case "failed":
          settle(() => {
            reject(new StemmaError(message.code as ErrorCode, message.message, message.details));
          });
      }
    };
    worker.on("message", onMessage).on("error", onError).on("exit", onExit);
    worker.postMessage(task);
  });
}

function ended({ index }: MemberTask, cause: Error | undefined): StemmaError {
  return new StemmaError(
    "TRAINING_STOPPED",
    `The worker that trained member ${index} ended${cause === undefined ? "" : `: ${cause.message}`}. Free memory, or ` +
      "train with one thread, and start the training again: it continues from its last saved state.",
    { member: index, cause },
  );
}

function snapshotOf({ position, optimizer, arrays }: FitState): FitSnapshot {
  return {
    position,
    optimizer,
    arrays: [...arrays].map(([name, values]) => ({ name, shape: [values.length], read: () => values })),
  };
}
