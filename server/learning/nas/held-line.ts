/**
 * The lease by which one search or evaluation alone has devices of a line train. It is renewed until its end. Where it
 * is lost, because somebody ended it or another took the line meanwhile, the work ends with that error.
 */
import { isStemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import type { Clock, Files, Random } from "../../../shared/ports.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";

/** A quarter of the time that a lease lasts. */
const renewMs = 15_000;

type LeaseOperations = Pick<ServerOperations, "leaseLine" | "endLease">;

interface HeldLineOptions {
  readonly operations: LeaseOperations;
  readonly fleet: string;
  readonly line: string;
  /** The work that holds the line, for people. */
  readonly holder: string;
  readonly clock: Clock;
  readonly random: Random;
  /** The file that keeps the lease's key, by which the work takes the line again after a kill; absent: none. */
  readonly kept?: { readonly files: Files; readonly path: string } | undefined;
}

export class HeldLine {
  #loss: Error | undefined;
  #isEnded = false;
  #cancel: () => void;

  private constructor(
    private readonly options: HeldLineOptions,
    /** Proves to the server that this has the line. */
    readonly key: string,
    private readonly lease: string,
  ) {
    this.#cancel = options.clock.after(renewMs, () => void this.#renew());
  }

  /** @throws TRAINING_REFUSED where another search holds the line, USAGE for one that is not for searches */
  static async take(options: HeldLineOptions): Promise<HeldLine> {
    const { random, kept } = options;
    const before = await keptKey(options);
    if (before !== undefined)
      try {
        return await HeldLine.#take(options, before);
      } catch (error) {
        if (!isStemmaError(error, "LEASE_UNKNOWN")) throw error;
      }
    const held = await HeldLine.#take(options, Buffer.from(random.bytes(16)).toString("hex"));
    try {
      if (kept !== undefined) await writeDurably(kept.files, kept.path, Buffer.from(held.key));
    } catch (error) {
      await held.end();
      throw error;
    }
    return held;
  }

  static async #take(options: HeldLineOptions, key: string): Promise<HeldLine> {
    const { operations, fleet, line, holder } = options;
    const { lease } = await operations.leaseLine({ fleet, line, holder, leaseKey: key });
    return new HeldLine(options, key, lease);
  }

  /** @throws why the line is held no more */
  require(): void {
    if (this.#loss !== undefined) throw this.#loss;
  }

  /** Gives the line back. A server that cannot be reached lets the lease expire, which is kept until then. */
  async end(): Promise<void> {
    this.#isEnded = true;
    this.#cancel();
    const { operations, fleet, kept } = this.options;
    try {
      await operations.endLease({ fleet, lease: this.lease });
    } catch {
      return;
    }
    await kept?.files.remove(kept.path);
  }

  async #renew(): Promise<void> {
    const { operations, fleet, line, holder, clock } = this.options;
    try {
      await operations.leaseLine({ fleet, line, holder, leaseKey: this.key });
    } catch (error) {
      const isLost = isStemmaError(error, "TRAINING_REFUSED") || isStemmaError(error, "LEASE_UNKNOWN");
      if (isLost) this.#loss = error;
    }
    if (this.#isEnded || this.#loss !== undefined) return;
    this.#cancel = clock.after(renewMs, () => void this.#renew());
  }
}

async function keptKey({ kept }: HeldLineOptions): Promise<string | undefined> {
  if (kept === undefined || (await kept.files.stat(kept.path)) === undefined) return undefined;
  const text = Buffer.from(await kept.files.read(kept.path)).toString("utf8");
  return /^[0-9a-f]{32}$/u.test(text) ? text : undefined;
}
