/**
 * The archive of a home's fleets: makes and applies storage plans, one at a time per fleet. The machine's
 * rates are measured once and kept. If they were measured for each plan, small differences would make
 * successive plans rewrite tensors back and forth.
 */
import { StemmaError } from "../../../shared/errors.js";
import type { DeltaCodec } from "../../../shared/delta/codec.js";
import { sharedDeltaCodec } from "../../../shared/delta/load.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import type { Clock, Files } from "../../../shared/ports.js";
import type { MovedLowBytes } from "../../../shared/objects/tiers/low-bytes-moves.js";
import type { FleetRepository } from "../repository/fleet-repository.js";
import type { GuardedTier } from "../repository/tiers/guarded-tier.js";
import { applyPlan } from "./apply-plan.js";
import type { ApplyOptions, ApplyReport } from "./plan-application.js";
import type { ArchivePlan } from "./archive-plan.js";
import { decodeRates, encodeRates, measureRates, type ArchiveRates } from "./archive-rates.js";
import { measureDiskUsPerByte } from "./measure-disk.js";
import { planArchive, type PlanArchiveOptions } from "./plan-archive.js";
import {
  applyTier,
  planTier,
  type TierApplied,
  type TierApplyOptions,
  type TierPlan,
  type TierWork,
} from "./tier-application.js";
import { archiveCoder } from "./archive-coder.js";

export interface ArchivePorts {
  readonly clock: Clock;
  readonly files: Files;
  /** Makes and returns a folder on the stores' disk, for the file that measures it. */
  readonly workFolder: () => Promise<string>;
  /** File of the measured rates. It may be deleted; the rates are then measured again. */
  readonly ratesPath: string;
  /** Name of this machine. Rates that were measured on another machine are not used. */
  readonly machine: string;
  readonly freeBytes: () => Promise<number>;
}
export interface Archive {
  plan(
    repository: FleetRepository,
    options: PlanArchiveOptions & { readonly readBytesPerSecond?: number; readonly measure?: boolean },
  ): Promise<ArchivePlan>;
  apply(repository: FleetRepository, plan: ArchivePlan, options: ApplyOptions): Promise<ApplyReport>;
  /** The rates of this machine, measured where they have not been. */
  rates(): Promise<ArchiveRates>;
  /**
   * Plans which low-order bytes of old versions move to a tier, and what that saves. @throws NOT_FOUND,
   * TIER_UNREACHABLE
   */
  planTier(work: TierWork, tier: GuardedTier): Promise<TierPlan>;
  applyTier(work: TierWork, options: TierApplyOptions): Promise<TierApplied>;
  /** Brings everything of a fleet back from a tier. */
  bringBack(repository: FleetRepository, tier: string, signal?: AbortSignal): Promise<MovedLowBytes>;
}

/** A larger file of rates is not read: it was not written by this program. */
const maxRatesBytes = 65_536;

export function openArchive(ports: ArchivePorts): Archive {
  return new FleetArchive(ports);
}

class FleetArchive implements Archive {
  /** Fleets whose storage is being planned or rewritten. */
  readonly #busyFleets = new Set<string>();

  constructor(private readonly ports: ArchivePorts) {}

  plan(
    repository: FleetRepository,
    { readBytesPerSecond, measure = false, ...options }: Parameters<Archive["plan"]>[1],
  ): Promise<ArchivePlan> {
    return this.#exclusively(repository.fleet, async () => {
      const measured = measure ? await this.#measureRates() : await this.rates();
      const rates =
        readBytesPerSecond === undefined
          ? measured
          : { ...measured, readUsPerByte: 1e6 / readBytesPerSecond };
      return await planArchive(
        repository.fleet,
        repository,
        { codec: await this.#loadCodec(), rates, clock: this.ports.clock },
        options,
      );
    });
  }

  apply(repository: FleetRepository, plan: ArchivePlan, options: ApplyOptions): Promise<ApplyReport> {
    const { clock, freeBytes } = this.ports;
    return this.#exclusively(repository.fleet, async () => {
      if (plan.fleet !== repository.fleet)
        throw new StemmaError(
          "PLAN_INVALID",
          `The storage plan cannot be applied to the fleet ${repository.fleet}, because it was made for the fleet ${plan.fleet}. Apply it to that fleet, or make a plan for this one.`,
          { planned: plan.fleet, fleet: repository.fleet },
        );
      const coder = archiveCoder();
      try {
        return await applyPlan({ target: repository, coder, clock, freeBytes }, plan, options);
      } finally {
        await coder.close();
      }
    });
  }

  async rates(): Promise<ArchiveRates> {
    return (await this.#readRates()) ?? (await this.#measureRates());
  }

  planTier(work: TierWork, tier: GuardedTier): Promise<TierPlan> {
    const { clock } = this.ports;
    return this.#exclusively(work.repository.fleet, async () => {
      const freeBytes = await tier.freeBytes();
      const usPerByte = await tier.use((folder) => measureDiskUsPerByte(folder, clock));
      return await planTier(work, { freeBytes, usPerByte });
    });
  }

  applyTier(work: TierWork, options: TierApplyOptions): Promise<TierApplied> {
    const { clock, freeBytes } = this.ports;
    return this.#exclusively(work.repository.fleet, async () => {
      const coder = archiveCoder();
      try {
        return await applyTier(work, { coder, clock, freeBytes }, options);
      } finally {
        await coder.close();
      }
    });
  }

  bringBack(repository: FleetRepository, tier: string, signal?: AbortSignal): Promise<MovedLowBytes> {
    return this.#exclusively(repository.fleet, () => repository.tiers.bringBack(tier, { signal }));
  }

  #loadCodec(): Promise<DeltaCodec> {
    return sharedDeltaCodec();
  }

  /** The rates that were measured on this machine before; undefined where there are none. */
  async #readRates(): Promise<ArchiveRates | undefined> {
    const { files, ratesPath, machine } = this.ports;
    const found = await files.stat(ratesPath);
    return found?.kind === "file" && found.size < maxRatesBytes
      ? decodeRates(await files.read(ratesPath), machine)
      : undefined;
  }

  async #measureRates(): Promise<ArchiveRates> {
    const { clock, files, workFolder, ratesPath, machine } = this.ports;
    const readUsPerByte = await measureDiskUsPerByte(await workFolder(), clock);
    const rates = measureRates(await this.#loadCodec(), clock, readUsPerByte);
    await writeDurably(files, ratesPath, encodeRates(rates, machine));
    return rates;
  }

  async #exclusively<T>(fleet: string, work: () => Promise<T>): Promise<T> {
    if (this.#busyFleets.has(fleet))
      throw new StemmaError(
        "QUOTA_EXCEEDED",
        `The storage of the fleet ${fleet} is already being planned or rewritten. Wait until that ends, or stop it.`,
        { fleet },
      );
    this.#busyFleets.add(fleet);
    try {
      return await work();
    } finally {
      this.#busyFleets.delete(fleet);
    }
  }
}
