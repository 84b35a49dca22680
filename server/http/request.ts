/**
 * One HTTP request to a Stemma server, over TCP or its local socket, with bodies as streams. Turns failures
 * into typed errors; knows no routes.
 */
import { request as plainRequest, type IncomingMessage, type RequestOptions } from "node:http";
import { request as secureRequest } from "node:https";
import { StemmaError } from "../../shared/errors.js";
import { errorOfAnswer } from "./error-body.js";

/** Where a server is: its local socket, or a URL with its bearer token. */
export interface Connection {
  readonly socketPath?: string;
  readonly url?: string;
  readonly token?: string;
  /** Longest silence of the server, ms; 60 s unless told. */ readonly timeoutMs?: number;
}

export interface Ask {
  readonly method?: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly json?: unknown;
  readonly body?: { readonly contentType: string; readonly chunks: AsyncIterable<Uint8Array> };
  readonly signal?: AbortSignal;
  /** For answers that take long before their first byte (check, backup …). */
  readonly timeoutMs?: number;
}

/** Largest JSON answer that is taken. */
const maxAnswerBytes = 256 * 1024 * 1024;

function whereOf(connection: Connection): string {
  return connection.socketPath === undefined
    ? `the server at ${connection.url ?? "(no URL)"}`
    : `the server behind ${connection.socketPath}`;
}

function optionsOf(
  connection: Connection,
  ask: Ask,
): { readonly options: RequestOptions; readonly secure: boolean } {
  const headers: Record<string, string> = {
    accept: "application/json",
    ...(connection.token === undefined ? {} : { authorization: `Bearer ${connection.token}` }),
  };
  if (ask.json !== undefined) headers["content-type"] = "application/json";
  if (ask.body !== undefined) headers["content-type"] = ask.body.contentType;
  const common = { method: ask.method ?? "GET", headers, signal: ask.signal };
  if (connection.socketPath !== undefined)
    return { options: { ...common, socketPath: connection.socketPath, path: ask.path }, secure: false };
  let url: URL;
  try {
    url = new URL(connection.url ?? "");
  } catch (cause) {
    throw new StemmaError(
      "USAGE",
      `"${connection.url ?? ""}" is no URL of a server. Write it as http://HOST:PORT.`,
      { cause },
    );
  }
  if (url.protocol !== "http:" && url.protocol !== "https:")
    throw new StemmaError("USAGE", `A server's URL begins with http:// or https://, not ${url.protocol}//.`);
  return {
    options: {
      ...common,
      host: url.hostname,
      port: url.port,
      path: `${url.pathname.replace(/\/$/, "")}${ask.path}`,
    },
    secure: url.protocol === "https:",
  };
}

/**
 * Sends a request; resolves with the answer once its head is here and its status is good. @throws the
 * server's own typed error, SERVER_UNREACHABLE, TIMED_OUT
 */
export async function send(connection: Connection, ask: Ask): Promise<IncomingMessage> {
  const { options, secure } = optionsOf(connection, ask);
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const request = (secure ? secureRequest : plainRequest)(options, resolve);
    request.setTimeout(ask.timeoutMs ?? connection.timeoutMs ?? 60_000, () =>
      request.destroy(
        new StemmaError(
          "TIMED_OUT",
          `${capital(whereOf(connection))} said nothing for too long. It may be busy: look at it with \`stemma doctor\` and try again.`,
        ),
      ),
    );
    request.on("error", (cause) =>
      reject(
        cause instanceof StemmaError
          ? cause
          : ask.signal?.aborted === true
            ? new StemmaError("INTERRUPTED", "The request was interrupted.", { cause })
            : new StemmaError(
                "SERVER_UNREACHABLE",
                `${capital(whereOf(connection))} cannot be reached (${cause.message}). Check that it runs and that the address is right.`,
                { cause },
              ),
      ),
    );
    if (ask.body === undefined) request.end(ask.json === undefined ? undefined : JSON.stringify(ask.json));
    else
      void pour(ask.body.chunks, request).catch((error: unknown) =>
        request.destroy(error instanceof Error ? error : new Error(String(error))),
      );
  });
  const status = answer.statusCode ?? 0;
  if (status >= 200 && status < 300) return answer;
  throw errorOfAnswer(status, await collect(answer), capital(whereOf(connection)));
}

/** Sends and parses a JSON answer; an empty one is undefined. */
export async function sendForJson<T>(connection: Connection, ask: Ask): Promise<T> {
  const bytes = await collect(await send(connection, ask));
  if (bytes.length === 0) return undefined as T;
  try {
    return JSON.parse(bytes.toString("utf8")) as T;
  } catch (cause) {
    throw new StemmaError(
      "SERVER_UNREACHABLE",
      `${capital(whereOf(connection))} answered with something that is no JSON. Check that a Stemma server of this version listens there.`,
      { cause },
    );
  }
}

async function pour(
  chunks: AsyncIterable<Uint8Array>,
  request: NodeJS.WritableStream & { destroyed?: boolean },
): Promise<void> {
  for await (const chunk of chunks) {
    if (request.destroyed === true) return;
    if (!request.write(chunk))
      await new Promise<void>((resolve) => {
        request.once("drain", resolve);
        request.once("close", resolve);
      });
  }
  request.end();
}

async function collect(answer: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let length = 0;
  try {
    for await (const piece of answer as AsyncIterable<Buffer>) {
      length += piece.length;
      if (length > maxAnswerBytes) {
        answer.destroy();
        throw new StemmaError(
          "SIZE_OVER_LIMIT",
          `The server's answer is longer than ${maxAnswerBytes} bytes. Ask for less at a time.`,
        );
      }
      pieces.push(piece);
    }
  } catch (cause) {
    if (cause instanceof StemmaError) throw cause;
    throw new StemmaError(
      "SERVER_UNREACHABLE",
      "The server's answer broke off. Look at its log and try again.",
      { cause },
    );
  }
  return Buffer.concat(pieces);
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
