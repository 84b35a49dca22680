/**
 * Runs one kernel on several threads over one memory. The caller cuts its work into parts that do not depend on each
 * other; which thread runs a part does not matter to its result, so every number of threads gives the same bits.
 * The calling thread works too. Does not know tensors or kernels.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { StemmaError } from "../../errors.js";
import { runKernelThread } from "./kernel-thread.js";

/** Most parts of one call. */
export const maxParts = 64;
const maxParametersPerPart = 32;

/** Places in the control memory (int32), and after them in that of the parameters (float64). */
const slots = {
  calls: 0,
  left: 1,
  done: 2,
  failed: 3,
  stopped: 4,
  kernel: 0,
  parametersPerPart: 1,
  scratch: 2,
  scratchBytes: 3,
  parameters: 4,
} as const;

/** The number of looks for the next call before a thread sleeps: about half a millisecond, longer than most breaks. */
const spins = 50_000;

/** The longest time of a part: beyond, the thread that has it is gone. */
const maxPartMs = 600_000;

export interface ThreadData {
  readonly module: WebAssembly.Module;
  readonly memory: WebAssembly.Memory;
  readonly control: SharedArrayBuffer;
  readonly parameters: SharedArrayBuffer;
  readonly slots: typeof slots;
  readonly spins: number;
  /** Number of the thread; the calling thread is 0. */
  readonly index: number;
}

/** Calls of one kernel that do not depend on each other. */
export interface KernelParts {
  readonly kernel: string;
  /** The parameters of each call, all of one length; without the scratch memory. */
  readonly parts: readonly (readonly number[])[];
  /** Scratch memory that each thread needs, in bytes; its address becomes the first parameter. 0: none. */
  readonly scratchBytes: number;
  /** The start of the scratch memory of all threads. */
  readonly scratch: number;
}

type Kernels = Readonly<Record<string, (...parameters: number[]) => void>>;

export class KernelThreads {
  readonly #workers: readonly Worker[];
  readonly #state: Int32Array;
  readonly #numbers: Float64Array;
  readonly #kernels: ReadonlyMap<string, number>;
  readonly #exports: Kernels;

  private constructor(
    workers: readonly Worker[],
    data: Pick<ThreadData, "control" | "parameters">,
    exports: Kernels,
  ) {
    this.#workers = workers;
    this.#state = new Int32Array(data.control);
    this.#numbers = new Float64Array(data.parameters);
    this.#exports = exports;
    this.#kernels = new Map(Object.keys(exports).map((name, index) => [name, index]));
  }

  /**
   * Starts `count` threads with this one. `module` is the compiled form of `instance`, and both use `memory`; more
   * than one thread needs shared memory.
   */
  static async start(
    count: number,
    instance: WebAssembly.Instance,
    { module, memory }: Pick<ThreadData, "module" | "memory">,
  ): Promise<KernelThreads> {
    const data = {
      control: new SharedArrayBuffer(8 * Int32Array.BYTES_PER_ELEMENT),
      parameters: new SharedArrayBuffer(
        (slots.parameters + maxParts * maxParametersPerPart) * Float64Array.BYTES_PER_ELEMENT,
      ),
    };
    const program = `(${runKernelThread.toString()})(require("node:worker_threads"))`;
    const workers = Array.from({ length: count - 1 }, (_, each) => {
      const workerData: ThreadData = { ...data, module, memory, slots, spins, index: each + 1 };
      return new Worker(program, { eval: true, workerData, env: {}, stdin: false });
    });
    const threads = new KernelThreads(workers, data, instance.exports as Kernels);
    try {
      await Promise.all(workers.map((worker) => once(worker, "message")));
    } catch (cause) {
      threads.close();
      throw new StemmaError(
        "BACKEND_UNAVAILABLE",
        `The ${count} threads of the training did not start. Set training.threads in the profile to 1, or free memory.`,
        { cause },
      );
    }
    // They end with the process, whatever ends it.
    for (const worker of workers) worker.unref();
    return threads;
  }

  get count(): number {
    return this.#workers.length + 1;
  }

  /** Runs all parts and returns when all are done. @throws INTERNAL where a kernel failed on another thread */
  run({ kernel, parts, scratchBytes, scratch }: KernelParts): void {
    const call = this.#exports[kernel]!;
    const runHere = (part: readonly number[]): void => {
      if (scratchBytes > 0) call(scratch, ...part);
      else call(...part);
    };
    if (this.#workers.length === 0 || parts.length < 2) {
      parts.forEach(runHere);
      return;
    }
    this.#publish({ kernel, parts, scratchBytes, scratch });
    let untaken = 0;
    try {
      for (let left = this.#take(); left > 0; left = this.#take()) {
        try {
          runHere(parts[left - 1]!);
        } finally {
          Atomics.add(this.#state, slots.done, 1);
        }
      }
    } catch (error) {
      untaken = Atomics.exchange(this.#state, slots.left, 0);
      throw error;
    } finally {
      // The wait is also for errors: other threads still use the memory of the parts that they have taken.
      this.#waitFor(parts.length - untaken);
    }
    if (Atomics.load(this.#state, slots.failed) !== 0)
      throw new StemmaError(
        "INTERNAL",
        `The training kernel ${kernel} failed on one of its threads. Report it with the model and the batch size.`,
      );
  }

  /** Takes the last part that is left; returns its number from 1, or 0 where none is left. */
  #take(): number {
    for (;;) {
      const left = Atomics.load(this.#state, slots.left);
      if (left === 0 || Atomics.compareExchange(this.#state, slots.left, left, left - 1) === left)
        return left;
    }
  }

  #publish({ kernel, parts, scratchBytes, scratch }: KernelParts): void {
    const perPart = parts[0]!.length;
    if (parts.length > maxParts || perPart > maxParametersPerPart)
      throw new StemmaError(
        "INTERNAL",
        `A call of ${kernel} has ${parts.length} parts of ${perPart} parameters.`,
      );
    this.#numbers[slots.kernel] = this.#kernels.get(kernel)!;
    this.#numbers[slots.parametersPerPart] = perPart;
    this.#numbers[slots.scratch] = scratch;
    this.#numbers[slots.scratchBytes] = scratchBytes;
    parts.forEach((part, index) => this.#numbers.set(part, slots.parameters + index * perPart));
    Atomics.store(this.#state, slots.done, 0);
    // Set where the call before this one failed on this thread and on another.
    Atomics.store(this.#state, slots.failed, 0);
    // From here on other threads take parts; what they read was written before.
    Atomics.store(this.#state, slots.left, parts.length);
    Atomics.add(this.#state, slots.calls, 1);
    Atomics.notify(this.#state, slots.calls);
  }

  #waitFor(parts: number): void {
    for (let spin = 0; spin < spins; spin++) if (Atomics.load(this.#state, slots.done) === parts) break;
    for (;;) {
      const done = Atomics.load(this.#state, slots.done);
      if (done === parts) break;
      if (Atomics.wait(this.#state, slots.done, done, maxPartMs) === "timed-out")
        throw new StemmaError(
          "INTERNAL",
          `A thread of the training has not ended its part of a kernel for ${maxPartMs / 60_000} minutes. ` +
            "Start the training again; if that does not help, set training.threads in the profile to 1.",
        );
    }
  }

  /** Ends the threads. */
  close(): void {
    Atomics.store(this.#state, slots.stopped, 1);
    Atomics.add(this.#state, slots.calls, 1);
    Atomics.notify(this.#state, slots.calls);
    for (const worker of this.#workers) void worker.terminate();
  }
}
