/**
 * Shares a limit of bytes a second fairly among several flows, whatever the size of what each sends. The
 * method is start-time fair queueing (Goyal, Vin and Cheng, 1996). Whoever waits is served in the order in
 * which its flow's share is due.
 */
import type { Clock } from "../../../../shared/ports.js";

/** The time that unused rate is kept, so that a timer that is late costs nothing. */
const keptMs = 250;

interface Waiting {
  readonly flow: string;
  readonly bytes: number;
  readonly startTag: number;
  readonly resolve: () => void;
}

export class SharedRate {
  readonly #waiting: Waiting[] = [];
  /** The tag of each flow up to which it has had its share. */
  readonly #finishTags = new Map<string, number>();
  #virtual = 0;
  /** Bytes that may be sent now; below 0 after a block that was larger than what was left. */
  #available = 0;
  #atMs: number;
  #cancel: (() => void) | undefined;

  /** @param bytesPerSecond asked at each step; null: no limit */
  constructor(
    private readonly bytesPerSecond: () => number | null,
    private readonly clock: Pick<Clock, "monotonic" | "after">,
  ) {
    this.#atMs = clock.monotonic();
  }

  /** Resolves when the flow may send so many bytes; at once where there is no limit. */
  take(flow: string, bytes: number): Promise<void> {
    if (this.#waiting.length === 0 && this.bytesPerSecond() === null) return Promise.resolve();
    return new Promise((resolve) => {
      const startTag = Math.max(this.#virtual, this.#finishTags.get(flow) ?? 0);
      this.#finishTags.set(flow, startTag + bytes);
      this.#waiting.push({ flow, bytes, startTag, resolve });
      this.#serve();
    });
  }

  /** The flow has ended: what it waits for resolves, and costs nothing. */
  end(flow: string): void {
    this.#finishTags.delete(flow);
    for (let at = this.#waiting.length - 1; at >= 0; at--)
      if (this.#waiting[at]?.flow === flow) this.#waiting.splice(at, 1)[0]?.resolve();
  }

  /** True if no flow has a share that counts. */
  get isIdle(): boolean {
    return this.#finishTags.size === 0;
  }

  #serve(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    for (;;) {
      const next = this.#next();
      if (next === undefined) return;
      const waitMs = this.#waitMs();
      if (waitMs > 0) {
        this.#cancel = this.clock.after(waitMs, () => {
          this.#serve();
        });
        return;
      }
      this.#available -= next.bytes;
      this.#virtual = next.startTag;
      this.#waiting.splice(this.#waiting.indexOf(next), 1);
      next.resolve();
    }
  }

  #next(): Waiting | undefined {
    let next: Waiting | undefined;
    for (const one of this.#waiting) if (next === undefined || one.startTag < next.startTag) next = one;
    return next;
  }

  /** Milliseconds until something may be sent. */
  #waitMs(): number {
    const rate = this.bytesPerSecond();
    const nowMs = this.clock.monotonic();
    const elapsedMs = nowMs - this.#atMs;
    this.#atMs = nowMs;
    if (rate === null) {
      this.#available = 0;
      return 0;
    }
    this.#available = Math.min((rate * keptMs) / 1000, this.#available + (elapsedMs * rate) / 1000);
    return this.#available >= 0 ? 0 : Math.ceil((-this.#available * 1000) / rate);
  }
}
