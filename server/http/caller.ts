/**
 * Who sends a request: over the local socket the user that its owner names, over TCP the token, with the user that
 * the client names.
 */
import type { IncomingHttpHeaders } from "node:http";
import { currentUser } from "../../shared/adapters/current-user.js";
import { callerText, type Caller } from "../../shared/journal/caller.js";

/** Header in which clients name their user, percent-encoded. */
export const userHeader = "stemma-user";

/** The one token of the HTTP port, as facts name it. */
const httpToken = { who: "http-token", role: "admin" };

/** @param access how the request came: over the local socket, or over TCP with the token */
export function callerOf(access: "socket" | "http", headers: IncomingHttpHeaders): Caller {
  const claims = callerText(decoded(headers[userHeader]));
  if (access === "socket") return { who: claims ?? currentUser(), through: access };
  return { ...httpToken, through: access, ...(claims === undefined ? {} : { claims }) };
}

function decoded(header: string | string[] | undefined): string | undefined {
  if (typeof header !== "string") return undefined;
  try {
    return decodeURIComponent(header);
  } catch {
    return header;
  }
}
