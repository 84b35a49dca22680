/** Describes a caught value, which may be anything, for messages and logs. */
import { isStemmaError } from "./errors.js";

/** The message of a caught value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The message of a caught value, followed by its code where it has one: "… [FILE_MISSING]". */
export function messageWithCode(error: unknown): string {
  return isStemmaError(error) ? `${error.message} [${error.code}]` : messageOf(error);
}

/** The stack of a caught value, for the log. */
export function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
