/**
 * Identifies a request's caller: on the local socket the user that its owner names; over TCP the token, with
 * the user that the client names.
 */
import type { IncomingHttpHeaders } from "node:http";
import { currentUser } from "../../../shared/adapters/current-user.js";
import { defined } from "../../../shared/defined.js";
import { callerText, type Caller } from "../../../shared/journal/caller.js";
import type { Grant } from "../api/rights.js";
import type { TokenBearer } from "./tokens.js";

/** The caller that starts a job, what they may do, and by which request. */
export interface Asker {
  readonly caller: Caller;
  readonly grant?: Grant | undefined;
  readonly requestId?: string;
}

/** Header in which clients name their user, percent-encoded. */
export const userHeader = "stemma-user";

/** @param bearer of the token, over TCP; undefined over the local socket */
export function callerOf(bearer: TokenBearer | undefined, headers: IncomingHttpHeaders): Caller {
  const claims = callerText(decoded(headers[userHeader]));
  if (bearer === undefined) return { who: claims ?? currentUser(), through: "socket" };
  return {
    who: bearer.who,
    through: "http",
    role: bearer.role,
    ...defined({ claims }),
  };
}

function decoded(header: string | string[] | undefined): string | undefined {
  if (typeof header !== "string") return undefined;
  try {
    return decodeURIComponent(header);
  } catch {
    return header;
  }
}
