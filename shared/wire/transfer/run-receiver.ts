/**
 * Drives a TransferReceiver: sends its requests, writes its blocks, keeps its timeouts and its share of the
 * window budget.
 */
import type { StemmaError } from "../../errors.js";
import type { Clock } from "../../ports.js";
import type { Block, BlockRequest, Encoding, ManifestPart } from "../messages.js";
import {
  TransferReceiver,
  type ReceiverEffect,
  type ReceiverOptions,
  type ReceiverState,
} from "./receiver.js";
import { WindowBudget, type BudgetShare } from "./window-budget.js";

/**
 * A transfer that brings no block for so long is slow: it has none of the process's budget, and shares a short window
 * with the other slow transfers of its link. Otherwise a few links that are slow, or send nothing on purpose, would
 * keep all others from asking. A process that is busy itself finds all links slow, so what they have together must
 * not grow with the transfers.
 */
const slowAfterMs = 1_000;
const slowWindow = 2;

/** Returns the budget that the slow transfers of one link have in flight together. */
export function slowLinkBudget(blockBytes: number): WindowBudget {
  return new WindowBudget(slowWindow * blockBytes);
}

export interface ReceiverPorts {
  readonly clock: Pick<Clock, "monotonic" | "after">;
  /** One budget for all transfers of the process. */
  readonly budget: WindowBudget;
  /** One budget for the transfers of this link that are slow (`slowLinkBudget`). */
  readonly slowBudget: WindowBudget;
  /** Sends a request of the receiver; it may get lost. */
  send(message: BlockRequest): void;
  /** Writes verified bytes; when it resolves, a restart with the saved state finds them. */
  write(offset: number, bytes: Uint8Array): Promise<void>;
}

export interface RunningReceiver {
  readonly machine: TransferReceiver;
  onManifest(part: ManifestPart): void;
  onBlock(block: Block): void;
  /** The link is back: request again what was outstanding. */
  reconnected(): void;
  /** Gives up the window; `finished` stays pending. */
  stop(): void;
  /**
   * Encodings of the objects ([] = all raw) when every block is written; rejects with a StemmaError or with
   * what `write` threw.
   */
  readonly finished: Promise<readonly Encoding[]>;
}

/** Starts a transfer, or resumes it from `state`. */
export function runReceiver(
  options: ReceiverOptions,
  ports: ReceiverPorts,
  state?: ReceiverState,
): RunningReceiver {
  return new Runner(new TransferReceiver(options, state), ports);
}

class Runner implements RunningReceiver {
  readonly machine: TransferReceiver;
  readonly finished: Promise<readonly Encoding[]>;
  readonly #ports: ReceiverPorts;
  readonly #fastShare: BudgetShare;
  readonly #slowShare: BudgetShare;
  #heldBytes = 0;
  #heldSlots = 0;
  #isStopped = false;
  #isSlow = false;
  /** The time from when the next block is awaited. */
  #awaitedSinceMs = 0;
  #cancelTimer: (() => void) | undefined;
  #timerAtMs: number | undefined;
  #resolve: (encodings: readonly Encoding[]) => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;

  constructor(machine: TransferReceiver, ports: ReceiverPorts) {
    this.machine = machine;
    this.#ports = ports;
    const wake = (): void => {
      queueMicrotask(() => {
        this.#step([]);
      });
    };
    this.#fastShare = ports.budget.join(wake);
    this.#slowShare = ports.slowBudget.join(wake);
    this.finished = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // A rejection before the caller awaits it must not count as unhandled.
    this.finished.catch(() => undefined);
    queueMicrotask(() => {
      this.#step([]);
    });
  }

  onManifest(part: ManifestPart): void {
    if (!this.#isStopped) this.#step(this.machine.onManifest(part, this.#ports.clock.monotonic()));
  }
  onBlock(block: Block): void {
    if (!this.#isStopped) this.#step(this.machine.onBlock(block, this.#ports.clock.monotonic()));
  }
  reconnected(): void {
    if (!this.#isStopped) {
      this.machine.reconnected(this.#ports.clock.monotonic());
      this.#step([]);
    }
  }
  stop(): void {
    this.#isStopped = true;
    this.#cancelTimer?.();
    this.#share.pass();
    this.#giveBack(0);
  }

  /** Performs effects, opens the window as far as the budget allows, sets the timer. */
  #step(effects: readonly ReceiverEffect[]): void {
    if (this.#isStopped) return;
    for (const effect of effects) this.#perform(effect);
    if (this.#isStopped) return;
    this.#judgePace(effects.some(({ type }) => type === "write"));
    const slots = this.#takeSlots();
    for (const effect of this.machine.ask(slots, this.#ports.clock.monotonic())) this.#perform(effect);
    if (!this.#isStopped) this.#setTimer();
  }

  #judgePace(hasBlock: boolean): void {
    const nowMs = this.#ports.clock.monotonic();
    const isLate = nowMs - this.#awaitedSinceMs >= slowAfterMs;
    if (hasBlock) this.#setSlow(isLate);
    else if (this.machine.blocksAwaited > 0 && isLate) this.#setSlow(true);
    if (hasBlock || this.machine.blocksAwaited === 0) this.#awaitedSinceMs = nowMs;
  }

  /** Moves what is in flight to the other budget. */
  #setSlow(isSlow: boolean): void {
    if (this.#isSlow === isSlow) return;
    this.#giveBack(this.machine.slotsHeld);
    const before = this.#share;
    this.#isSlow = isSlow;
    this.#share.carry(this.#heldBytes);
    before.pass();
    before.give(this.#heldBytes);
  }

  get #share(): BudgetShare {
    return this.#isSlow ? this.#slowShare : this.#fastShare;
  }

  /** Takes as many slots as are wanted and the budget allows. */
  #takeSlots(): number {
    this.#giveBack(this.machine.slotsHeld);
    const { slotsWanted: wanted, slotBytes } = this.machine;
    let taken = 0;
    while (taken < wanted && this.#share.take(slotBytes)) taken++;
    if (wanted === 0) this.#share.pass();
    this.#heldSlots += taken;
    this.#heldBytes += taken * slotBytes;
    return taken;
  }

  #perform(effect: ReceiverEffect): void {
    switch (effect.type) {
      case "request":
        this.#ports.send(effect.message);
        return;
      case "write":
        this.#ports.write(effect.offset, effect.bytes).then(
          () => {
            this.#step(this.machine.written(effect.index));
          },
          (error: unknown) => {
            this.#end(() => {
              this.#reject(error);
            });
          },
        );
        return;
      case "done":
        this.#end(() => {
          this.#resolve(effect.encodings);
        });
        return;
      case "fail":
        this.#end(() => {
          this.#reject(effect.error satisfies StemmaError);
        });
    }
  }
  #end(settle: () => void): void {
    if (this.#isStopped) return;
    this.stop();
    settle();
  }

  #giveBack(slotsHeld: number): void {
    if (this.#heldSlots <= slotsHeld) return;
    const each = this.#heldBytes / this.#heldSlots;
    const surplus = this.#heldSlots - slotsHeld;
    this.#heldSlots = slotsHeld;
    this.#heldBytes -= surplus * each;
    this.#share.give(surplus * each);
  }

  #wakeAtMs(): number | undefined {
    const { wakeAtMs, blocksAwaited } = this.machine;
    if (this.#isSlow || blocksAwaited === 0) return wakeAtMs;
    return Math.min(wakeAtMs ?? Infinity, this.#awaitedSinceMs + slowAfterMs);
  }

  #setTimer(): void {
    const atMs = this.#wakeAtMs();
    // A timer that fires early is set again; only an earlier due time needs a new one now.
    if (
      this.#cancelTimer !== undefined &&
      atMs !== undefined &&
      this.#timerAtMs !== undefined &&
      this.#timerAtMs <= atMs
    )
      return;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#timerAtMs = atMs;
    if (atMs === undefined) return;
    this.#cancelTimer = this.#ports.clock.after(Math.max(0, atMs - this.#ports.clock.monotonic()), () => {
      this.#cancelTimer = undefined;
      this.#step(this.machine.tick(this.#ports.clock.monotonic()));
    });
  }
}
