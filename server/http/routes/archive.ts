/** Routes of the storage planner: start a plan or an application, ask how it goes, stop it. */
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { archiveLayouts, maxPlanBytes, readArchivePlan } from "../../archive/archive-plan.js";
import { planningSchemes } from "../../planner/retrieval.js";
import type { ArchiveJobs } from "../archive-jobs.js";
import { fleetParams, parse, shortText } from "./input.js";

const planOptions = {
  ratio: z.number().min(1).max(1e6).nullable(),
  scheme: z.enum(planningSchemes).optional(),
  layout: z.enum(archiveLayouts).optional(),
  timeLimitMs: z.number().int().min(1).max(3_600_000).optional(),
  readBytesPerSecond: z.number().positive().max(1e15).optional(),
  measure: z.boolean().optional(),
};
const planRequest = z.object(planOptions);
const applyRequest = z.object({
  ...planOptions,
  plan: z.unknown().optional(),
  diskBytes: z.number().int().positive().optional(),
  timeMs: z.number().int().positive().optional(),
  dryRun: z.boolean().optional(),
});
const jobParams = z.object({ fleet: shortText, job: shortText });

export function addArchiveRoutes(app: FastifyInstance, jobs: ArchiveJobs): void {
  const prefix = "/v1/fleets/:fleet/storage";
  app.post(`${prefix}/plan`, async ({ params, body }, reply) =>
    reply.status(202).send(
      jobs.start({
        fleet: parse(fleetParams, params).fleet,
        name: "plan",
        options: parse(planRequest, body),
      }),
    ),
  );
  // A plan names every tensor: its body may be long.
  app.post(`${prefix}/apply`, { bodyLimit: maxPlanBytes }, async ({ params, body }, reply) => {
    const { plan, ...options } = parse(applyRequest, body);
    return reply.status(202).send(
      jobs.start({
        fleet: parse(fleetParams, params).fleet,
        name: "apply",
        options: {
          ...options,
          ...(plan === undefined || plan === null ? {} : { plan: readArchivePlan(plan) }),
        },
      }),
    );
  });
  app.get(`${prefix}/jobs/:job`, async ({ params }) => {
    const { fleet, job } = parse(jobParams, params);
    return jobs.get(fleet, job);
  });
  app.delete(`${prefix}/jobs/:job`, async ({ params }) => {
    const { fleet, job } = parse(jobParams, params);
    return jobs.cancel(fleet, job);
  });
}
