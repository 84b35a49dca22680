/**
 * Limits how many bytes all senders of a process have read and not passed to their links yet. A thousand slow
 * links at once would else hold a block each, and a block more that waits for the garbage collector. Who
 * asked first is served first.
 */
import type { Clock } from "../../ports.js";

/** Gives back what was taken; again without effect. */
export type Release = () => void;

export class SendBudget {
  #bytes = 0;
  readonly #waiting: { readonly bytes: number; readonly grant: () => void }[] = [];

  /**
   * @param maxBytes held together; a single larger piece passes while nothing else is held
   * @param maxHoldMs after which a piece does not count any more: links that accept nothing, by accident or on
   * purpose, must not stop the others. The connection's own time-out ends those.
   */
  constructor(
    private readonly maxBytes: number,
    private readonly maxHoldMs: number,
  ) {}

  get bytes(): number {
    return this.#bytes;
  }

  /** Resolves when there is room. */
  async take(bytes: number, clock: Pick<Clock, "after">): Promise<Release> {
    if (this.#waiting.length > 0 || !this.#hasRoom(bytes))
      await new Promise<void>((resolve) => {
        this.#waiting.push({ bytes, grant: resolve });
      });
    else this.#bytes += bytes;
    let isHeld = true;
    const release = (): void => {
      if (!isHeld) return;
      isHeld = false;
      cancel();
      this.#bytes -= bytes;
      this.#grantNext();
    };
    const cancel = clock.after(this.maxHoldMs, release);
    return release;
  }

  #hasRoom(bytes: number): boolean {
    return this.#bytes === 0 || this.#bytes + bytes <= this.maxBytes;
  }

  #grantNext(): void {
    for (
      let next = this.#waiting[0];
      next !== undefined && this.#hasRoom(next.bytes);
      next = this.#waiting[0]
    ) {
      this.#waiting.shift();
      this.#bytes += next.bytes;
      next.grant();
    }
  }
}
