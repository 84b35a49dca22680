/**
 * Gives each request its id, and logs what changes something. A client, or a proxy before the server, may choose the
 * id with the header x-request-id; the answer has it in the same header. (docs/operating.md, "Follow one thing")
 */
import type { IncomingMessage } from "node:http";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { randomBytes } from "node:crypto";
import { defined } from "../../../shared/defined.js";
import { describeCaller, type Caller } from "../../../shared/journal/caller.js";
import type { Log } from "../../../shared/ports.js";
import { isRequestId } from "../../../shared/request-id.js";

export const requestHeader = "x-request-id";

/** The id that the client chose, where it is one, else a new one: 64 random bits, hexadecimal. */
export function chooseRequestId({ headers }: Pick<IncomingMessage, "headers">): string {
  const chosen = headers[requestHeader];
  return isRequestId(chosen) ? chosen : randomBytes(8).toString("hex");
}

/** Error codes of requests that were answered with an error, for the log. */
const codes = new WeakMap<IncomingMessage, string>();

/** The request is answered with this error. */
export function noteCode({ raw }: FastifyRequest, code: string): void {
  codes.set(raw, code);
}

const longestUrl = 200;

/**
 * Reading is logged at level debug. Who has no token is not logged: anyone could fill the disk.
 * @param callerBy who sends a request; undefined: nobody that is known
 */
export function logRequests(
  app: FastifyInstance,
  log: Pick<Log, "info" | "debug">,
  callerBy: (request: FastifyRequest) => Caller | undefined,
): void {
  app.addHook("onSend", (request, reply, _payload, done) => {
    void reply.header(requestHeader, request.id);
    done();
  });
  app.addHook("onResponse", (request, reply, done) => {
    const caller = callerBy(request);
    if (caller !== undefined) {
      const isReading = request.method === "GET" || request.method === "HEAD";
      const { fleet } = (request.params ?? {}) as { readonly fleet?: unknown };
      const code = codes.get(request.raw);
      log[isReading ? "debug" : "info"]("http-request", {
        request: request.id,
        ...(typeof fleet === "string" ? { fleet } : {}),
        method: request.method,
        url: request.url.slice(0, longestUrl),
        status: reply.statusCode,
        ...defined({ code }),
        ms: Math.round(reply.elapsedTime),
        by: describeCaller(caller),
      });
    }
    done();
  });
}
