/**
 * The one clock of a simulation. Time passes only from one callback to the next, and callbacks of the same time run
 * in the order in which they were asked for, so that a run depends on nothing but its seed.
 */
import { setImmediate } from "node:timers/promises";

interface Waiting {
  readonly atMs: number;
  readonly order: number;
  /** Undefined: it was cancelled. */
  callback: (() => void) | undefined;
}

const isEarlier = (a: Waiting, b: Waiting): boolean =>
  a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);

export class VirtualTime {
  #nowMs = 0;
  #order = 0;
  /** A binary heap, the earliest first. */
  readonly #heap: Waiting[] = [];

  /** Whole milliseconds since the start of the simulation. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** Calls back once, never too early; the returned function cancels. */
  after(delayMs: number, callback: () => void): () => void {
    const atMs = Math.ceil(this.#nowMs + Math.max(0, delayMs));
    const waiting: Waiting = { atMs, order: this.#order++, callback };
    this.#push(waiting);
    return () => {
      waiting.callback = undefined;
    };
  }

  /** Runs the next callback and everything that follows from it at once. False: nothing is due until then. */
  async step(untilMs: number): Promise<boolean> {
    for (;;) {
      const next = this.#heap[0];
      if (next === undefined || next.atMs > untilMs) {
        this.#nowMs = untilMs;
        return false;
      }
      this.#pop();
      if (next.callback === undefined) continue;
      this.#nowMs = next.atMs;
      next.callback();
      await settled();
      return true;
    }
  }

  #push(waiting: Waiting): void {
    const heap = this.#heap;
    let at = heap.push(waiting) - 1;
    for (let parent = (at - 1) >> 1; at > 0 && isEarlier(waiting, heap[parent] as Waiting);) {
      heap[at] = heap[parent] as Waiting;
      at = parent;
      parent = (at - 1) >> 1;
    }
    heap[at] = waiting;
  }

  #pop(): void {
    const heap = this.#heap;
    const moved = heap.pop() as Waiting;
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isEarlier(heap[child + 1] as Waiting, heap[child] as Waiting)) child++;
      if (isEarlier(moved, heap[child] as Waiting)) break;
      heap[at] = heap[child] as Waiting;
      at = child;
    }
    heap[at] = moved;
  }
}

/** Turns of the event loop that are still to come, and modules that are being loaded. */
const isUnsettled = (resource: string): boolean => resource === "Immediate" || resource.startsWith("FSReq");

/** Resolves when all that was ready has run: promises, and the turns of the event loop that the code asks for. */
export async function settled(): Promise<void> {
  do await setImmediate();
  while (process.getActiveResourcesInfo().some(isUnsettled));
}
