/** Errors of an agent's local sockets: of opening them, of requests, and of agents that do not answer. */
import { connectionProblem } from "../../shared/connection-error.js";
import { messageOf } from "../../shared/error-text.js";
import { errorOf, StemmaError } from "../../shared/errors.js";

const wrongUse = errorOf("USAGE");
const unreached = errorOf("AGENT_UNREACHABLE");
const timedOut = errorOf("TIMED_OUT");

// Sockets.
export const socketPathTooLong = (path: string, maxBytes: number): StemmaError =>
  new StemmaError(
    "PATH_TOO_LONG",
    `The socket path ${path} has ${Buffer.byteLength(path)} bytes; at most ${maxBytes} are allowed. Choose a shorter folder.`,
    { path },
  );
export const socketNotOpened = (path: string, cause: unknown): StemmaError =>
  new StemmaError(
    "FILE_FAILED",
    `The local socket ${path} could not be opened: ${messageOf(cause)}. Check the folder's permissions.`,
    { cause },
  );

// Requests.
export const requestNotJson = (cause: unknown): StemmaError =>
  wrongUse(`A request line is not JSON: ${messageOf(cause)}. Correct it and send it again.`, { cause });
export const requestNotObject = (): StemmaError =>
  wrongUse(
    'A request is one JSON object on one line, such as {"id": 1, "do": "status"}. Correct it and send it again.',
  );
export const requestWithoutDo = (): StemmaError =>
  wrongUse('The request has no text in its field "do". Name the operation there, such as "status".');
export const fieldsInvalid = (request: string, why: string): StemmaError =>
  wrongUse(`The request "${request}" is not usable: ${why}. Correct it and send it again.`);
export const samplesNotNamed = (): StemmaError =>
  wrongUse(
    'The request "remove-samples" names either "ids", or "unfit": true, or "all": true. Name one of them.',
  );
export const unknownRequest = (request: string): StemmaError =>
  wrongUse(
    `This socket does not know the request "${request.slice(0, 40)}". docs/reference/agent.md lists its requests.`,
  );

// Agents that do not answer.
/** A socket that refuses, or that is not there, shows that no agent runs; nothing else does. */
export function agentNotReached(socketPath: string, cause: NodeJS.ErrnoException): StemmaError {
  if (cause.code === "ECONNREFUSED" || cause.code === "ENOENT")
    return unreached(
      `No agent answers at ${socketPath} (${cause.code}). Start it with \`stemma agent run\`, or name its home with --home.`,
      { cause },
    );
  if (cause.code === "EAGAIN")
    return timedOut(
      `The agent at ${socketPath} is busy: it takes no more connections now. Try again later.`,
      { cause },
    );
  const { why, next } = connectionProblem(cause);
  return unreached(`The agent at ${socketPath} is not reached: ${why}. ${next}`, {
    cause,
  });
}
export const closedWithoutAnswer = (socketPath: string): StemmaError =>
  unreached(`The agent at ${socketPath} closed the connection without an answer. See its log.`);
export const noAnswerInTime = (socketPath: string, timeoutMs: number): StemmaError =>
  timedOut(`The agent at ${socketPath} did not answer within ${timeoutMs} ms. See its log.`);
