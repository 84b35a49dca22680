/**
 * Defines who caused a fact, and how they reached the store. Facts that a person or a token causes carry it
 * as `by`; facts that devices and rules cause do not. Pure. (docs/formats.md, "Facts")
 */

/**
 * The ways to a store: a command that opened it, the local socket of the server or agent, the server's HTTP
 * port; or, on a device, an order of its server.
 */
export const callerPaths = ["command", "socket", "http", "server"] as const;
export type CallerPath = (typeof callerPaths)[number];

export interface Caller {
  /**
   * The local user, such as "ann@workshop", or over HTTP the name of the token. A socket opens for its owner
   * only, so the user named there is believed.
   */
  readonly who: string;
  readonly through: CallerPath;
  /** The token's role, over HTTP. */
  readonly role?: string;
  /** The user that an HTTP client named. Anyone with the token can name any. */
  readonly claims?: string;
}

/** Max length of each text of a caller, in characters. */
export const maxCallerText = 256;

/** Describes a caller, for example "ann@workshop (command)" or "http-token, admin (http), as ann@laptop". */
export function describeCaller(by: Caller | string): string {
  // Older facts have a text, as the person named themselves.
  if (typeof by === "string") return by;
  const { who, role, through, claims } = by;
  return `${who}${role === undefined ? "" : `, ${role}`} (${through})${claims === undefined ? "" : `, as ${claims}`}`;
}

/** Returns the causer of a fact, as listings show it. */
export function byOf({ by }: { readonly by?: Caller | string | undefined }): { readonly by?: string } {
  return by === undefined ? {} : { by: describeCaller(by) };
}

const controlCharacters = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

/** A name as it comes from outside, without control characters and not too long; undefined where nothing is left. */
export function callerText(name: string | undefined): string | undefined {
  const text = name?.replace(controlCharacters, "").trim().slice(0, maxCallerText);
  return text === "" ? undefined : text;
}
