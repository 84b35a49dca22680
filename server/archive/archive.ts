/**
 * The archive of a home's fleets: plans and applies, one at a time in a fleet. What it measures of the
 * machine it measures once and keeps: plans made by other figures every time would move tensors to and fro.
 * The shell around the parts beside it.
 */
import { StemmaError } from "../../shared/errors.js";
import type { DeltaCodec } from "../../shared/delta/codec.js";
import { loadDeltaCodec } from "../../shared/delta/load.js";
import { writeDurably } from "../../shared/files/durable-write.js";
import type { Clock, Files } from "../../shared/ports.js";
import type { FleetRepository } from "../repository/fleet-repository.js";
import { applyPlan, type ApplyOptions, type ApplyReport } from "./apply-plan.js";
import type { ArchivePlan } from "./archive-plan.js";
import { decodeRates, encodeRates, measureRates, type ArchiveRates } from "./archive-rates.js";
import { measureDiskUsPerByte } from "./measure-disk.js";
import { planArchive, type PlanArchiveOptions } from "./plan-archive.js";
import { archiveCoder } from "./archive-coder.js";

export interface ArchivePorts {
  readonly clock: Clock;
  readonly files: Files;
  /** A folder on the stores' disk for what is measured; it exists when it is asked for. */
  readonly workFolder: () => Promise<string>;
  /** Where measured rates are kept; disposable. */
  readonly ratesPath: string;
  /** Names the machine: rates of another are not used. */
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
  const kept = async (): Promise<ArchiveRates | undefined> => {
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
  const alone = async <T>(fleet: string, work: () => Promise<T>): Promise<T> => {
    if (busy.has(fleet))
      throw new StemmaError(
        "QUOTA_EXCEEDED",
        `The storage of ${fleet} is being planned or written anew already. Wait for that to end, or stop it.`,
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
    plan: (repository, { readBytesPerSecond, measure: anew = false, ...options }) =>
      alone(repository.fleet, async () => {
        const measured = (anew ? undefined : await kept()) ?? (await measure());
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
      alone(repository.fleet, async () => {
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
