/**
 * The archive of a home's fleets: makes and applies storage plans, one at a time per fleet. The machine's
 * rates are measured once and kept. If they were measured for each plan, small differences would make
 * successive plans rewrite tensors back and forth.
 */
import { StemmaError } from "../../shared/errors.js";
import type { DeltaCodec } from "../../shared/delta/codec.js";
import { loadDeltaCodec } from "../../shared/delta/load.js";
import { writeDurably } from "../../shared/files/durable-write.js";
import type { Clock, Files } from "../../shared/ports.js";
import type { FleetRepository } from "../repository/fleet-repository.js";
import { applyPlan } from "./apply-plan.js";
import type { ApplyOptions, ApplyReport } from "./plan-application.js";
import type { ArchivePlan } from "./archive-plan.js";
import { decodeRates, encodeRates, measureRates, type ArchiveRates } from "./archive-rates.js";
import { measureDiskUsPerByte } from "./measure-disk.js";
import { planArchive, type PlanArchiveOptions } from "./plan-archive.js";
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
}

export function openArchive({
  clock,
  files,
  workFolder,
  ratesPath,
  machine,
  freeBytes,
}: ArchivePorts): Archive {
  const busy = new Set<string>();
  let codec: Promise<DeltaCodec> | undefined;
  const loadCodec = (): Promise<DeltaCodec> => (codec ??= loadDeltaCodec());
  const keptRates = async (): Promise<ArchiveRates | undefined> => {
    const found = await files.stat(ratesPath);
    return found?.kind === "file" && found.size < 65_536
      ? decodeRates(await files.read(ratesPath), machine)
      : undefined;
  };
  const measure = async (): Promise<ArchiveRates> => {
    const rates = measureRates(
      await loadCodec(),
      clock,
      await measureDiskUsPerByte(await workFolder(), clock),
    );
    await writeDurably(files, ratesPath, encodeRates(rates, machine));
    return rates;
  };
  const exclusively = async <T>(fleet: string, work: () => Promise<T>): Promise<T> => {
    if (busy.has(fleet))
      throw new StemmaError(
        "QUOTA_EXCEEDED",
        `The storage of ${fleet} is already being planned or rewritten. Wait until that ends, or stop it.`,
        { fleet },
      );
    busy.add(fleet);
    try {
      return await work();
    } finally {
      busy.delete(fleet);
    }
  };
  return {
    plan: (repository, { readBytesPerSecond, measure: mustMeasure = false, ...options }) =>
      exclusively(repository.fleet, async () => {
        const measured = (mustMeasure ? undefined : await keptRates()) ?? (await measure());
        const rates =
          readBytesPerSecond === undefined
            ? measured
            : { ...measured, readUsPerByte: 1e6 / readBytesPerSecond };
        return await planArchive(
          repository.fleet,
          repository,
          { codec: await loadCodec(), rates, clock },
          options,
        );
      }),
    apply: (repository, plan, options) =>
      exclusively(repository.fleet, async () => {
        if (plan.fleet !== repository.fleet)
          throw new StemmaError(
            "PLAN_INVALID",
            `The plan is of the fleet ${plan.fleet}, not of ${repository.fleet}. Name that fleet, or plan this one.`,
            { planned: plan.fleet, fleet: repository.fleet },
          );
        const coder = archiveCoder();
        try {
          return await applyPlan({ target: repository, coder, clock, freeBytes }, plan, options);
        } finally {
          await coder.close();
        }
      }),
  };
}
