/**
 * Leases ancestors from the question for the nearest one to the save of the child (EvoStore, EV2). While a
 * lease lasts, no collection removes what the child takes over, even if the ancestor is retired meanwhile.
 * The store holds the pins; a file beside the packs gives them back to it after a restart, for the time that
 * is left. So an unused lease ends by itself.
 */
import { join } from "node:path";
import * as z from "zod";
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import type { ObjectPruner } from "../../../shared/objects/object-store.js";
import type { Clock, Files, Log, Random } from "../../../shared/ports.js";
import { formatTime } from "../../../shared/cli/output.js";
import { printable } from "../../../shared/printable.js";
import { isHash } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";

/** The largest number of leases of one fleet at a time: each may pin a model. */
const maxModelLeases = 64;
const maxLeaseMs = 24 * 60 * 60 * 1000;
const maxFileBytes = 64 * 1024 * 1024;
/** Leases that a refusal names. */
const maxNamed = 3;
const maxHolder = 200;

const hash = z.custom<Hash>(isHash, "not a hash");
const leaseSchema = z.object({
  id: z.string().regex(/^[0-9a-f]{32}$/),
  versionId: hash,
  further: z.array(hash).exactOptional(),
  expiresAtMs: z.number(),
  sinceMs: z.number().exactOptional(),
  holder: z.string().max(maxHolder).exactOptional(),
  by: z.string().exactOptional(),
  objects: z.array(hash),
  tensors: z.array(z.object({ path: z.string(), name: z.string() })),
});
const fileSchema = z.object({
  kind: z.literal("stemma-leases"),
  format: z.literal(1),
  leases: z.array(leaseSchema).max(maxModelLeases),
});

/** A lease on a version; `tensors`: paths in it, and what the child calls them. */
export interface ModelLease {
  readonly id: string;
  readonly versionId: Hash;
  /** Versions that the lease is on too. */
  readonly further?: readonly Hash[];
  readonly expiresAtMs: number;
  /** The time when it was granted; absent: by an earlier release. */
  readonly sinceMs?: number;
  /** The work that holds it, for people; absent: a transfer. */
  readonly holder?: string;
  /** The caller that asked for it; absent: not known. */
  readonly by?: string;
  /** The objects that the store must keep. */
  readonly objects: readonly Hash[];
  readonly tensors: readonly { readonly path: string; readonly name: string }[];
}

interface LeaseParts {
  readonly objects: Pick<ObjectPruner, "has" | "lease" | "release">;
  readonly files: Files;
  readonly folder: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log | undefined;
}

export class ModelLeases {
  readonly #parts: LeaseParts;
  readonly #path: string;
  readonly #writes = new SerialQueue();
  /** The leases, each with the lease of the store that pins the objects. */
  readonly #leases = new Map<string, { readonly lease: ModelLease; readonly pin: string }>();

  private constructor(parts: LeaseParts) {
    this.#parts = parts;
    this.#path = join(parts.folder, "leases.json");
  }

  /** Pins again what was leased before this process. */
  static async open(parts: LeaseParts): Promise<ModelLeases> {
    const leases = new ModelLeases(parts);
    for (const lease of await leases.#read()) leases.#pin(lease);
    return leases;
  }

  /**
   * Durable when this returns.
   * @throws OBJECT_MISSING where a collection was faster, NOT_ALLOWED where too many are held
   */
  async grant(
    wanted: Omit<ModelLease, "id" | "expiresAtMs" | "sinceMs">,
    durationMs: number,
  ): Promise<ModelLease> {
    this.#dropExpired();
    if (this.#leases.size >= maxModelLeases) throw this.#tooMany();
    const { random, objects } = this.#parts;
    const lease: ModelLease = {
      ...wanted,
      ...(wanted.holder !== undefined && { holder: wanted.holder.slice(0, maxHolder) }),
      id: Buffer.from(random.bytes(16)).toString("hex"),
      expiresAtMs: this.#expiryAfter(durationMs),
      sinceMs: this.#parts.clock.now(),
    };
    this.#pin(lease);
    try {
      const missing = lease.objects.find((id) => !objects.has(id));
      if (missing !== undefined)
        throw new StemmaError(
          "OBJECT_MISSING",
          `The object ${missing} was collected before it could be leased. Ask for the nearest model again.`,
          { id: missing },
        );
      await this.#write();
    } catch (error) {
      this.#forget(lease.id);
      throw error;
    }
    return lease;
  }

  /** @throws LEASE_UNKNOWN, LEASE_EXPIRED */
  require(id: string): ModelLease {
    const held = this.#leases.get(id)?.lease;
    if (held === undefined)
      throw new StemmaError(
        "LEASE_UNKNOWN",
        `No lease ${id.slice(0, 64)} is held on a model of this fleet: it ended, or expired. Start with ` +
          "`stemma model transfer` again.",
      );
    if (held.expiresAtMs > this.#parts.clock.now()) return held;
    throw new StemmaError(
      "LEASE_EXPIRED",
      `The lease ${id} has expired, so what it held may be gone. Start with \`stemma model transfer\` again, with ` +
        "more --minutes.",
      { expiredAtMs: held.expiresAtMs },
    );
  }

  /** True if a lease that has not expired is on this version. */
  covers(id: string | undefined, versionId: Hash): boolean {
    const held = id === undefined ? undefined : this.#leases.get(id)?.lease;
    if (held === undefined || held.expiresAtMs <= this.#parts.clock.now()) return false;
    return held.versionId === versionId || held.further?.includes(versionId) === true;
  }

  /** Lets a lease last for this time from now. @throws LEASE_UNKNOWN, LEASE_EXPIRED */
  async renew(id: string, durationMs: number): Promise<void> {
    const lease = { ...this.require(id), expiresAtMs: this.#expiryAfter(durationMs) };
    const before = this.#leases.get(id);
    this.#pin(lease);
    if (before !== undefined) this.#parts.objects.release(before.pin);
    await this.#write();
  }

  /** The leases that have not expired. */
  list(): readonly ModelLease[] {
    this.#dropExpired();
    return [...this.#leases.values()].map(({ lease }) => lease);
  }

  /** Ends a lease; one that ended already changes nothing. */
  async end(id: string): Promise<void> {
    if (!this.#leases.has(id)) return;
    this.#forget(id);
    await this.#write();
  }

  #tooMany(): StemmaError {
    const leases = [...this.#leases.values()]
      .map(({ lease: { id, expiresAtMs, holder = "a transfer" } }) => ({ id, expiresAtMs, holder }))
      .sort((a, b) => a.expiresAtMs - b.expiresAtMs);
    const named = leases
      .slice(0, maxNamed)
      .map(({ id, expiresAtMs, holder }) => `${id} until ${formatTime(expiresAtMs)}, ${printable(holder)}`);
    return new StemmaError(
      "NOT_ALLOWED",
      `This fleet has ${maxModelLeases} leases on models already. The first to expire: ${named.join("; ")}. End one ` +
        "with `stemma storage leases --end LEASE`, or wait. An evaluation that was cut short and goes on takes its own " +
        "again, and ends it when it is done.",
      { leases },
    );
  }

  #expiryAfter(durationMs: number): number {
    return this.#parts.clock.now() + Math.min(durationMs, maxLeaseMs);
  }

  #pin(lease: ModelLease): void {
    const { objects, clock } = this.#parts;
    const pin = objects.lease(lease.objects, lease.expiresAtMs - clock.now());
    this.#leases.set(lease.id, { lease, pin: pin.id });
  }

  #forget(id: string): void {
    const held = this.#leases.get(id);
    this.#leases.delete(id);
    if (held !== undefined) this.#parts.objects.release(held.pin);
  }

  #dropExpired(): void {
    const now = this.#parts.clock.now();
    for (const { lease } of [...this.#leases.values()]) if (lease.expiresAtMs <= now) this.#forget(lease.id);
  }

  async #write(): Promise<void> {
    await this.#writes.run(async () => {
      const leases = [...this.#leases.values()].map(({ lease }) => lease);
      const content = { kind: "stemma-leases", format: 1, leases };
      await writeDurably(this.#parts.files, this.#path, Buffer.from(`${JSON.stringify(content)}\n`));
    });
  }

  async #read(): Promise<readonly ModelLease[]> {
    const { files, clock, log } = this.#parts;
    try {
      const stat = await files.stat(this.#path);
      if (stat === undefined) return [];
      if (stat.size > maxFileBytes) throw new SyntaxError("it is too large");
      const json: unknown = JSON.parse(Buffer.from(await files.read(this.#path)).toString("utf8"));
      return fileSchema.parse(json).leases.filter(({ expiresAtMs }) => {
        // A clock that was set back must not keep anything for ever.
        const leftMs = expiresAtMs - clock.now();
        return leftMs > 0 && leftMs <= maxLeaseMs;
      });
    } catch (error) {
      if (isStemmaError(error, "FILE_MISSING")) return [];
      if (!(error instanceof SyntaxError || error instanceof z.ZodError)) throw error;
      log?.error("leases-damaged", { path: this.#path, error });
      return [];
    }
  }
}
