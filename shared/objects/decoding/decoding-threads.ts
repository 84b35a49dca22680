/**
 * Decoding beside the event loop: small jobs at once, larger ones in threads that all stores of a process
 * share. They start when there was some work for them and end when there is none for a while. Until one has
 * loaded its codec, and where none can be had, everything is decoded at once.
 */
import { availableParallelism } from "node:os";
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

/** About 0.2 ms: less than handing a job over and back is worth. */
const inlineBytes = 64 * 1024;
/** About 15 ms: longer jobs wait for a thread that is starting. */
const mostInlineBytes = 4 * 1024 * 1024;
/** Decoding as much as this takes as long as starting a thread. */
const startAfterBytes = 2 * 1024 * 1024;
/** More would hold a core each, and memory, for what the disk hardly delivers. */
const mostThreads = 4;
const idleMs = 10_000;

/**
 * The thread that worked on a job ended, and what was given to it is gone: whoever asked reads again and asks
 * once more.
 */
export class DecodingLost extends Error {}

interface Thread {
  readonly calls: WorkerCalls<DecodingJob, DecodedSteps>;
  /** Bytes it has still to decode. */ busy: number;
}

export class DecodingThreads {
  readonly #count: number;
  readonly #startAfterBytes: number;
  #threads: readonly Thread[] = [];
  /** Bytes decoded at once since there were threads. */
  #inlined = 0;
  #isBroken = false;
  #isUsed = false;
  #idle: NodeJS.Timeout | undefined;

  /** @param count of threads @param startAfter bytes that are decoded at once before threads start */
  constructor(count: number, startAfter = startAfterBytes) {
    this.#count = count;
    this.#startAfterBytes = startAfter;
  }

  /** Threads that are there now. */
  get running(): number {
    return this.#threads.length;
  }

  /**
   * Bytes handed out are the caller's, but for what lies raw. @throws PACK_FORMAT_UNKNOWN; DecodingLost,
   * after which everything is decoded at once
   */
  async decode(job: DecodingJob): Promise<DecodedSteps> {
    const bytes = codedBytesOf(job),
      thread = bytes <= inlineBytes ? undefined : this.#threadFor(bytes);
    if (thread === undefined) {
      this.#inlined += bytes;
      return decodeSteps(await tensorDecoder(), job);
    }
    const sent = separate(job);
    thread.busy += bytes;
    this.#isUsed = true;
    try {
      return await thread.calls.call(sent, buffersOf(sent));
    } catch (error) {
      if (thread.calls.failure === undefined) throw error;
      // Whatever ended it may end the next one.
      this.#isBroken = true;
      throw new DecodingLost("a thread ended", { cause: error });
    } finally {
      thread.busy -= bytes;
    }
  }

  /** Ends the threads; they start anew when there is work. */
  async close(): Promise<void> {
    clearInterval(this.#idle);
    const threads = this.#threads;
    this.#threads = [];
    this.#inlined = 0;
    for (const { calls } of threads) await calls.close();
  }

  #threadFor(bytes: number): Thread | undefined {
    if (this.#isBroken) return undefined;
    if (this.#threads.length === 0 && this.#inlined + bytes > this.#startAfterBytes) this.#start();
    const ready = this.#threads.filter(({ calls }) => calls.isReady);
    const among = ready.length === 0 && bytes > mostInlineBytes ? this.#threads : ready;
    return among.length === 0
      ? undefined
      : among.reduce((least, thread) => (thread.busy < least.busy ? thread : least));
  }

  #start(): void {
    this.#threads = Array.from({ length: this.#count }, () => ({
      calls: new WorkerCalls<DecodingJob, DecodedSteps>(
        new URL("./decoding-thread.js", import.meta.url),
        "decodes tensors",
      ),
      busy: 0,
    }));
    // Threads that nobody needs hold memory.
    this.#idle = setInterval(() => {
      if (!this.#isUsed && this.#threads.every(({ busy }) => busy === 0)) void this.close();
      this.#isUsed = false;
    }, idleMs).unref();
  }
}

/** What is handed over leaves this thread: what is not given is copied, and so is a piece of a buffer. */
function separate({ steps, references, wanted, isStoredGiven }: DecodingJob): DecodingJob {
  return {
    steps: steps.map((step): DecodingStep => ({
      ...step,
      header: plain(step.header),
      stored:
        isStoredGiven && step.stored.byteLength === step.stored.buffer.byteLength
          ? step.stored
          : step.stored.slice(),
    })),
    references: new Map(
      [...references].map(([id, tensor]): [Hash, Tensor] => [
        id,
        { ...plain(tensor), bytes: tensor.bytes.slice() },
      ]),
    ),
    wanted,
    isStoredGiven,
  };
}
function plain({ dtype, shape }: TensorHeader): TensorHeader {
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
 * Those of this process. The event loop shares the cores with them: it reads and hashes meanwhile, and waits
 * most of the time.
 */
export function decodingThreads(): DecodingThreads {
  return (threads ??= new DecodingThreads(Math.min(mostThreads, availableParallelism())));
}
