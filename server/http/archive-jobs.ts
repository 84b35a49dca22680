/** Plans of a fleet's storage, and their application, started over HTTP. */
import type { Clock } from "../../shared/ports.js";
import type {
  ServerOperations,
  StorageApplied,
  StorageApplyOptions,
  StoragePlanOptions,
} from "../operations/operations.js";
import type { ArchivePlan } from "../archive/archive-plan.js";
import { startJobs, type Job, type Jobs } from "./jobs.js";

export type ArchiveRequest = { readonly fleet: string } & (
  | { readonly name: "plan"; readonly options: StoragePlanOptions }
  | { readonly name: "apply"; readonly options: StorageApplyOptions }
);
export type ArchiveAnswer = { readonly plan: ArchivePlan } | { readonly applied: StorageApplied };
export type ArchiveJob = Job<string, ArchiveAnswer>;
export type ArchiveJobs = Jobs<ArchiveRequest, string, ArchiveAnswer>;

export function archiveJobs(
  operations: Pick<ServerOperations, "planStorage" | "applyStorage">,
  clock: Pick<Clock, "now">,
  limits = { running: 4, kept: 16 },
): ArchiveJobs {
  return startJobs<ArchiveRequest, string, ArchiveAnswer>({
    what: "storage work",
    hint: "What it wrote is whole; `stemma storage apply` goes on from there.",
    clock,
    limits,
    run: async (request, onProgress, signal) =>
      request.name === "plan"
        ? { plan: await operations.planStorage(request.fleet, request.options, onProgress, signal) }
        : { applied: await operations.applyStorage(request.fleet, request.options, onProgress, signal) },
  });
}
