/**
 * The connections between devices and a broker, as MQTT over TCP gives them: in order and complete while a connection
 * lasts, cut at any byte, or half open until a keep-alive runs out. Downwards a broker may also drop a message for a
 * device that does not read fast enough, and another than the embedded one repeats messages of QoS 1; blocks (QoS 0)
 * may be lost, repeated and overtaken in both directions.
 */
import type { Choice } from "./choice.js";
import type { VirtualTime } from "./virtual-time.js";

/** How good a device's network is. */
export interface LinkQuality {
  readonly latencyMs: number;
  /** Shares of the messages that are lost, repeated, and overtaken by later ones, where that may be. */
  readonly loss: number;
  readonly repeats: number;
  readonly overtaken: number;
  /** Mean times between two cuts of a connection, and between two silent failures. */
  readonly cutEveryMs: number;
  readonly halfOpenEveryMs: number;
  readonly keepaliveMs: number;
}

/** One direction of a connection. */
export class Lane {
  #lastMs = 0;

  constructor(
    private readonly time: VirtualTime,
    private readonly choice: Choice,
    private readonly quality: () => LinkQuality,
  ) {}

  /** Delivers once, after what was sent before. */
  ordered(deliver: () => void): void {
    const atMs = Math.max(this.#lastMs, this.time.nowMs + this.#delayMs());
    this.#lastMs = atMs;
    this.time.after(atMs - this.time.nowMs, deliver);
  }

  /** Delivers in order, or twice. */
  repeatable(deliver: () => void): void {
    this.ordered(deliver);
    if (this.choice.chance(this.quality().repeats)) this.ordered(deliver);
  }

  /** Delivers in order, or never, or twice. */
  droppable(deliver: () => void): void {
    if (!this.choice.chance(this.quality().loss)) this.repeatable(deliver);
  }

  /** Delivers when it gets there, or never, or twice. */
  unordered(deliver: () => void): void {
    const { loss, repeats, overtaken } = this.quality();
    if (this.choice.chance(loss)) return;
    if (this.choice.chance(overtaken)) this.time.after(5 * this.#delayMs(), deliver);
    else this.ordered(deliver);
    if (this.choice.chance(repeats)) this.time.after(this.#delayMs(), deliver);
  }

  #delayMs(): number {
    const { latencyMs } = this.quality();
    return Math.round(latencyMs * this.choice.between(0.5, 2));
  }
}

type End = "client" | "broker";

export class Connection {
  readonly up: Lane;
  readonly down: Lane;
  /** Called once at each end when it learns that the connection is over. */
  readonly onClosed: Record<End, () => void> = { client: () => undefined, broker: () => undefined };
  readonly #isClosed: Record<End, boolean> = { client: false, broker: false };
  /** Nothing arrives any more, and neither end knows. */
  #isHalfOpen = false;
  readonly #cancels: (() => void)[] = [];

  constructor(
    private readonly time: VirtualTime,
    private readonly choice: Choice,
    private readonly quality: () => LinkQuality,
  ) {
    this.up = new Lane(time, choice, quality);
    this.down = new Lane(time, choice, quality);
    const { cutEveryMs, halfOpenEveryMs } = quality();
    this.#cancels.push(
      time.after(choice.waitMs(cutEveryMs), () => {
        this.cut();
      }),
      time.after(choice.waitMs(halfOpenEveryMs), () => {
        this.failSilently();
      }),
    );
  }

  /** Whether what arrives now gets to this end. */
  reaches(end: End): boolean {
    return !this.#isClosed[end] && !this.#isHalfOpen;
  }
  /** Whether this end takes the connection for open. */
  isOpenAt(end: End): boolean {
    return !this.#isClosed[end];
  }

  /** Both ends learn it at once; what was under way is lost. */
  cut(): void {
    this.#close("client");
    this.#close("broker");
  }

  /** Each end learns it when its keep-alive runs out. */
  failSilently(): void {
    if (this.#isHalfOpen) return;
    this.#isHalfOpen = true;
    const { keepaliveMs } = this.quality();
    for (const end of ["client", "broker"] as const)
      this.time.after(keepaliveMs * this.choice.between(0.5, 1.5), () => {
        this.#close(end);
      });
  }

  /** One end closes after what it has sent; the other learns it as fast as the network is. */
  end(by: End): void {
    this.#close(by);
    if (this.#isHalfOpen) return;
    const [lane, other] = by === "client" ? ([this.up, "broker"] as const) : ([this.down, "client"] as const);
    lane.ordered(() => {
      this.#close(other);
    });
  }

  #close(end: End): void {
    if (this.#isClosed[end]) return;
    this.#isClosed[end] = true;
    if (this.#isClosed.client && this.#isClosed.broker) for (const cancel of this.#cancels) cancel();
    this.onClosed[end]();
  }
}
