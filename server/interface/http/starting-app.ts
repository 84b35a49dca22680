/**
 * Answers on the HTTP port while a server starts: that it lives, that it is not ready, and how far it is. A home whose
 * index is made again, or that was not closed for long, takes minutes to open.
 */
import Fastify, { type FastifyInstance } from "fastify";
import type { OpeningProgress } from "../../storage/repository/home.js";
import { refuseConnection, secureContextOf, type HttpTls } from "./app.js";
import { errorBodyOf } from "./error-body.js";
import { stillOpening } from "./http-errors.js";
import type { HttpLimits } from "./http-limits.js";

export interface StartingParts {
  readonly limits: HttpLimits;
  readonly tls: HttpTls | undefined;
  /** Returns the progress of the fleet that is being opened; undefined: none is yet. */
  readonly progress: () => OpeningProgress | undefined;
}

/** Seconds after which a client is told to ask again. */
const retryAfterSeconds = 10;

/** All that it answers needs no token, so it states figures and no names. */
export function startingApp({ limits, tls, progress }: StartingParts): FastifyInstance {
  const http = { headersTimeout: limits.headDeadlineMs };
  const app = Fastify({
    logger: false,
    ...(tls === undefined ? { http } : ({ https: { ...http, ...secureContextOf(tls.identity) } } as object)),
    requestTimeout: limits.headDeadlineMs,
    keepAliveTimeout: 1000,
    forceCloseConnections: true,
    clientErrorHandler: refuseConnection,
  });
  app.server.maxConnections = limits.maxConnections;
  app.addHook("onRequest", (_request, reply, done) => {
    void reply.headers({ "cache-control": "no-store", "x-content-type-options": "nosniff" });
    done();
  });
  app.get("/healthz", (_request, reply) => {
    const { code, message } = stillOpening(progress());
    return reply.send({ status: "degraded", problems: [{ code, message }] });
  });
  app.get("/readyz", (_request, reply) =>
    reply.status(503).header("retry-after", retryAfterSeconds).send({ status: "starting" }),
  );
  app.setNotFoundHandler((_request, reply) =>
    reply
      .status(503)
      .header("retry-after", retryAfterSeconds)
      .send(errorBodyOf(stillOpening(progress()))),
  );
  return app;
}
