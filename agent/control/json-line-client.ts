/** Calls a running agent over one of its local sockets (json-line-server.ts describes the protocol). */
import { connect } from "node:net";
import { connectionProblem } from "../../shared/connection-error.js";
import { isErrorCode, StemmaError } from "../../shared/errors.js";

interface Response {
  readonly ok: boolean;
  readonly result?: unknown;
  readonly code?: string;
  readonly message?: string;
}

/**
 * Sends one request and returns its result.
 * @throws AGENT_UNREACHABLE when no agent listens, TIMED_OUT, or the agent's own error
 */
export async function callAgent(
  socketPath: string,
  request: { readonly do: string; readonly [field: string]: unknown },
  timeoutMs = 30_000,
): Promise<unknown> {
  const line = await exchangeLines(socketPath, `${JSON.stringify({ id: 1, ...request })}\n`, timeoutMs);
  const response = JSON.parse(line) as Response;
  if (response.ok) return response.result;
  const code = response.code ?? "INTERNAL";
  throw new StemmaError(
    isErrorCode(code) ? code : "INTERNAL",
    response.message ?? "The agent gave no reason. See its log.",
  );
}

/** Writes a line to a socket and resolves with the first line that comes back, without its newline. */
function exchangeLines(socketPath: string, text: string, timeoutMs: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(socketPath);
    let received = "";
    const fail = (error: StemmaError): void => {
      socket.destroy();
      reject(error);
    };
    socket.setTimeout(timeoutMs, () => {
      fail(
        new StemmaError(
          "TIMED_OUT",
          `The agent at ${socketPath} did not answer within ${timeoutMs} ms. See its log.`,
        ),
      );
    });
    socket.on("connect", () => {
      socket.write(text);
    });
    socket.setEncoding("utf8").on("data", (part: string) => {
      received += part;
      const newline = received.indexOf("\n");
      if (newline < 0) return;
      socket.destroy();
      resolve(received.slice(0, newline));
    });
    socket.on("error", (cause: NodeJS.ErrnoException) => {
      fail(unreachable(socketPath, cause));
    });
    socket.on("end", () => {
      fail(
        new StemmaError(
          "AGENT_UNREACHABLE",
          `The agent at ${socketPath} closed the connection without an answer. See its log.`,
        ),
      );
    });
  });
}

/** A socket that refuses, or that is not there, shows that no agent runs; nothing else does. */
function unreachable(socketPath: string, cause: NodeJS.ErrnoException): StemmaError {
  if (cause.code === "ECONNREFUSED" || cause.code === "ENOENT")
    return new StemmaError(
      "AGENT_UNREACHABLE",
      `No agent answers at ${socketPath} (${cause.code}). Start it with \`stemma agent run\`, or name its home with --home.`,
      { cause },
    );
  if (cause.code === "EAGAIN")
    return new StemmaError(
      "TIMED_OUT",
      `The agent at ${socketPath} is busy: it takes no more connections now. Try again later.`,
      { cause },
    );
  const { why, next } = connectionProblem(cause);
  return new StemmaError("AGENT_UNREACHABLE", `The agent at ${socketPath} is not reached: ${why}. ${next}`, {
    cause,
  });
}
