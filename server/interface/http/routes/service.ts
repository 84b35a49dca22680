/** Routes about the server itself: a page for browsers, probes, health, metrics, the API description. */
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Registry } from "prom-client";
import { programVersion } from "../../../../shared/adapters/program-version.js";
import { describeApi } from "../../api/api-description.js";
import type { serverCondition } from "../../api/devices/device-schemas.js";
import type { ValueOf } from "../../api/operation.js";
import { operationTable } from "../../api/operation-table.js";
import type { ServerOperations } from "../../api/server-operations.js";
import { addTryPage, tryPagePaths } from "../try-page.js";
import { welcomePage } from "../welcome-page.js";

/** A problem that keeps the server from doing all of its work. Answered without a token, so it reveals nothing else. */
export type ServerProblem = ValueOf<typeof serverCondition>["problems"][number];

export interface ServiceParts {
  readonly operations: Pick<ServerOperations, "health">;
  readonly metrics: Registry;
  /** Lists the server's present problems. */
  readonly problems: () => Promise<readonly ServerProblem[]>;
  /** Aborts when the server stops. */
  readonly stopping: AbortSignal;
}

/** Paths that need no token. */
export const publicPaths: ReadonlySet<string> = new Set([
  "/",
  ...tryPagePaths,
  "/healthz",
  "/readyz",
  operationTable.health.path,
  // What it asks for proves itself: a device has no token.
  operationTable.certify.path,
]);

/** @param isKnown whether a request may learn more than that the server runs */
export function addServiceRoutes(
  app: FastifyInstance,
  { operations, metrics, problems, stopping }: ServiceParts,
  isKnown: (request: FastifyRequest) => boolean,
): void {
  app.get("/", (request, reply) =>
    reply
      .headers({
        "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
      })
      .type("text/html; charset=utf-8")
      .send(welcomePage(request.protocol)),
  );
  addTryPage(app);
  app.get("/healthz", async (_request, reply) => {
    const found = await problems();
    return reply
      .header("cache-control", "no-store")
      .send({ status: found.length === 0 ? "ok" : "degraded", problems: found });
  });
  app.get("/readyz", (_request, reply) =>
    reply
      .header("cache-control", "no-store")
      .status(stopping.aborted ? 503 : 200)
      .send({ status: stopping.aborted ? "stopping" : "ready" }),
  );
  // A client without the token learns that the server runs, but not where or with what.
  app.get(operationTable.health.path, async (request) => {
    const health = await operations.health();
    return isKnown(request) ? health : { version: health.version };
  });
  app.get("/metrics", async (_request, reply) => {
    const text = await metrics.metrics();
    return reply.type(metrics.contentType).send(text);
  });
  app.get("/openapi.json", (_request, reply) => reply.type("application/json").send(apiDescription()));
}

/** Made at the first request: making it takes a quarter of a server's start, and few servers are asked. */
let description: string | undefined;
function apiDescription(): string {
  return (description ??= JSON.stringify(describeApi(programVersion())));
}
