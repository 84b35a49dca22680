/**
 * One budget of bytes in flight for all windows of a process, or of a slow link. Transfers take turns, block by block,
 * so that a thousand devices that wake together hold no more memory than one. Pure bookkeeping.
 */

/** One transfer's share of the budget. */
export interface BudgetShare {
  /**
   * Takes `bytes` and returns true; else queues this share, to be woken when its turn comes, and returns
   * false.
   */
  take(bytes: number): boolean;
  /** Takes what is in flight already, also where the budget has no space left. */
  carry(bytes: number): void;
  give(bytes: number): void;
  /** Leaves the queue: this share wants nothing now. */
  pass(): void;
}

export class WindowBudget {
  readonly totalBytes: number;
  #usedBytes = 0;
  readonly #waiting: { readonly wake: () => void; readonly share: BudgetShare }[] = [];

  constructor(totalBytes: number) {
    this.totalBytes = totalBytes;
  }
  get usedBytes(): number {
    return this.#usedBytes;
  }
  get waiting(): number {
    return this.#waiting.length;
  }

  /** `wake` is called, never from inside a call of the same share, when the share should try again. */
  join(wake: () => void): BudgetShare {
    const share: BudgetShare = {
      take: (bytes) => this.#take(share, wake, bytes),
      carry: (bytes) => {
        this.#usedBytes += bytes;
      },
      give: (bytes) => {
        this.#usedBytes = Math.max(0, this.#usedBytes - bytes);
        this.#wakeFirst(share);
      },
      pass: () => {
        const wasFirst = this.#waiting[0]?.share === share;
        this.#remove(share);
        if (wasFirst) this.#wakeFirst(share);
      },
    };
    return share;
  }

  #take(share: BudgetShare, wake: () => void, bytes: number): boolean {
    const first = this.#waiting[0];
    const isItsTurn = first === undefined || first.share === share;
    // A block larger than the complete budget is still sent, alone.
    const fits = this.#usedBytes + bytes <= this.totalBytes || this.#usedBytes === 0;
    if (!isItsTurn || !fits) {
      if (!this.#waiting.some((one) => one.share === share)) this.#waiting.push({ wake, share });
      return false;
    }
    this.#remove(share);
    this.#usedBytes += bytes;
    this.#wakeFirst(share);
    return true;
  }

  #remove(share: BudgetShare): void {
    const at = this.#waiting.findIndex((one) => one.share === share);
    if (at >= 0) this.#waiting.splice(at, 1);
  }
  #wakeFirst(caller: BudgetShare): void {
    const first = this.#waiting[0];
    if (first !== undefined && first.share !== caller && this.#usedBytes < this.totalBytes) first.wake();
  }
}
