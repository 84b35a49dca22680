/** Defines the members that facts of all kinds have. Types only. */
import type { Caller } from "../caller.js";

export interface Timed {
  /** Clock of the server (or agent), milliseconds since 1970. */
  readonly atMs: number;
}

/** A fact that a person or a token can cause: `by` is who did; a text in older journals. */
export interface Caused extends Timed {
  readonly by?: Caller | string;
  /** The request that it was caused by, over HTTP or the local socket (shared/request-id.ts). */
  readonly request?: string;
}
