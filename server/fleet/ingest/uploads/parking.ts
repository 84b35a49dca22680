/**
 * Keeps announcements whose base the server does not know yet, for a while and within bounds, and returns
 * them when the base is recorded. Pure: the time is passed in, and nothing happens by itself.
 */
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { IngestLimits } from "../limits.js";

export interface ParkedItem<T> {
  readonly versionId: Hash;
  readonly device: string;
  readonly bases: readonly Hash[];
  readonly bytes: number;
  readonly expiresAtMs: number;
  readonly item: T;
}

export class ParkingLot<T> {
  readonly #parked = new Map<Hash, ParkedItem<T>>();
  #bytes = 0;
  constructor(
    private readonly limits: Pick<
      IngestLimits,
      "parkedPerDevice" | "parkedTotal" | "parkedBytes" | "parkedMs"
    >,
  ) {}

  get count(): number {
    return this.#parked.size;
  }
  get bytes(): number {
    return this.#bytes;
  }
  has(versionId: Hash): boolean {
    return this.#parked.has(versionId);
  }
  all(): Iterable<ParkedItem<T>> {
    return this.#parked.values();
  }

  /**
   * Parks an announcement; the time of one that is parked already starts again. Returns undefined where a
   * bound is reached: the device announces again later.
   */
  park(entry: Omit<ParkedItem<T>, "expiresAtMs">, nowMs: number): ParkedItem<T> | undefined {
    this.#remove(entry.versionId);
    const ofDevice = [...this.#parked.values()].filter(({ device }) => device === entry.device).length;
    if (
      ofDevice >= this.limits.parkedPerDevice ||
      this.#parked.size >= this.limits.parkedTotal ||
      this.#bytes + entry.bytes > this.limits.parkedBytes
    )
      return undefined;
    const parked = { ...entry, expiresAtMs: nowMs + this.limits.parkedMs };
    this.#parked.set(entry.versionId, parked);
    this.#bytes += entry.bytes;
    return parked;
  }

  /** Removes and returns what waited for `base`, in the order of arrival. */
  takeWaitingFor(base: Hash): ParkedItem<T>[] {
    return this.#take(({ bases }) => bases.includes(base));
  }
  takeExpired(nowMs: number): ParkedItem<T>[] {
    return this.#take(({ expiresAtMs }) => expiresAtMs <= nowMs);
  }
  take(versionId: Hash): ParkedItem<T> | undefined {
    return this.#take((item) => item.versionId === versionId)[0];
  }
  takeOfDevice(device: string): ParkedItem<T>[] {
    return this.#take((item) => item.device === device);
  }

  #take(chosen: (item: ParkedItem<T>) => boolean): ParkedItem<T>[] {
    const taken = [...this.#parked.values()].filter(chosen);
    for (const { versionId } of taken) this.#remove(versionId);
    return taken;
  }
  #remove(versionId: Hash): void {
    const parked = this.#parked.get(versionId);
    if (parked === undefined) return;
    this.#parked.delete(versionId);
    this.#bytes -= parked.bytes;
  }
}
