/** Routes of evaluations (one answer when it is done; whoever goes away stops it) and of reduced models. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import type { ServerOperations } from "../../operations/operations.js";
import { progressiveLayouts } from "../../progressive/progressive-request.js";
import { modelParams, parse, shortText } from "./input.js";

const evaluation = z.object({ data: shortText, top: z.number().optional(), limit: z.number().optional() });

const progressive = z.object({
  data: shortText,
  tops: z.array(z.number()).max(10).optional(),
  limit: z.number().optional(),
  layout: z.enum(progressiveLayouts).optional(),
  check: z.boolean().optional(),
});

const reduction = z.object({
  scheme: shortText,
  name: shortText,
  seed: shortText.optional(),
  dryRun: z.boolean().optional(),
});

export function addEvaluationRoutes(
  app: FastifyInstance,
  operations: Pick<ServerOperations, "evaluate" | "evaluateProgressively" | "reduce">,
): void {
  app.post("/v1/fleets/:fleet/models/:model/reduce", ({ params, body }) =>
    operations.reduce({ ...parse(modelParams, params), ...parse(reduction, body) }),
  );
  app.post("/v1/fleets/:fleet/models/:model/evaluate", async ({ params, body, raw }, reply) => {
    const request = { ...parse(modelParams, params), ...parse(evaluation, body) };
    return untilGone(raw, reply, (gone) => operations.evaluate(request, gone));
  });
  app.post("/v1/fleets/:fleet/models/:model/evaluate-progressively", async ({ params, body, raw }, reply) => {
    const request = { ...parse(modelParams, params), ...parse(progressive, body) };
    return untilGone(raw, reply, (gone) => operations.evaluateProgressively(request, gone));
  });
}

/** Work that stops when who asked has gone away. */
async function untilGone<T>(
  { socket }: FastifyRequest["raw"],
  reply: FastifyReply,
  work: (gone: AbortSignal) => Promise<T>,
): Promise<T> {
  const gone = new AbortController();
  const leave = (): void => {
    if (!reply.raw.writableEnded) gone.abort();
  };
  socket.once("close", leave);
  try {
    return await work(gone.signal);
  } finally {
    socket.off("close", leave);
  }
}
