/**
 * Requests to a Stemma server, over TCP or its local socket, with bodies as streams. Turns failures into
 * typed errors. Does not know the operations.
 */
import { Agent, request as httpRequest, type ClientRequest, type IncomingMessage } from "node:http";
import { pipeline } from "node:stream";
import type { ConnectionOptions } from "node:tls";
import { connectionError } from "../../../shared/connection-error.js";
import { defined } from "../../../shared/defined.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { userHeader } from "./caller.js";
import { errorOfAnswer } from "./error-body.js";
import { answerBrokeOff, answerTooLong, certificateNotTrusted, notOfThisVersion } from "./http-errors.js";

/** Time limit for answers of operations that work for minutes. */
export const longMs = 30 * 60_000;

/** The address of a server: its local socket, or a URL with its bearer token. */
export interface ServerAddress {
  readonly socketPath?: string | undefined;
  readonly url?: string | undefined;
  readonly token?: string | undefined;
  /** PEM of the authority that the certificate of an https URL is judged by; absent: the system's. */
  readonly authority?: string | undefined;
  /** The local user, whom facts name that the requests cause. */
  readonly user?: string | undefined;
  /** The longest silence of the server, ms; 60 s when absent. */
  readonly timeoutMs?: number | undefined;
}

export interface ServerRequest {
  readonly method?: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly json?: unknown;
  readonly body?: { readonly contentType: string; readonly chunks: AsyncIterable<Uint8Array> };
  readonly signal?: AbortSignal | undefined;
  /** The longest silence of the server, for answers that take long before their first byte (check, backup …). */
  readonly timeoutMs?: number | undefined;
}

export interface ServerAnswer {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The reader must destroy it unless it reads to the end. */
  readonly body: IncomingMessage;
}

export interface Connection {
  /**
   * Resolves with the answer once its head has come and its status is good.
   * @throws the server's own typed error, SERVER_UNREACHABLE, TIMED_OUT, INTERRUPTED, USAGE (not a URL)
   */
  send(request: ServerRequest): Promise<ServerAnswer>;
  /** Sends a request and parses its JSON answer; undefined for an empty answer. */
  sendForJson(request: ServerRequest): Promise<unknown>;
  /** "The server at …", which error messages begin with. */
  readonly server: string;
  /** True if the server is on this machine and was reached over its local socket. */
  readonly isLocal: boolean;
  close(): Promise<void>;
}

/** Largest JSON answer that is accepted. */
const maxAnswerBytes = 256 * 1024 * 1024;
const defaultTimeoutMs = 60_000;

export function connect(address: ServerAddress): Connection {
  const server =
    address.socketPath === undefined
      ? `The server at ${address.url ?? "(no URL)"}`
      : `The server at ${address.socketPath}`;
  const connections = openConnections(address);
  const send = async (request: ServerRequest): Promise<ServerAnswer> => {
    let answer: IncomingMessage;
    try {
      answer = await connections.exchange(request);
    } catch (cause) {
      throw failure(server, cause, request.signal);
    }
    const { statusCode = 0, headers } = answer;
    if (statusCode >= 200 && statusCode < 300) return { headers, body: answer };
    try {
      throw errorOfAnswer(statusCode, await collect(server, answer), server);
    } finally {
      // The server may have answered before it took the complete body.
      answer.destroy();
    }
  };
  return {
    server,
    isLocal: address.socketPath !== undefined,
    send,
    async sendForJson(request) {
      const bytes = await collect(server, (await send(request)).body, request.signal);
      if (bytes.length === 0) return undefined;
      try {
        return JSON.parse(bytes.toString("utf8")) as unknown;
      } catch (cause) {
        throw notOfThisVersion(server, "answered with something that is not JSON", { cause });
      }
    },
    close: async () => (await connections.agent)?.destroy(),
  };
}

/** The server, or a proxy before it, was silent for too long. */
class SilenceError extends Error {}

interface Connections {
  /** The agent of the connections; undefined before the first request. */
  readonly agent: Promise<Agent> | undefined;
  /** Resolves when the head of the answer has come. */
  exchange(request: ServerRequest): Promise<IncomingMessage>;
}

function openConnections(address: ServerAddress): Connections {
  let opened: ReturnType<typeof openAgent> | undefined;
  const attempt = async (request: ServerRequest): Promise<IncomingMessage> => {
    const url = urlOf(address, request.path);
    const { agent, start } = await (opened ??= openAgent(url, address));
    const timeoutMs = request.timeoutMs ?? address.timeoutMs ?? defaultTimeoutMs;
    const sent = start(url, {
      agent,
      method: request.method ?? "GET",
      headers: headersOf(address, request),
      timeout: timeoutMs,
      ...defined({ socketPath: address.socketPath, signal: request.signal }),
    });
    return answerOf(sent, request);
  };
  return {
    get agent() {
      return opened?.then(({ agent }) => agent);
    },
    async exchange(request) {
      try {
        return await attempt(request);
      } catch (error) {
        if (!(error instanceof ClosedBeforeAnswer) || !maySendAgain(request, error.reached)) throw error;
        return await attempt(request);
      }
    },
  };
}

/** A kept connection, which had served other requests before, was closed at the moment of this one. */
class ClosedBeforeAnswer extends Error {
  /** @param reached whether the server may have got the request */
  constructor(
    cause: Error,
    readonly reached: boolean,
  ) {
    super(cause.message, { cause });
  }
}

/** True if a failed request may be sent again: changes must not be done twice. A streamed body is gone. */
function maySendAgain({ method = "GET", body }: ServerRequest, reached: boolean): boolean {
  return method === "GET" || (!reached && body === undefined);
}

/** Connections that were not used for so long are closed: less than after which the server closes them (app.ts). */
const keptMs = 3_000;

/** Loads TLS only for a URL that needs it, and goes through the proxy that the environment names. */
async function openAgent(
  url: URL,
  { authority, timeoutMs = defaultTimeoutMs }: ServerAddress,
): Promise<{ readonly agent: Agent; readonly start: typeof httpRequest }> {
  const options = { keepAlive: true, timeout: keptMs };
  if (url.protocol !== "https:") return { agent: new Agent(options), start: httpRequest };
  const https = await import("node:https");
  const agent = new https.Agent({ ...options, ...defined({ ca: authority }) });
  const { proxyOf, tunnel } = await import("../../../shared/adapters/proxy.js");
  const proxy = proxyOf(url);
  if (proxy === undefined) return { agent, start: https.request };
  const tls = await import("node:tls");
  const host = url.hostname.replace(/^\[|\]$/g, "");
  agent.createConnection = (connection, done) => {
    tunnel(proxy, { host, port: Number(url.port || 443) }, timeoutMs).then(
      (socket) => done?.(null, tls.connect({ ...(connection as ConnectionOptions), socket })),
      (error: Error) => done?.(error, undefined as never),
    );
    return undefined;
  };
  return { agent, start: https.request };
}

/** Sends the body and waits for the head of the answer. Silence ends the request, or later the answer's body. */
function answerOf(sent: ClientRequest, { json, body }: ServerRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    let answer: IncomingMessage | undefined;
    sent.on("response", (incoming) => {
      answer = incoming;
      // A server that refuses a stream closes the connection, whose rest it does not read: no request may follow there.
      if (body !== undefined && (incoming.statusCode ?? 0) >= 300) sent.shouldKeepAlive = false;
      resolve(incoming);
    });
    sent.on("timeout", () => {
      (answer ?? sent).destroy(new SilenceError("silent for too long"));
    });
    sent.on("error", (error: NodeJS.ErrnoException) => {
      reject(
        sent.reusedSocket && (error.code === "ECONNRESET" || error.code === "EPIPE")
          ? new ClosedBeforeAnswer(error, error.code === "ECONNRESET")
          : error,
      );
    });
    if (body === undefined) sent.end(json === undefined ? undefined : JSON.stringify(json));
    // An error of the chunks destroys the request with it, which rejects above.
    else pipeline(body.chunks, sent, () => undefined);
  });
}

/** @throws USAGE */
function urlOf({ socketPath, url }: ServerAddress, path: string): URL {
  if (socketPath !== undefined) return new URL(path, "http://localhost");
  let base: URL;
  try {
    base = new URL(url ?? "");
  } catch (cause) {
    throw new StemmaError(
      "USAGE",
      `"${url ?? ""}" is not a valid URL of a server. Write it as https://HOST:PORT.`,
      { cause },
    );
  }
  if (base.protocol !== "http:" && base.protocol !== "https:")
    throw new StemmaError("USAGE", `A server's URL begins with http:// or https://, not ${base.protocol}//.`);
  return new URL(`${base.pathname.replace(/\/$/, "")}${path}`, base);
}

function headersOf({ token, user }: ServerAddress, { json, body }: ServerRequest): Record<string, string> {
  return {
    accept: "application/json",
    ...defined({
      authorization: token === undefined ? undefined : `Bearer ${token}`,
      [userHeader]: user === undefined ? undefined : encodeURIComponent(user),
    }),
    ...(json === undefined ? {} : { "content-type": "application/json" }),
    ...defined({ "content-type": body?.contentType }),
  };
}

/** Errors of TLS about a chain whose authority it does not know. */
const notTrusted: ReadonlySet<string> = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);

function failure(server: string, cause: unknown, signal?: AbortSignal): StemmaError {
  if (isStemmaError(cause) && signal?.aborted !== true) return cause;
  if (signal?.aborted === true)
    return new StemmaError("INTERRUPTED", "The request was interrupted.", { cause });
  if (cause instanceof SilenceError)
    return new StemmaError(
      "TIMED_OUT",
      `${server} was silent for too long. It may be busy: examine it with \`stemma doctor\` and try again.`,
      { cause },
    );
  if (notTrusted.has(String((cause as { readonly code?: unknown } | null)?.code)))
    return certificateNotTrusted(server, cause);
  return connectionError(server, cause);
}

async function collect(server: string, body: IncomingMessage, signal?: AbortSignal): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      length += chunk.length;
      if (length > maxAnswerBytes) throw answerTooLong(server, maxAnswerBytes);
      chunks.push(chunk);
    }
  } catch (cause) {
    if (cause instanceof StemmaError || cause instanceof SilenceError || signal?.aborted === true)
      throw failure(server, cause, signal);
    throw answerBrokeOff(lowerFirst(server), cause);
  }
  return Buffer.concat(chunks);
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
