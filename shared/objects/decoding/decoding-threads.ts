/**
 * Keeps decoding off the event loop: small jobs are decoded inline, larger ones in threads that all stores of
 * a process share. Threads start after some work and end when idle. While no thread is ready, and after a
 * thread has failed, jobs are decoded inline. docs/adr/0013-worker-threads.md explains why Stemma has its own
 * thread code.
 */
import { availableParallelism } from "node:os";
import PQueue from "p-queue";
import { movable, WorkerCalls } from "../../threads/worker-calls.js";
import {
  codedBytesOf,
  decodeSteps,
  type DecodedSteps,
  type DecodingJob,
  type DecodingStep,
} from "./decode-steps.js";
import type { Hash, Tensor, TensorHeader } from "../../tensor/tensor.js";
import { tensorDecoder } from "./tensor-decoder.js";

/**
 * A job up to this size is decoded inline: that takes about 0.2 ms, for which a round trip to a thread does
 * not pay.
 */
const inlineBytes = 64 * 1024;
/**
 * A larger job waits for a thread that is still starting; up to this size (about 15 ms) it is decoded inline.
 */
const maxInlineBytes = 4 * 1024 * 1024;
/** Threads start once this much was decoded inline, which takes as long as starting a thread. */
const startAfterBytes = 2 * 1024 * 1024;
/** The disk is too slow to keep more threads busy, and each takes a core and memory. */
const maxThreads = 4;
/** Jobs that a thread has at once: one that it works on, and the next. Their buffers were copied; the others wait. */
const jobsPerThread = 2;
/** Threads end after between one and two of these periods without work. */
const idleMs = 10_000;

/** The thread that worked on a job ended, and the buffers moved to it are lost: read them again and retry. */
export class DecodingLost extends Error {}

interface Thread {
  readonly calls: WorkerCalls<DecodingJob, DecodedSteps>;
  readonly queue: PQueue;
  /** Bytes it still has to decode. */
  queuedBytes: number;
}

export class DecodingThreads {
  readonly #count: number;
  readonly #startAfterBytes: number;
  #threads: readonly Thread[] = [];
  /** Bytes decoded inline since the threads ended. */
  #inlineBytes = 0;
  #isBroken = false;
  #isUsed = false;
  #idleTimer: NodeJS.Timeout | undefined;

  /**
   * @param count number of threads
   * @param startAfter bytes that are decoded inline before the threads start
   */
  constructor(count: number, startAfter = startAfterBytes) {
    this.#count = count;
    this.#startAfterBytes = startAfter;
  }

  /** Number of threads now. */
  get running(): number {
    return this.#threads.length;
  }

  /**
   * The returned bytes belong to the caller, except those of raw tensors. @throws PACK_FORMAT_UNKNOWN;
   * DecodingLost, after which everything is decoded inline
   */
  async decode(job: DecodingJob): Promise<DecodedSteps> {
    const bytes = codedBytesOf(job);
    const thread = bytes <= inlineBytes ? undefined : this.#threadFor(bytes);
    if (thread === undefined) {
      this.#inlineBytes += bytes;
      return decodeSteps(await tensorDecoder(), job);
    }
    thread.queuedBytes += bytes;
    this.#isUsed = true;
    try {
      return await thread.queue.add(async () => {
        const sent = detached(job);
        return await thread.calls.call(sent, buffersOf(sent));
      });
    } catch (error) {
      if (thread.calls.failure === undefined) throw error;
      // The same cause may end the next thread.
      this.#isBroken = true;
      throw new DecodingLost("a thread ended", { cause: error });
    } finally {
      thread.queuedBytes -= bytes;
    }
  }

  /** Ends the threads; they start again when there is work. */
  async close(): Promise<void> {
    clearInterval(this.#idleTimer);
    const threads = this.#threads;
    this.#threads = [];
    this.#inlineBytes = 0;
    for (const { calls } of threads) await calls.close();
  }

  #threadFor(bytes: number): Thread | undefined {
    if (this.#isBroken) return undefined;
    if (this.#threads.length === 0 && this.#inlineBytes + bytes > this.#startAfterBytes) this.#start();
    const ready = this.#threads.filter(({ calls }) => calls.isReady);
    const candidates = ready.length === 0 && bytes > maxInlineBytes ? this.#threads : ready;
    return candidates.length === 0
      ? undefined
      : candidates.reduce((least, thread) => (thread.queuedBytes < least.queuedBytes ? thread : least));
  }

  #start(): void {
    this.#threads = Array.from({ length: this.#count }, () => ({
      calls: new WorkerCalls<DecodingJob, DecodedSteps>(
        new URL("./decoding-thread.js", import.meta.url),
        "decodes tensors",
      ),
      queue: new PQueue({ concurrency: jobsPerThread }),
      queuedBytes: 0,
    }));
    // Idle threads hold memory.
    this.#idleTimer = setInterval(() => {
      if (!this.#isUsed && this.#threads.every(({ queuedBytes }) => queuedBytes === 0)) void this.close();
      this.#isUsed = false;
    }, idleMs).unref();
  }
}

/**
 * A copy of a job whose buffers can all be moved to a thread; stored bytes are not copied where
 * `canMoveStored`.
 */
function detached({ steps, references, wanted, canMoveStored }: DecodingJob): DecodingJob {
  return {
    steps: steps.map((step): DecodingStep => ({
      ...step,
      header: copyOfHeader(step.header),
      stored:
        canMoveStored && step.stored.byteLength === step.stored.buffer.byteLength
          ? step.stored
          : step.stored.slice(),
    })),
    references: new Map(
      [...references].map(([id, tensor]): [Hash, Tensor] => [
        id,
        { ...copyOfHeader(tensor), bytes: tensor.bytes.slice() },
      ]),
    ),
    wanted,
    canMoveStored,
  };
}
function copyOfHeader({ dtype, shape }: TensorHeader): TensorHeader {
  return { dtype, shape: [...shape] };
}

function buffersOf({ steps, references }: DecodingJob): readonly ArrayBuffer[] {
  return movable([
    ...steps.map(({ stored }) => stored),
    ...[...references.values()].map(({ bytes }) => bytes),
  ]);
}

let threads: DecodingThreads | undefined;

/**
 * The threads of this process, as many as there are cores (at most four): the event loop shares the cores
 * with them, and mostly waits.
 */
export function decodingThreads(): DecodingThreads {
  return (threads ??= new DecodingThreads(Math.min(maxThreads, availableParallelism())));
}
