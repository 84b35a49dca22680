/**
 * Serves the operations as JSON routes over HTTP. One application is for TCP (bearer token) and one for the
 * local socket (trusted by the socket file's permission). Limits the size and time of requests, and turns
 * typed errors into answers. Uses the operations only through their interface.
 */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { SecureContextOptions, Server as TlsServer } from "node:tls";
import Fastify, {
  type ConnectionError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from "fastify";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { nameMissingDescriptors } from "../../../shared/connection-error.js";
import type { Caller } from "../../../shared/journal/caller.js";
import type { Log } from "../../../shared/ports.js";
import type { ServerOperations } from "../api/server-operations.js";
import { bundleContentType } from "../api/models/bundle-definitions.js";
import { importContentType } from "../api/models/model-definitions.js";
import type { OperationDefinition } from "../api/operation.js";
import { operationTable } from "../api/operation-table.js";
import type { Grant } from "../api/rights.js";
import { callerOf, type Asker } from "./caller.js";
import { addressGroupOf } from "../../access/broker/unknown-connections.js";
import { ConnectionGuard } from "./connection-guard.js";
import { tokenMissing, tooManyCertificates } from "./http-errors.js";
import { defaultHttpLimits, type HttpLimits } from "./http-limits.js";
import { chooseRequestId, logRequests, noteCode, requestHeader } from "./request-log.js";
import { RequestQuota } from "./request-quota.js";
import { errorBodyOf, httpStatusOf } from "./error-body.js";
import { addCallRoutes } from "./routes/calls.js";
import { addArchiveRoutes, addEnumerationRoutes, addTrainRoutes } from "./routes/jobs.js";
import { addServiceRoutes, publicPaths, type ServiceParts } from "./routes/service.js";
import { addBundleRoutes } from "./routes/bundles.js";
import { addStreamRoutes } from "./routes/streams.js";
import type { ArchiveJobs } from "./archive-jobs.js";
import { requireGrant, type TokenBearer, type TokenReader } from "./tokens.js";
import type { EnumerationJobs, TrainJobs } from "./train-jobs.js";

export interface HttpParts extends ServiceParts {
  /** The operations as a caller uses them, by the request of this id. */
  readonly operationsAs: (caller: Caller, request: string, grant?: Grant) => ServerOperations;
  readonly jobs: TrainJobs;
  readonly enumerationJobs: EnumerationJobs;
  readonly archiveJobs: ArchiveJobs;
  readonly log: Log;
}

/** Time limit for the arrival of a request's body: importing a large model over a slow connection takes long. */
const requestTimeoutMs = 60 * 60_000;
/** Milliseconds between two checks for requests that did not arrive in time. */
const deadlineCheckMs = 1_000;

/** "trusted" for the local socket; otherwise the bearer tokens that all but the public routes require. */
export type Access = "trusted" | { readonly tokens: TokenReader };

export interface HttpAccess {
  readonly access: Access;
  readonly limits?: HttpLimits;
  /** The certificate and key with which the port speaks HTTPS. */
  readonly tls?: HttpTls | undefined;
}

/** The port's key and certificate, PEM. */
export interface HttpTls {
  readonly identity: { readonly key: string; readonly cert: string };
  /** Calls `use` with each newer certificate. */
  onRenewed(use: (renewed: { readonly key: string; readonly cert: string }) => void): void;
}

/**
 * Input is checked by the table's own schemas (read-input.ts). Without these, fastify loads its compilers of JSON
 * Schema, 240 files, at every start.
 */
const noCompilers = {
  buildValidator: () => refuseSchema,
  buildSerializer: () => refuseSchema,
};
function refuseSchema(): never {
  throw new StemmaError(
    "INTERNAL",
    "A route has a JSON Schema of its own. Check its input with read-input.ts.",
  );
}

export function buildHttpApp(
  parts: HttpParts,
  { access, limits = defaultHttpLimits, tls }: HttpAccess,
): FastifyInstance {
  const http = { headersTimeout: limits.headDeadlineMs, connectionsCheckingInterval: deadlineCheckMs };
  const app = Fastify({
    logger: false,
    genReqId: chooseRequestId,
    ...(tls === undefined ? { http } : ({ https: { ...http, ...secureContextOf(tls.identity) } } as object)),
    bodyLimit: 1024 * 1024,
    connectionTimeout: 0,
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: 5_000,
    forceCloseConnections: true,
    routerOptions: { maxParamLength: 512 },
    schemaController: { compilersFactory: noCompilers },
    // Refusals before any route is found do not pass the error handler.
    frameworkErrors: (error, request, reply) => {
      sendError(request, reply, typedErrorOf(error));
    },
    clientErrorHandler: refuseConnection,
  });
  app.server.maxConnections = limits.maxConnections;
  tls?.onRenewed((renewed) => {
    (app.server as unknown as TlsServer).setSecureContext(secureContextOf(renewed));
  });
  // Bodies are JSON, or streams that their route reads itself.
  app.addContentTypeParser(
    ["application/octet-stream", importContentType, bundleContentType],
    (_request, payload, done) => done(null, payload),
  );
  if (access !== "trusted") {
    requireToken(app, access.tokens, new ConnectionGuard(app.server, limits));
    boundCertificateRequests(app, new RequestQuota(limits.certificateRequestsPerMinute));
  }
  addErrorHandlers(app, parts.log);
  // Names and labels that devices and people chose are in answers: no browser takes one for something else than JSON.
  app.addHook("onSend", (_request, reply, _payload, done) => {
    void reply.header("x-content-type-options", "nosniff");
    done();
  });
  const callerBy = ({ raw, headers }: FastifyRequest): Caller => {
    const bearer = bearers.get(raw);
    return access !== "trusted" && bearer === undefined ? withoutToken : callerOf(bearer, headers);
  };
  const isKnown = ({ raw }: FastifyRequest): boolean => access === "trusted" || bearers.has(raw);
  logRequests(app, parts.log, (request) => (isKnown(request) ? callerBy(request) : undefined));
  const grantOf = ({ raw }: FastifyRequest): Grant | undefined => bearers.get(raw);
  const operationsFor = (request: FastifyRequest): ServerOperations =>
    parts.operationsAs(callerBy(request), request.id, grantOf(request));
  addServiceRoutes(app, parts, { isKnown, grantOf, operationsFor });
  addCallRoutes(app, operationsFor);
  const askerBy = (request: FastifyRequest): Asker => ({
    caller: callerBy(request),
    grant: grantOf(request),
    requestId: request.id,
  });
  addEnumerationRoutes(app, parts.enumerationJobs, askerBy);
  addArchiveRoutes(app, parts.archiveJobs, askerBy);
  addTrainRoutes(app, parts.jobs, askerBy);
  addBundleRoutes(app, operationsFor);
  addStreamRoutes(app, operationsFor, {
    stopping: parts.stopping,
    mayNameFiles: access === "trusted",
    mayGoOn: async ({ headers }) =>
      access === "trusted" || (await access.tokens.find(headers.authorization)) !== undefined,
  });
  return app;
}

export function secureContextOf({ key, cert }: HttpTls["identity"]): SecureContextOptions {
  return { key, cert, minVersion: "TLSv1.2" };
}

/** Answers bytes that are not an HTTP request within its limits, and closes the connection. */
export function refuseConnection(error: ConnectionError, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const [status, answered] = connectionErrors[error.code] ?? [
    "400 Bad Request",
    new StemmaError(
      "HTTP_REQUEST_INVALID",
      "This is not a valid HTTP request. Correct it and send it again.",
    ),
  ];
  const body = JSON.stringify(errorBodyOf(answered));
  socket.end(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}

const connectionErrors: Readonly<Record<string, readonly [status: string, error: StemmaError]>> = {
  HPE_HEADER_OVERFLOW: [
    "431 Request Header Fields Too Large",
    new StemmaError("SIZE_OVER_LIMIT", "The request's address and headers are too long. Shorten them."),
  ],
  ERR_HTTP_REQUEST_TIMEOUT: [
    "408 Request Timeout",
    new StemmaError("TIMED_OUT", "The request did not arrive in time. Send it again."),
  ],
};

/** The caller of what needs no token, whatever they call themselves. */
const withoutToken: Caller = { who: "without token", through: "http" };

/** The bearers of the tokens that requests carry. */
const bearers = new WeakMap<IncomingMessage, TokenBearer>();

/** Refuses requests without a token, except for the public routes, and what the token does not allow. */
function requireToken(app: FastifyInstance, tokens: TokenReader, guard: ConnectionGuard): void {
  app.addHook("onRequest", async (request) => {
    const isPublic = publicPaths.has(request.routeOptions.url ?? "");
    const bearer = await tokens.find(request.headers.authorization).catch((error: unknown) => {
      if (isPublic) return undefined;
      throw error;
    });
    if (bearer !== undefined) {
      guard.recognise(request.raw.socket);
      bearers.set(request.raw, bearer);
    }
    if (isPublic) return;
    if (bearer === undefined) throw tokenMissing();
    const needs = needsOf(request);
    const { fleet } = (needs.scoped === "own" ? request.query : request.params) as {
      readonly fleet?: string;
    };
    requireGrant(bearer, needs, fleet);
  });
}

/** Asking for a certificate needs no token and takes work. */
function boundCertificateRequests(app: FastifyInstance, quota: RequestQuota): void {
  app.addHook("onRequest", ({ routeOptions: { url }, raw: { socket } }, _reply, done) => {
    const isBounded = url === operationTable.certify.path;
    const address = addressGroupOf(socket.remoteAddress ?? "unknown");
    const waitMs = isBounded ? quota.waitMs(address, performance.now()) : 0;
    if (waitMs === 0) done();
    else done(tooManyCertificates(waitMs));
  });
}

type Needs = Pick<OperationDefinition, "right" | "scoped">;

/** The needs of each route of the table, by method and path. Jobs are polled with GET and stopped with DELETE. */
const needsByRoute: ReadonlyMap<string, Needs> = new Map(
  Object.values(operationTable).flatMap((definition: OperationDefinition) => [
    [`${definition.method} ${definition.path}`, definition],
    ...(definition.kind === "job"
      ? ([
          [`GET ${definition.jobsPath}`, { right: "read" }],
          [`GET ${definition.jobsPath}/:job`, { right: "read" }],
          [`DELETE ${definition.jobsPath}/:job`, { right: definition.right }],
        ] as const)
      : []),
  ]),
);

/** The metrics and the API description, of which a token that is scoped gets what is of its fleets, or of none. */
const needsOfOthers: Needs = { right: "read", scoped: "own" };

function needsOf({ method, routeOptions: { url } }: FastifyRequest): Needs {
  // HEAD is answered as GET; nothing is at a path that is not known.
  return needsByRoute.get(`${method === "HEAD" ? "GET" : method} ${url ?? ""}`) ?? needsOfOthers;
}

function addErrorHandlers(app: FastifyInstance, log: Log): void {
  app.setErrorHandler((error: Error & { statusCode?: number }, request, reply) => {
    const answered = nameMissingDescriptors(typedErrorOf(error));
    if (httpStatusOf(answered) >= 500) logFailure(log, request, answered);
    if (!reply.sent) sendError(request, reply, answered);
  });
  app.setNotFoundHandler((request, reply) => {
    const error = new StemmaError(
      "NOT_FOUND",
      `There is nothing at ${request.method} ${request.url.slice(0, 200)}. Routes begin with /v1/.`,
    );
    sendError(request, reply, error);
  });
}

/** A typed error explains itself; the cause of any other is in its stack. */
function logFailure(log: Log, { id: request, method, url }: FastifyRequest, error: Error): void {
  const { message, stack } = error;
  if (isStemmaError(error) && error.code !== "INTERNAL")
    log.warn("http-failed", { request, method, url, code: error.code, message });
  else log.error("http-failed", { request, method, url, message, stack });
}

function sendError(request: FastifyRequest, reply: FastifyReply, error: Error): void {
  const body = errorBodyOf(error);
  noteCode(request, body.code);
  void reply.header(requestHeader, request.id);
  const status = httpStatusOf(error);
  if (retryStatuses.has(status)) void reply.header("retry-after", retryAfterSeconds);
  void reply.status(status).send(body);
}

/** Statuses after which the same request may succeed later: too many, unavailable, disk full. */
const retryStatuses: ReadonlySet<number> = new Set([429, 503, 507]);
const retryAfterSeconds = 30;

/**
 * Fastify's own refusals (malformed JSON, a body over the limit) are the client's fault and become typed
 * errors. Every other untyped error is the server's fault and stays as it is.
 */
function typedErrorOf(error: Error & { statusCode?: number }): Error {
  const status = error.statusCode ?? 500;
  if (error instanceof StemmaError || status >= 500) return error;
  return new StemmaError(
    status === 413 ? "SIZE_OVER_LIMIT" : "HTTP_REQUEST_INVALID",
    `${error.message}. Correct the request and send it again.`,
  );
}
