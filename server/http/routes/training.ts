/** Routes of trainings on the server: start one, ask how it goes, stop it. */
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import type { TrainJobs } from "../train-jobs.js";
import { fleetParams, parse, shortText, typedValues } from "./input.js";

const training = z.object({
  recipe: shortText,
  data: z.string().min(1).max(4096),
  name: shortText,
  base: z.string().min(1).max(512).optional(),
  parameters: typedValues.optional(),
  seed: z
    .string()
    .regex(/^\d{1,20}$/, "is no whole number")
    .optional(),
});
const jobParams = z.object({ fleet: shortText, job: shortText });

export function addTrainingRoutes(app: FastifyInstance, jobs: TrainJobs): void {
  app.post("/v1/fleets/:fleet/train", async ({ params, body }, reply) =>
    reply.status(202).send(jobs.start({ fleet: parse(fleetParams, params).fleet, ...parse(training, body) })),
  );
  app.get("/v1/fleets/:fleet/train", async ({ params }) => jobs.list(parse(fleetParams, params).fleet));
  app.get("/v1/fleets/:fleet/train/:job", async ({ params }) => {
    const { fleet, job } = parse(jobParams, params);
    return jobs.get(fleet, job);
  });
  app.delete("/v1/fleets/:fleet/train/:job", async ({ params }) => {
    const { fleet, job } = parse(jobParams, params);
    return jobs.cancel(fleet, job);
  });
}
