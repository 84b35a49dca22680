/** Operations that plan how a fleet's models are stored, and store them so. */
import * as z from "zod";
import { maxPlanBytes } from "../../../storage/archive/archive-plan.js";
import { fleetParams, storagePath } from "../fields.js";
import { job } from "../operation.js";
import { archivePlan, storageApplied, storageApplyBody, storagePlanPartBody } from "./planning-schemas.js";

export const planningOperations = {
  planStorage: job({
    summary:
      "How everything could be stored in less within a budget of what recoveries cost; changes nothing",
    path: `${storagePath}/plan`,
    right: "change-storage",
    jobsPath: `${storagePath}/jobs`,
    params: fleetParams,
    body: storagePlanPartBody,
    progress: z.string(),
    report: z.object({ plan: archivePlan }),
  }),
  applyStorage: job({
    summary: "Store everything as planned while everything else goes on; one that was stopped can be resumed",
    path: `${storagePath}/apply`,
    right: "change-storage",
    jobsPath: `${storagePath}/jobs`,
    params: fleetParams,
    body: storageApplyBody,
    maxBodyBytes: maxPlanBytes,
    progress: z.string(),
    report: z.object({ applied: storageApplied }),
  }),
};
