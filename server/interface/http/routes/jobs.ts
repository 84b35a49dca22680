/** Routes of long jobs: start one, ask for its state, stop it. */
import type { FastifyInstance, FastifyRequest } from "fastify";
import * as z from "zod";
import type { Caller } from "../../../../shared/journal/caller.js";
import { fleetParams, jobParams } from "../../api/fields.js";
import { operationTable } from "../../api/operation-table.js";
import { maxPlanBytes, readArchivePlan } from "../../../storage/archive/archive-plan.js";
import type { ArchiveJobs } from "../archive-jobs.js";
import type { Jobs } from "../jobs.js";
import { parse, readInput } from "../read-input.js";
import type { TrainJobs } from "../train-jobs.js";

/** Finds the caller of a request. */
type CallerBy = (request: FastifyRequest) => Caller;

export function addTrainRoutes(app: FastifyInstance, jobs: TrainJobs, callerBy: CallerBy): void {
  const { train } = operationTable;
  app.post(train.path, (request, reply) =>
    reply
      .status(202)
      .send(jobs.start({ ...readInput(train, request), caller: callerBy(request), requestId: request.id })),
  );
  app.get(train.jobsPath, ({ params }, reply) =>
    reply.send(jobs.list(parse(z.object(fleetParams), params).fleet)),
  );
  addJobRoutes(app, train.jobsPath, jobs);
}

export function addArchiveRoutes(app: FastifyInstance, jobs: ArchiveJobs, callerBy: CallerBy): void {
  const { planStorage, applyStorage } = operationTable;
  app.post(planStorage.path, (request, reply) => {
    const input = readInput(planStorage, request);
    return reply.status(202).send(
      jobs.start({
        name: "plan",
        fleet: input.fleet,
        input,
        caller: callerBy(request),
        requestId: request.id,
      }),
    );
  });
  app.post(applyStorage.path, { bodyLimit: maxPlanBytes }, (request, reply) => {
    const { plan, ...options } = readInput(applyStorage, request);
    const input = plan === undefined || plan === null ? options : { ...options, plan: readArchivePlan(plan) };
    return reply.status(202).send(
      jobs.start({
        name: "apply",
        fleet: input.fleet,
        input,
        caller: callerBy(request),
        requestId: request.id,
      }),
    );
  });
  addJobRoutes(app, planStorage.jobsPath, jobs);
}

function addJobRoutes<Request, Progress, Report>(
  app: FastifyInstance,
  jobsPath: string,
  jobs: Jobs<Request, Progress, Report>,
): void {
  const path = `${jobsPath}/:job`;
  app.get(path, ({ params }, reply) => {
    const { fleet, job } = parse(jobParams, params);
    return reply.send(jobs.get(fleet, job));
  });
  app.delete(path, ({ params }, reply) => {
    const { fleet, job } = parse(jobParams, params);
    return reply.send(jobs.cancel(fleet, job));
  });
}
