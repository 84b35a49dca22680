/** Routes of long jobs: start one, ask for its state, stop it. */
import type { FastifyInstance, FastifyRequest } from "fastify";
import * as z from "zod";
import { fleetParams, jobParams } from "../../api/fields.js";
import { operationTable } from "../../api/operation-table.js";
import { maxPlanBytes, readArchivePlan } from "../../../storage/archive/archive-plan.js";
import type { ArchiveJobs } from "../archive-jobs.js";
import type { Asker } from "../caller.js";
import type { Jobs } from "../jobs.js";
import { parse, readInput } from "../read-input.js";
import type { EnumerationJobs, TrainJobs } from "../train-jobs.js";

/** Finds who sends a request. */
type AskerBy = (request: FastifyRequest) => Asker;

export function addTrainRoutes(app: FastifyInstance, jobs: TrainJobs, askerBy: AskerBy): void {
  const { train } = operationTable;
  app.post(train.path, (request, reply) =>
    reply.status(202).send(jobs.start({ ...readInput(train, request), ...askerBy(request) })),
  );
  app.get(train.jobsPath, ({ params }, reply) =>
    reply.send(jobs.list(parse(z.object(fleetParams), params).fleet)),
  );
  addJobRoutes(app, train.jobsPath, jobs);
}

export function addEnumerationRoutes(app: FastifyInstance, jobs: EnumerationJobs, askerBy: AskerBy): void {
  const { evaluateQuery } = operationTable;
  app.post(evaluateQuery.path, (request, reply) => {
    const input = readInput(evaluateQuery, request);
    return reply
      .status(202)
      .send(jobs.start({ name: "query", fleet: input.fleet, input, ...askerBy(request) }));
  });
  addJobRoutes(app, evaluateQuery.jobsPath, jobs);
}

export function addArchiveRoutes(app: FastifyInstance, jobs: ArchiveJobs, askerBy: AskerBy): void {
  const { planStorage, applyStorage } = operationTable;
  app.post(planStorage.path, (request, reply) => {
    const input = readInput(planStorage, request);
    return reply
      .status(202)
      .send(jobs.start({ name: "plan", fleet: input.fleet, input, ...askerBy(request) }));
  });
  app.post(applyStorage.path, { bodyLimit: maxPlanBytes }, (request, reply) => {
    const { plan, ...options } = readInput(applyStorage, request);
    const input = plan === undefined || plan === null ? options : { ...options, plan: readArchivePlan(plan) };
    return reply
      .status(202)
      .send(jobs.start({ name: "apply", fleet: input.fleet, input, ...askerBy(request) }));
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
