/**
 * The connected devices of one fleet and their sessions, from the accepted CONNECT to the end of the
 * connection.
 */
import type { Birth } from "../../../../shared/wire/messages.js";
import type { DeviceSession } from "./device-sender.js";

/** A connected device, as far as this process knows it. */
export interface OnlineDevice extends DeviceSession {
  birth: Birth | undefined;
  /** True if this server could not prove that its journal continues what the device has seen. */
  isUnproven?: boolean;
}

export class DeviceSessions {
  readonly #online = new Map<string, OnlineDevice>();
  /** The time when each offline device's connection ended, milliseconds since 1970. */
  readonly #leftAtMs = new Map<string, number>();
  /** Sessions that were admitted and whose connection is not up yet. */
  readonly #admitted = new Map<string, number>();
  /** Number of connections of each device: two for a moment, when one takes over from the other. */
  readonly #connections = new Map<string, number>();

  /** Number of devices online. */
  get count(): number {
    return this.#online.size;
  }
  get(device: string): OnlineDevice | undefined {
    return this.#online.get(device);
  }

  /** The devices online, as they are now. */
  all(): readonly (readonly [string, OnlineDevice])[] {
    return [...this.#online];
  }

  /** A CONNECT was accepted; its session starts when the connection is up. */
  admitted(device: string, session: number): void {
    this.#admitted.set(device, session);
  }

  /**
   * A connection is up. Returns whether it takes over from an older session; undefined: it was not admitted.
   */
  connected(device: string): { readonly isTakeOver: boolean } | undefined {
    const session = this.#admitted.get(device);
    if (session === undefined) return undefined;
    this.#admitted.delete(device);
    this.#connections.set(device, (this.#connections.get(device) ?? 0) + 1);
    const isTakeOver = this.#online.has(device);
    this.#online.set(device, { session, sequence: 0, birth: undefined });
    return { isTakeOver };
  }

  /**
   * A connection is gone. Returns whether the device is offline now: a connection that was taken over may end
   * after its successor started.
   */
  disconnected(device: string, atMs: number): boolean {
    const left = (this.#connections.get(device) ?? 0) - 1;
    if (left > 0) {
      this.#connections.set(device, left);
      return false;
    }
    this.#connections.delete(device);
    this.#leftAtMs.set(device, atMs);
    return this.#online.delete(device);
  }

  /** Returns until when a device was connected since this process started; undefined if it was not. */
  seenAtMs(device: string, nowMs: number): number | undefined {
    return this.#online.has(device) ? nowMs : this.#leftAtMs.get(device);
  }

  clear(): void {
    this.#online.clear();
  }
}
