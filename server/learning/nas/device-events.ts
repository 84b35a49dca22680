/** Waits for events of single devices, so that who waits for a device need not ask again and again. */
import { isStemmaError } from "../../../shared/errors.js";
import type { Clock } from "../../../shared/ports.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";

/** The milliseconds until the stream of events is opened again after it broke off. */
const reopenMs = 5_000;

export class DeviceEvents {
  readonly #operations: Pick<ServerOperations, "events">;
  readonly #clock: Clock;
  readonly #stop = new AbortController();
  /** Events of each device so far. */
  readonly #counts = new Map<string, number>();
  readonly #waiting = new Map<string, Set<() => void>>();
  #listening: Promise<void> | undefined;

  constructor(operations: Pick<ServerOperations, "events">, clock: Clock) {
    this.#operations = operations;
    this.#clock = clock;
  }

  /** A moment in the events of a device, for `after`. */
  moment(device: string): number {
    this.#listening ??= this.#listen();
    return this.#counts.get(device) ?? 0;
  }

  /**
   * Resolves at the first event of the device after the moment, after `ms` milliseconds, or when the signal aborts.
   * Events may be missed (the stream broke off), so the caller looks again each time.
   */
  async after(
    device: string,
    moment: number,
    { ms, signal }: { readonly ms: number; readonly signal?: AbortSignal | undefined },
  ): Promise<void> {
    if (this.moment(device) !== moment || signal?.aborted === true) return;
    const waiting = this.#waiting.get(device) ?? new Set();
    this.#waiting.set(device, waiting);
    await this.#pause(ms, signal, waiting);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#listening;
  }

  async #pause(ms: number, signal: AbortSignal | undefined, wakers: Set<() => void>): Promise<void> {
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        cancel();
        wakers.delete(wake);
        signal?.removeEventListener("abort", wake);
        resolve();
      };
      const cancel = this.#clock.after(ms, wake);
      wakers.add(wake);
      signal?.addEventListener("abort", wake, { once: true });
    });
  }

  async #listen(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        for await (const event of this.#operations.events(signal))
          if ("device" in event) this.#noted(event.device);
          else if (event.event === "missed")
            for (const device of [...this.#waiting.keys()]) this.#noted(device);
      } catch (error) {
        // Whoever waits asks in intervals too; what is wrong with the server, those requests report.
        if (!isStemmaError(error) && !signal.aborted) throw error;
      }
      if (!signal.aborted) await this.#pause(reopenMs, signal, new Set());
    }
  }

  #noted(device: string): void {
    this.#counts.set(device, (this.#counts.get(device) ?? 0) + 1);
    for (const wake of [...(this.#waiting.get(device) ?? [])]) wake();
  }
}
