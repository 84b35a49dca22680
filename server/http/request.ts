/**
 * Requests to a Stemma server, over TCP or its local socket, with bodies as streams. Turns failures into
 * typed errors. Does not know the operations.
 */
import { Agent, errors, type Dispatcher } from "undici";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import { userHeader } from "./caller.js";
import { errorOfAnswer } from "./error-body.js";

/** Where a server is: its local socket, or a URL with its bearer token. */
export interface ServerAddress {
  readonly socketPath?: string | undefined;
  readonly url?: string | undefined;
  readonly token?: string | undefined;
  /** The local user, whom facts name that the requests cause. */
  readonly user?: string | undefined;
  /** How long the server may be silent, ms; 60 s when absent. */
  readonly timeoutMs?: number | undefined;
}

export interface ServerRequest {
  readonly method?: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly json?: unknown;
  readonly body?: { readonly contentType: string; readonly chunks: AsyncIterable<Uint8Array> };
  readonly signal?: AbortSignal | undefined;
  /** For answers that take long before their first byte (check, backup …). */
  readonly timeoutMs?: number | undefined;
}

export interface ServerAnswer {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The reader must destroy it unless it reads to the end. */
  readonly body: Dispatcher.ResponseData["body"];
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
  /** Whether the server is on this machine and was reached over its local socket. */
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
  const agent = new Agent({
    connect: {
      timeout: address.timeoutMs ?? defaultTimeoutMs,
      ...(address.socketPath === undefined ? {} : { socketPath: address.socketPath }),
    },
  });
  const send = async (request: ServerRequest): Promise<ServerAnswer> => {
    const timeoutMs = request.timeoutMs ?? address.timeoutMs ?? defaultTimeoutMs;
    const url = urlOf(address, request.path);
    let answer: Dispatcher.ResponseData;
    try {
      answer = await agent.request({
        origin: url.origin,
        path: `${url.pathname}${url.search}`,
        method: request.method ?? "GET",
        headers: headersOf(address, request),
        body: request.body?.chunks ?? (request.json === undefined ? null : JSON.stringify(request.json)),
        headersTimeout: timeoutMs,
        bodyTimeout: timeoutMs,
        ...(request.signal === undefined ? {} : { signal: request.signal }),
      } as Dispatcher.RequestOptions);
    } catch (cause) {
      throw failure(server, cause, request.signal);
    }
    if (answer.statusCode >= 200 && answer.statusCode < 300)
      return { headers: answer.headers, body: answer.body };
    throw errorOfAnswer(answer.statusCode, await collect(server, answer.body), server);
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
        throw new StemmaError(
          "SERVER_UNREACHABLE",
          `${server} answered with something that is not JSON. Check that a Stemma server of this version listens there.`,
          { cause },
        );
      }
    },
    close: () => agent.destroy(),
  };
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
      `"${url ?? ""}" is not a valid URL of a server. Write it as http://HOST:PORT.`,
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
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(user === undefined ? {} : { [userHeader]: encodeURIComponent(user) }),
    ...(json === undefined ? {} : { "content-type": "application/json" }),
    ...(body === undefined ? {} : { "content-type": body.contentType }),
  };
}

function failure(server: string, cause: unknown, signal?: AbortSignal): StemmaError {
  if (isStemmaError(cause) && signal?.aborted !== true) return cause;
  if (signal?.aborted === true)
    return new StemmaError("INTERRUPTED", "The request was interrupted.", { cause });
  if (
    cause instanceof errors.HeadersTimeoutError ||
    cause instanceof errors.BodyTimeoutError ||
    cause instanceof errors.ConnectTimeoutError
  )
    return new StemmaError(
      "TIMED_OUT",
      `${server} was silent for too long. It may be busy: examine it with \`stemma doctor\` and try again.`,
      { cause },
    );
  const reason = messageOf(cause);
  return new StemmaError(
    "SERVER_UNREACHABLE",
    `${server} cannot be reached (${reason}). Check that it runs and that the address is right.`,
    { cause },
  );
}

async function collect(
  server: string,
  body: Dispatcher.ResponseData["body"],
  signal?: AbortSignal,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      length += chunk.length;
      if (length > maxAnswerBytes)
        throw new StemmaError(
          "SIZE_OVER_LIMIT",
          `${server} answered with more than ${maxAnswerBytes} bytes. Ask for less at a time.`,
        );
      chunks.push(chunk);
    }
  } catch (cause) {
    if (cause instanceof StemmaError || signal?.aborted === true) throw failure(server, cause, signal);
    throw new StemmaError(
      "SERVER_UNREACHABLE",
      `The answer of ${lowerFirst(server)} broke off. Look at its log and try again.`,
      { cause },
    );
  }
  return Buffer.concat(chunks);
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
