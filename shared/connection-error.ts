/** Errors of connections in words: why the other side was not reached, and what to do next. */
import { messageOf } from "./error-text.js";
import { isStemmaError, StemmaError } from "./errors.js";

interface Problem {
  readonly why: string;
  readonly next: string;
}

const noRoute: Problem = {
  why: "no way in this network leads there",
  next: "Wait until the network is up, or correct the address.",
};
const noAnswer: Problem = {
  why: "no answer came in time",
  next: "Wait until the network is up, or check the address and the firewalls on the way.",
};
const closed: Problem = {
  why: "the other side closed the connection",
  next: "Check that the right program listens on that port: one with TLS for https:// and mqtts://, without for http:// and mqtt://.",
};
const noDescriptors: Problem = {
  why: "this process has no file descriptor left",
  next: "Raise its limit of open files (ulimit -n, LimitNOFILE= of its service), then try again.",
};
const notAllowed: Problem = {
  why: "this system does not allow it",
  next: "Check the permissions of this user and the firewall of this machine.",
};
const noTls: Problem = {
  why: "what listens there does not speak TLS",
  next: "Name the port with TLS; where the server has none, write http:// for https://, mqtt:// for mqtts://.",
};
const noHttp: Problem = {
  why: "what listens there does not answer in HTTP",
  next: "Name the port of HTTP; where the server has TLS, write https:// for http://.",
};

const problems: Readonly<Record<string, Problem>> = {
  ECONNREFUSED: {
    why: "nothing listens there",
    next: "Start what should, wait until it has started, or correct the address.",
  },
  ENOTFOUND: {
    why: "the name of the host is not known",
    next: "Correct the name, or wait until the network is up.",
  },
  EAI_AGAIN: {
    why: "no name server answers",
    next: "Wait until the network is up, or name the host by its IP address.",
  },
  ETIMEDOUT: noAnswer,
  ESOCKETTIMEDOUT: noAnswer,
  UND_ERR_CONNECT_TIMEOUT: noAnswer,
  EHOSTUNREACH: noRoute,
  EHOSTDOWN: noRoute,
  ENETUNREACH: noRoute,
  ENETDOWN: noRoute,
  EADDRNOTAVAIL: noRoute,
  EAFNOSUPPORT: noRoute,
  ECONNRESET: closed,
  ECONNABORTED: closed,
  EPIPE: closed,
  EAGAIN: { why: "it is busy and takes no more connections now", next: "Try again later." },
  UND_ERR_SOCKET: closed,
  EMFILE: noDescriptors,
  ENFILE: noDescriptors,
  EACCES: notAllowed,
  EPERM: notAllowed,
  ENOENT: { why: "there is no such socket", next: "Start what should listen there, or correct the path." },
};

/** True if this process, or the machine, has no file descriptor left. */
export function isOutOfDescriptors(error: unknown): boolean {
  return ["EMFILE", "ENFILE"].includes(codeOf(error));
}

/** An error that says that no file descriptor is left, typed; any other as it is. @returns FILE_FAILED for such */
export function nameMissingDescriptors<E>(error: E): E | StemmaError {
  if (isStemmaError(error) || !isOutOfDescriptors(error)) return error;
  const { why, next } = noDescriptors;
  return new StemmaError("FILE_FAILED", `${messageOf(error)}: ${why}. ${next}`, { cause: error });
}

/**
 * Words for an error of a socket, of TLS, of an HTTP or MQTT client: why it failed, with the system's code, and what
 * to do next. Of a host with several addresses, the first one's error stands for all.
 * @param otherwise the next step after an error that is not known here
 */
export function connectionProblem(error: unknown, otherwise = "Check the address, then try again."): Problem {
  const cause = firstCause(error);
  const code = codeOf(cause);
  const known =
    problems[code] ??
    (/^(EPROTO|ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|UNSUPPORTED_PROTOCOL|UNEXPECTED_MESSAGE))$/.test(
      code,
    )
      ? noTls
      : code.startsWith("HPE_")
        ? noHttp
        : undefined);
  if (known === undefined) return { why: messageOf(cause), next: otherwise };
  return { why: `${known.why} (${code})`, next: known.next };
}

/**
 * The typed error of a connection that failed; one that is typed stays.
 * @param peer the other side, which begins the message: "The server at HOST:PORT"
 * @returns SERVER_UNREACHABLE
 */
export function connectionError(peer: string, error: unknown): StemmaError {
  if (isStemmaError(error)) return error;
  const { why, next } = connectionProblem(error);
  return new StemmaError("SERVER_UNREACHABLE", `${peer} cannot be reached: ${why}. ${next}`, {
    cause: error,
  });
}

/** The cause below what `fetch` and a host with several addresses wrap it in. */
function firstCause(error: unknown): unknown {
  if (error instanceof AggregateError && error.errors.length > 0) return error.errors[0];
  if (error instanceof TypeError && error.cause !== undefined) return firstCause(error.cause);
  return error;
}

function codeOf(error: unknown): string {
  const code = error instanceof Error ? (error as { readonly code?: unknown }).code : undefined;
  return typeof code === "string" ? code : "";
}
