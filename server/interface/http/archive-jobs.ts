/** Jobs that plan a fleet's storage or apply such a plan, started over HTTP. */
import type { Caller } from "../../../shared/journal/caller.js";
import type { Clock } from "../../../shared/ports.js";
import type { OperationInput, ServerOperations } from "../api/server-operations.js";
import type { StorageApplied } from "../api/stores/planning-schemas.js";
import type { Grant } from "../api/rights.js";
import type { ArchivePlan } from "../../storage/archive/archive-plan.js";
import type { Asker } from "./caller.js";
import { createJobs, type Jobs } from "./jobs.js";

type ArchiveRequest = Asker & { readonly fleet: string } & (
    | { readonly name: "plan"; readonly input: OperationInput<"planStorage"> }
    | { readonly name: "apply"; readonly input: OperationInput<"applyStorage"> }
  );
type ArchiveAnswer = { readonly plan: ArchivePlan } | { readonly applied: StorageApplied };
export type ArchiveJobs = Jobs<ArchiveRequest, string, ArchiveAnswer>;

export function createArchiveJobs(
  operationsAs: (
    caller: Caller,
    requestId?: string,
    grant?: Grant,
  ) => Pick<ServerOperations, "planStorage" | "applyStorage">,
  clock: Pick<Clock, "now">,
  limits = { running: 4, kept: 16 },
): ArchiveJobs {
  return createJobs<ArchiveRequest, string, ArchiveAnswer>({
    noun: "storage work",
    hint: "What it wrote is complete; `stemma storage apply` resumes from there.",
    clock,
    limits,
    run: async (request, options) => {
      const operations = operationsAs(request.caller, request.requestId, request.grant);
      return request.name === "plan"
        ? { plan: await operations.planStorage(request.input, options) }
        : { applied: await operations.applyStorage(request.input, options) };
    },
  });
}
