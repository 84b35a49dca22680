/**
 * Makes and checks ids of requests, by which one finds what a request caused: in logs, in facts, in commands
 * to devices. A client may choose one, so an id is a label and proves nothing. Pure. (docs/operating.md,
 * "Follow one thing")
 */

/** Longest id: with what makes a command's correlation unique it fits into an envelope. */
export const maxRequestIdLength = 47;
const requestId = /^[A-Za-z0-9._-]+$/;

export function isRequestId(value: unknown): value is string {
  return typeof value === "string" && value.length <= maxRequestIdLength && requestId.test(value);
}

/** The correlation of a command: unique, though clients may choose one id for several requests. */
export function correlationOf(request: string | undefined, unique: string): string {
  return request === undefined ? unique : `${request}.${unique}`;
}

/** The request that a command belongs to; undefined: the server sends it by itself. */
export function requestOfCorrelation(correlation: string): string | undefined {
  const request = correlation.slice(0, Math.max(0, correlation.lastIndexOf(".")));
  return isRequestId(request) ? request : undefined;
}

/** The field by which logs and facts name a request; none where there is none. */
export function requestField({ request }: { readonly request?: string | undefined }): {
  readonly request?: string;
} {
  return request === undefined ? {} : { request };
}
