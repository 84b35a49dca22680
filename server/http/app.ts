/**
 * The HTTP interface: the operations as JSON routes, one application for TCP (bearer token) and one for
 * the local socket (trusted by the socket file's permission). Limits bodies and times; turns typed
 * errors into answers. Knows the operations, not what is behind them.
 */
import Fastify, { type FastifyInstance } from "fastify";
import type { Registry } from "prom-client";
import { StemmaError } from "../../shared/errors.js";
import type { Log } from "../../shared/ports.js";
import type { ServerOperations } from "../api/server-operations.js";
import { programVersion } from "../../shared/adapters/program-version.js";
import { describeApi } from "../api/api-description.js";
import { importContentType } from "../api/model-definitions.js";
import { operationTable } from "../api/operation-table.js";
import { errorBodyOf, httpStatusOf } from "./error-body.js";
import { addCallRoutes } from "./routes/calls.js";
import { addArchiveRoutes, addTrainRoutes } from "./routes/jobs.js";
import { addStreamRoutes } from "./routes/streams.js";
import type { ArchiveJobs } from "./archive-jobs.js";
import { bearerMatches } from "./token.js";
import type { TrainJobs } from "./train-jobs.js";

export interface HttpParts {
  readonly operations: ServerOperations;
  readonly jobs: TrainJobs;
  readonly archiveJobs: ArchiveJobs;
  readonly metrics: Registry;
  readonly log: Log;
  /** Aborts when the server stops: ends event streams. */
  readonly stopping: AbortSignal;
}

/**
 * The longest a request's body may take to arrive: an import of a large model over a thin line. Its head has
 * the HTTP server's own 60 s.
 */
const longestRequestMs = 60 * 60_000;
/** Connections open at a time; event streams count. */
const maxConnections = 1024;

/**
 * @param access "trusted" for the local socket, else the bearer token that every route but /v1/health asks
 * for
 */
export function buildHttpApp(
  parts: HttpParts,
  access: "trusted" | { readonly token: string },
): FastifyInstance {
  const app = Fastify({
    logger: false,
    bodyLimit: 1024 * 1024,
    connectionTimeout: 0,
    requestTimeout: longestRequestMs,
    keepAliveTimeout: 5_000,
    forceCloseConnections: true,
    routerOptions: { maxParamLength: 512 },
  });
  app.server.maxConnections = maxConnections;
  // Bodies are JSON, or streams that their route reads itself.
  app.addContentTypeParser(["application/octet-stream", importContentType], (_request, payload, done) =>
    done(null, payload),
  );
  if (access !== "trusted") {
    app.addHook("onRequest", (request, _reply, done) => {
      const isOpen = request.routeOptions.url === operationTable.health.path;
      if (isOpen || bearerMatches(request.headers.authorization, access.token)) {
        done();
        return;
      }
      done(
        new StemmaError(
          "TOKEN_INVALID",
          "This server's HTTP port asks for its bearer token. It is in the file http-token of the server's home; give it in STEMMA_TOKEN, or work on the server's own machine with --home.",
        ),
      );
    });
  }
  app.setErrorHandler((error: Error & { statusCode?: number }, request, reply) => {
    // fastify's own refusals (malformed JSON, a body over the limit) are the client's fault; everything else
    // untyped is ours.
    const status = error.statusCode ?? 500;
    const shown =
      error instanceof StemmaError || status >= 500
        ? error
        : new StemmaError(
            status === 413 ? "SIZE_OVER_LIMIT" : "HTTP_REQUEST_INVALID",
            `${error.message}. Correct the request and send it again.`,
            {},
          );
    if (httpStatusOf(shown) >= 500)
      parts.log.error("http-failed", {
        method: request.method,
        url: request.url,
        message: error.message,
        stack: error.stack,
      });
    if (!reply.sent) void reply.status(httpStatusOf(shown)).send(errorBodyOf(shown));
  });
  app.setNotFoundHandler((request, reply) => {
    void reply
      .status(404)
      .send(
        errorBodyOf(
          new StemmaError(
            "NOT_FOUND",
            `There is nothing at ${request.method} ${request.url.slice(0, 200)}. Routes begin with /v1/.`,
          ),
        ),
      );
  });
  // A client without the token learns that the server runs, not where or what.
  app.get(operationTable.health.path, async (request) => {
    const health = await parts.operations.health();
    return access === "trusted" || bearerMatches(request.headers.authorization, access.token)
      ? health
      : { version: health.version };
  });
  app.get("/metrics", async (_request, reply) => {
    const text = await parts.metrics.metrics();
    return reply.type(parts.metrics.contentType).send(text);
  });
  const description = JSON.stringify(describeApi(programVersion()));
  app.get("/openapi.json", (_request, reply) => reply.type("application/json").send(description));
  addCallRoutes(app, parts.operations);
  addArchiveRoutes(app, parts.archiveJobs);
  addTrainRoutes(app, parts.jobs);
  addStreamRoutes(app, parts.operations, parts.stopping);
  return app;
}
