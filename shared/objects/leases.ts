/**
 * Pins on objects that a collection must not delete: leases with an expiry time, and the pins of running
 * saves. They are in memory only.
 */
import type { Clock, Random } from "../ports.js";
import type { Hash } from "../tensor/tensor.js";
import { leaseExpired, leaseUnknown } from "./object-errors.js";
import type { Lease } from "./object-store.js";

/** The time that an expired lease is remembered. */
const expiredLeaseMs = 3_600_000;

interface Held {
  readonly objects: Set<Hash>;
  deadlineMs: number;
  expiresAtMs: number;
}

/** The objects that one save relies on while it runs. */
export interface Pins {
  add(id: Hash): void;
  /** Ends the pins after `graceMs`, or earlier once a reference replaces them (see `referenced`). */
  end(graceMs: number): void;
}

export class Leases {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #leases = new Map<string, Held>();
  readonly #pins = new Set<Held>();

  constructor(clock: Clock, random: Random) {
    this.#clock = clock;
    this.#random = random;
  }

  /** Objects that are not in the store yet are pinned from the moment they arrive. */
  lease(objects: Iterable<Hash>, durationMs: number): Lease {
    this.#forgetExpired();
    const id = Buffer.from(this.#random.bytes(16)).toString("hex");
    const held: Held = {
      objects: new Set(objects),
      deadlineMs: this.#clock.monotonic() + durationMs,
      expiresAtMs: this.#clock.now() + durationMs,
    };
    this.#leases.set(id, held);
    return { id, objects: held.objects, expiresAtMs: held.expiresAtMs };
  }

  /** @throws LEASE_UNKNOWN, LEASE_EXPIRED */
  renew(leaseId: string, durationMs: number): Lease {
    const held = this.#leases.get(leaseId);
    if (held === undefined) throw leaseUnknown(leaseId);
    if (held.deadlineMs <= this.#clock.monotonic()) {
      this.#leases.delete(leaseId);
      throw leaseExpired(leaseId, held.expiresAtMs);
    }
    held.deadlineMs = this.#clock.monotonic() + durationMs;
    held.expiresAtMs = this.#clock.now() + durationMs;
    return { id: leaseId, objects: held.objects, expiresAtMs: held.expiresAtMs };
  }

  release(leaseId: string): void {
    this.#leases.delete(leaseId);
  }

  pin(): Pins {
    const held: Held = {
      objects: new Set(),
      deadlineMs: Number.POSITIVE_INFINITY,
      expiresAtMs: Number.POSITIVE_INFINITY,
    };
    this.#pins.add(held);
    return {
      add: (id) => {
        held.objects.add(id);
      },
      end: (graceMs) => {
        if (graceMs > 0) held.deadlineMs = this.#clock.monotonic() + graceMs;
        else this.#pins.delete(held);
      },
    };
  }

  /** Call when these objects are referenced: pins in their grace time release them. */
  referenced(objects: Iterable<Hash>): void {
    const inGrace = [...this.#pins].filter((held) => held.deadlineMs !== Number.POSITIVE_INFINITY);
    if (inGrace.length === 0) return;
    for (const id of objects) for (const held of inGrace) held.objects.delete(id);
    for (const held of inGrace) if (held.objects.size === 0) this.#pins.delete(held);
  }

  /** Returns all pinned objects. */
  pinned(): Set<Hash> {
    this.#forgetExpired();
    const all = new Set<Hash>();
    const now = this.#clock.monotonic();
    for (const held of this.#leases.values())
      if (held.deadlineMs > now) for (const id of held.objects) all.add(id);
    for (const held of this.#pins) for (const id of held.objects) all.add(id);
    return all;
  }

  /**
   * Drops what has expired. Leases are remembered for an hour more, so that their holder gets LEASE_EXPIRED
   * and not LEASE_UNKNOWN.
   */
  #forgetExpired(): void {
    const now = this.#clock.monotonic();
    for (const [id, held] of this.#leases)
      if (held.deadlineMs + expiredLeaseMs <= now) this.#leases.delete(id);
    for (const held of this.#pins) if (held.deadlineMs <= now) this.#pins.delete(held);
  }
}
