/** Routes of evaluations (one answer when it is done; whoever goes away stops it) and of reduced models. */
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import type { ServerOperations } from "../../operations/operations.js";
import { modelParams, parse, shortText } from "./input.js";

const evaluation = z.object({ data: shortText, top: z.number().optional(), limit: z.number().optional() });

const reduction = z.object({ scheme: shortText, name: shortText, seed: shortText.optional(), dryRun: z.boolean().optional() });

export function addEvaluationRoutes(app: FastifyInstance, operations: Pick<ServerOperations, "evaluate" | "reduce">): void {
  app.post("/v1/fleets/:fleet/models/:model/reduce", ({ params, body }) => operations.reduce({ ...parse(modelParams, params), ...parse(reduction, body) }));
  app.post("/v1/fleets/:fleet/models/:model/evaluate", async ({ params, body, raw }, reply) => {
    const request = { ...parse(modelParams, params), ...parse(evaluation, body) };
    const gone = new AbortController();
    const leave = (): void => { if (!reply.raw.writableEnded) gone.abort(); };
    raw.socket.once("close", leave);
    try { return await operations.evaluate(request, gone.signal); } finally { raw.socket.off("close", leave); }
  });
}
