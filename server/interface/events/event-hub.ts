/**
 * Passes events of the server to its listeners (live screen, event stream). A listener that does not keep up
 * loses its oldest events and learns how many; the server never waits for it. Knows no transport.
 */
import type { Clock } from "../../../shared/ports.js";
import type { ServerEvent } from "../api/event-schemas.js";

type WithoutTime<T> = T extends unknown ? Omit<T, "atMs"> : never;
export type NewServerEvent = WithoutTime<ServerEvent>;

export interface EventHub {
  emit(event: NewServerEvent): void;
  /** Events from now on, until `signal` aborts: those of the fleets; absent: of all. */
  listen(signal: AbortSignal, fleets?: readonly string[]): AsyncIterable<ServerEvent>;
  readonly listeners: number;
}

/** @param queueLimit events kept for one listener that is behind */
export function eventHub(clock: Pick<Clock, "now">, queueLimit = 4096): EventHub {
  const listeners = new Set<Listener>();
  return {
    emit(event) {
      if (listeners.size === 0) return;
      const full = { ...event, atMs: clock.now() } as ServerEvent;
      for (const listener of listeners) listener.push(full);
    },
    listen(signal, fleets) {
      const listener = new Listener(queueLimit, () => clock.now(), fleets);
      // Added when `listen` is called, not at the first read, so that no event in between is lost.
      if (!signal.aborted) listeners.add(listener);
      signal.addEventListener(
        "abort",
        () => {
          listeners.delete(listener);
          listener.end();
        },
        { once: true },
      );
      if (signal.aborted) listener.end();
      return listener.events(() => listeners.delete(listener));
    },
    get listeners() {
      return listeners.size;
    },
  };
}

class Listener {
  #queue: ServerEvent[] = [];
  #missed = 0;
  #ended = false;
  #wake: (() => void) | undefined;
  constructor(
    private readonly limit: number,
    private readonly now: () => number,
    private readonly fleets: readonly string[] | undefined,
  ) {}

  push(event: ServerEvent): void {
    if (this.fleets?.includes(event.fleet) === false) return;
    if (this.#queue.length >= this.limit) {
      this.#queue.shift();
      this.#missed++;
    }
    this.#queue.push(event);
    this.#wake?.();
  }
  end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  async *events(leave: () => void): AsyncGenerator<ServerEvent> {
    try {
      for (;;) {
        if (this.#missed > 0) {
          const count = this.#missed;
          this.#missed = 0;
          yield { event: "missed", fleet: "", count, atMs: this.now() };
          continue;
        }
        const event = this.#queue.shift();
        if (event !== undefined) {
          yield event;
          continue;
        }
        if (this.#ended) return;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        this.#wake = undefined;
      }
    } finally {
      leave();
    }
  }
}
