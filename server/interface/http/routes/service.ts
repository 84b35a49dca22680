/** Routes about the server itself: a page for browsers, probes, health, metrics, the API description. */
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Registry } from "prom-client";
import { programVersion } from "../../../../shared/adapters/program-version.js";
import { describeApi } from "../../api/api-description.js";
import type { serverCondition } from "../../api/devices/device-schemas.js";
import type { OperationDefinition, ValueOf } from "../../api/operation.js";
import { operationTable } from "../../api/operation-table.js";
import type { Grant } from "../../api/rights.js";
import type { OperationsFor } from "./calls.js";
import { addTryPage, tryPagePaths } from "../try-page.js";
import { welcomePage } from "../welcome-page.js";

/** A problem that keeps the server from doing all of its work. Answered without a token, so it reveals nothing else. */
export type ServerProblem = ValueOf<typeof serverCondition>["problems"][number];

export interface ServiceParts {
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
  ...Object.values<OperationDefinition>(operationTable)
    .filter(({ right }) => right === null)
    .map(({ path }) => path),
]);

/** The sender of a request. */
interface Askers {
  /** True if a request may learn more than that the server runs. */
  readonly isKnown: (request: FastifyRequest) => boolean;
  readonly grantOf: (request: FastifyRequest) => Grant | undefined;
  readonly operationsFor: OperationsFor;
}

export function addServiceRoutes(
  app: FastifyInstance,
  { metrics, problems, stopping }: ServiceParts,
  { isKnown, grantOf, operationsFor }: Askers,
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
    const health = await operationsFor(request).health();
    return isKnown(request) ? health : { version: health.version };
  });
  app.get("/metrics", async (request, reply) => {
    const text = metricsOf(await metrics.metrics(), grantOf(request));
    return reply.type(metrics.contentType).send(text);
  });
  app.get("/openapi.json", (_request, reply) => reply.type("application/json").send(apiDescription()));
}

/** The lines that a scoped token gets: figures without a fleet are of all fleets together. */
function metricsOf(text: string, { fleets }: Partial<Grant> = {}): string {
  if (fleets === undefined) return text;
  const isShown = (line: string): boolean =>
    // Quotes within a label's value are escaped, so no other label's value looks like this one.
    line === "" || line.startsWith("#") || fleets.includes(/[{,]fleet="([^"]*)"/.exec(line)?.[1] ?? "");
  return text.split("\n").filter(isShown).join("\n");
}

/** Made at the first request: making it takes a quarter of a server's start, and few servers are asked. */
let description: string | undefined;
function apiDescription(): string {
  return (description ??= JSON.stringify(describeApi(programVersion())));
}
