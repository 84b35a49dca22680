/**
 * Connections that were refused: counted by device and reason, and said at growing distances. A device is told nothing,
 * so that nobody learns from it which devices there are; whoever runs the server has to be told. Known to this process
 * alone. Pure.
 */
import type { ErrorCode } from "../../../../shared/errors.js";
import { isReported } from "../../../../shared/growing-distances.js";

export interface ConnectionRefusal {
  readonly code: ErrorCode;
  readonly message: string;
  /** The address that it came from; at an external broker, that of the broker. */
  readonly address: string;
}
/** The refusals for one reason. */
export interface CountedRefusals extends ConnectionRefusal {
  /** Number of them since this server was started. */
  readonly count: number;
  /** The time of the last one, by this server's clock. */
  readonly atMs: number;
}

/** Names of no device that are counted apart, at most: the one who connects chooses the name. */
const maxStrangers = 1000;

export class ConnectionRefusals {
  readonly #devices = new Map<string, Map<ErrorCode, CountedRefusals>>();
  readonly #strangers = new Map<string, number>();
  readonly #counts = new Map<ErrorCode, number>();
  #otherStrangers = 0;

  /** The refusals by reason, of whoever. */
  get counts(): ReadonlyMap<ErrorCode, number> {
    return this.#counts;
  }

  /** The refusals of connections in a device's name, the newest first. */
  of(device: string): readonly CountedRefusals[] {
    return [...(this.#devices.get(device)?.values() ?? [])].sort((a, b) => b.atMs - a.atMs);
  }

  /**
   * Counts one in the name of a device, or of a stranger.
   * @param isDevice whether a device of that name is known
   * @returns how many there were of this name and reason, where that is to be said now; undefined where it is not
   */
  add(name: string, refusal: ConnectionRefusal, { isDevice, nowMs }: RefusedName): number | undefined {
    this.#counts.set(refusal.code, (this.#counts.get(refusal.code) ?? 0) + 1);
    const count = isDevice ? this.#ofDevice(name, refusal, nowMs) : this.#ofStranger(name);
    return isReported(count) ? count : undefined;
  }

  #ofDevice(device: string, refusal: ConnectionRefusal, atMs: number): number {
    const known = this.#devices.get(device) ?? new Map<ErrorCode, CountedRefusals>();
    const count = (known.get(refusal.code)?.count ?? 0) + 1;
    this.#devices.set(device, known.set(refusal.code, { ...refusal, count, atMs }));
    return count;
  }

  #ofStranger(name: string): number {
    const count = this.#strangers.get(name);
    if (count === undefined && this.#strangers.size >= maxStrangers) return ++this.#otherStrangers;
    this.#strangers.set(name, (count ?? 0) + 1);
    return (count ?? 0) + 1;
  }
}

interface RefusedName {
  readonly isDevice: boolean;
  readonly nowMs: number;
}
