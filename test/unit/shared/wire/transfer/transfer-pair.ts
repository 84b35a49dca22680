/** A sender and a receiver that are connected directly, with a clock by hand and links that take their time. */
import type { Clock } from "../../../../../shared/ports.js";
import {
  runReceiver,
  slowLinkBudget,
  type RunningReceiver,
} from "../../../../../shared/wire/transfer/run-receiver.js";
import { runSender, type RunningSender } from "../../../../../shared/wire/transfer/run-sender.js";
import { streamObjectOfBytes, type StreamObject } from "../../../../../shared/wire/transfer/stream.js";
import type { WindowBudget } from "../../../../../shared/wire/transfer/window-budget.js";

export const blockBytes = 4096;

/** A clock that advances only by `advance`. */
export class HandClock implements Pick<Clock, "monotonic" | "after"> {
  #now = 0;
  #timers: { at: number; callback: () => void }[] = [];
  monotonic(): number {
    return this.#now;
  }
  after(delayMs: number, callback: () => void): () => void {
    const timer = { at: this.#now + delayMs, callback };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((one) => one !== timer);
    };
  }
  get timers(): number {
    return this.#timers.length;
  }
  /** Calls the next timer. */
  advance(): void {
    const next = this.#timers.sort((a, b) => a.at - b.at).shift();
    if (next === undefined) return;
    this.#now = next.at;
    next.callback();
  }
}
export const settle = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve);
  });

export interface Pair {
  readonly receiver: RunningReceiver;
  readonly sender: RunningSender;
  readonly target: Uint8Array;
  readonly max: { inFlight: number };
}
export interface PairOptions {
  readonly clock: HandClock;
  readonly budget: WindowBudget;
  /** That of the link; absent: the transfer has a link of its own. */
  readonly slowBudget?: WindowBudget;
  /** What the sender sends; the source's bytes when absent. */
  readonly objects?: readonly StreamObject[];
  /** Delivers a message, or loses it by not calling `step`. */
  readonly deliver?: (step: () => void, isBlock: boolean) => void;
}
/** A sender and a receiver that are connected directly. */
export function pair(id: number, source: Uint8Array, { clock, budget, ...rest }: PairOptions): Pair {
  const { objects = [streamObjectOfBytes(source)], deliver = (step): void => step() } = rest;
  const slowBudget = rest.slowBudget ?? slowLinkBudget(blockBytes);
  const transfer = id.toString(16).padStart(16, "0");
  const target = new Uint8Array(source.length);
  const max = { inFlight: 0 };
  const sender = runSender({ transfer, blockBytes }, objects, {
    clock,
    onFailed: (error) => {
      throw error;
    },
    send: async (message) => {
      deliver(() => {
        if (message.type === "block") receiver.onBlock(message);
        else receiver.onManifest(message);
      }, message.type === "block");
    },
  });
  const receiver: RunningReceiver = runReceiver(
    { transfer, objects: 1, rawBytes: source.length, maxBytes: 2 ** 30, maxBlockBytes: blockBytes },
    {
      clock,
      budget,
      slowBudget,
      send: (message) => {
        deliver(() => {
          sender.onRequest(message);
        }, false);
      },
      write: async (offset, bytes) => {
        max.inFlight = Math.max(max.inFlight, budget.usedBytes);
        target.set(bytes, offset);
      },
    },
  );
  return { receiver, sender, target, max };
}
export const bytesOf = (length: number, seed: number): Uint8Array =>
  Uint8Array.from({ length }, (_, index) => (index * 31 + seed * 7 + (index >> 8)) & 255);

/** Delivers over one link, where a block takes so long. */
export function linkOf(clock: HandClock, msOfBlock: () => number): NonNullable<PairOptions["deliver"]> {
  let freeAtMs = 0;
  return (step, isBlock) => {
    if (!isBlock) {
      step();
      return;
    }
    freeAtMs = Math.max(freeAtMs, clock.monotonic()) + msOfBlock();
    clock.after(freeAtMs - clock.monotonic(), step);
  };
}
