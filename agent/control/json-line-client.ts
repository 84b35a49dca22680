/** Calls a running agent over one of its local sockets (json-line-server.ts describes the protocol). */
import { connect } from "node:net";
import { isErrorCode, StemmaError } from "../../shared/errors.js";
import { agentNotReached, closedWithoutAnswer, noAnswerInTime } from "./control-errors.js";

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
      fail(noAnswerInTime(socketPath, timeoutMs));
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
      fail(agentNotReached(socketPath, cause));
    });
    socket.on("end", () => {
      fail(closedWithoutAnswer(socketPath));
    });
  });
}
