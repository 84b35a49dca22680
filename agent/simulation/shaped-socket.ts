/**
 * Shapes a connection as over a slow link. It has limited bytes a second in each direction, latency, and the
 * waiting that lost packets cost where TCP sends them again. Holds back what the link could not have carried
 * yet, and so slows down both sides as a real link does.
 */
import { Duplex } from "node:stream";
import type { Clock } from "../../shared/ports.js";
import type { LinkShape } from "../../shared/simulation/link-shapes.js";

/** Bytes of a TCP segment. */
const segmentBytes = 1400;
/** Least time after which TCP sends a lost segment again (RFC 6298 allows a second; Linux takes this). */
const retransmitMs = 200;

export interface ShapedSocketOptions {
  readonly shape: Omit<LinkShape, "name" | "breaksPerHour" | "offlineMs">;
  readonly clock: Pick<Clock, "monotonic" | "after">;
  /** Uniform numbers in [0, 1). */
  readonly draw: () => number;
  readonly onBytes: (up: number, down: number) => void;
}

/** Computes when a direction of the link has carried its bytes. Pure but for the numbers that it draws. */
class Lane {
  #freeAtMs = 0;

  constructor(
    private readonly bytesPerSecond: number | null,
    private readonly options: ShapedSocketOptions,
  ) {}

  /** Books bytes; returns in how many milliseconds the last of them has left. */
  book(bytes: number): number {
    const { shape, clock, draw } = this.options;
    const nowMs = clock.monotonic();
    const sendMs = this.bytesPerSecond === null ? 0 : (1000 * bytes) / this.bytesPerSecond;
    const isLost = draw() >= (1 - shape.loss) ** Math.ceil(bytes / segmentBytes);
    const stallMs = isLost ? Math.max(retransmitMs, 2 * shape.latencyMs) : 0;
    this.#freeAtMs = Math.max(this.#freeAtMs, nowMs) + sendMs + stallMs;
    return this.#freeAtMs - nowMs;
  }
}

/** Actions at times, in the order in which they were added: timers of about the same time fire in any order. */
class OrderedDelays {
  readonly #waiting: { readonly atMs: number; readonly run: () => void }[] = [];
  #cancel: (() => void) | undefined;

  constructor(private readonly clock: ShapedSocketOptions["clock"]) {}

  add(delayMs: number, run: () => void): void {
    this.#waiting.push({ atMs: this.clock.monotonic() + delayMs, run });
    if (this.#cancel === undefined) this.#runDue();
  }

  clear(): void {
    this.#waiting.length = 0;
    this.#cancel?.();
  }

  #runDue(): void {
    this.#cancel = undefined;
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      const waitMs = next.atMs - this.clock.monotonic();
      if (waitMs >= 1) {
        this.#cancel = this.clock.after(waitMs, () => {
          this.#runDue();
        });
        return;
      }
      this.#waiting.shift();
      next.run();
    }
  }
}

export class ShapedSocket extends Duplex {
  readonly #up: Lane;
  readonly #down: Lane;
  readonly #sent: OrderedDelays;
  readonly #received: OrderedDelays;
  /** The delays until the link is free again, for either direction. */
  readonly #free: readonly [OrderedDelays, OrderedDelays];

  constructor(
    private readonly inner: Duplex,
    private readonly options: ShapedSocketOptions,
  ) {
    super();
    this.#up = new Lane(options.shape.upBytesPerSecond, options);
    this.#down = new Lane(options.shape.downBytesPerSecond, options);
    this.#sent = new OrderedDelays(options.clock);
    this.#received = new OrderedDelays(options.clock);
    this.#free = [new OrderedDelays(options.clock), new OrderedDelays(options.clock)];
    inner.on("data", (chunk: Buffer) => {
      this.#arrived(chunk);
    });
    inner.on("end", () => {
      this.#received.add(this.options.shape.latencyMs, () => {
        this.push(null);
      });
    });
    inner.on("error", (error) => {
      this.destroy(error);
    });
    inner.on("close", () => {
      this.destroy();
    });
  }

  /** The next chunk is read when the link has carried this one; it arrives later by the latency. */
  #arrived(chunk: Buffer): void {
    this.options.onBytes(0, chunk.length);
    const sentMs = this.#down.book(chunk.length);
    this.inner.pause();
    this.#free[1].add(sentMs, () => {
      this.inner.resume();
    });
    this.#received.add(sentMs + this.options.shape.latencyMs, () => {
      this.push(chunk);
    });
  }

  override _read(): void {
    // What arrives is pushed when the link has carried it; the client reads faster than that.
  }

  override _write(chunk: Buffer, _encoding: string, callback: (error?: Error | null) => void): void {
    this.options.onBytes(chunk.length, 0);
    const sentMs = this.#up.book(chunk.length);
    this.#sent.add(sentMs + this.options.shape.latencyMs, () => {
      this.inner.write(chunk);
    });
    this.#free[0].add(sentMs, () => {
      callback();
    });
  }

  override _final(callback: (error?: Error | null) => void): void {
    this.#sent.add(this.options.shape.latencyMs, () => {
      this.inner.end();
      callback();
    });
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    for (const delays of [this.#sent, this.#received, ...this.#free]) delays.clear();
    this.inner.destroy();
    callback(error);
  }
}
