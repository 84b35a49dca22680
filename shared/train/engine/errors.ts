/**
 * Typed errors inside the engine bundle, where they replace shared/errors.ts: code and message are sent to
 * the parent process, which has the table of codes. So a new code elsewhere does not change the engine's id.
 */
import type { ErrorCode, StemmaErrorDetails } from "../../errors.js";

export class StemmaError<Code extends ErrorCode = ErrorCode> extends Error {
  readonly code: Code;
  readonly details: Readonly<Record<string, unknown>>;
  constructor(code: Code, message: string, { cause, ...details }: StemmaErrorDetails = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "StemmaError";
    this.code = code;
    this.details = details;
  }
}

export function isStemmaError<Code extends ErrorCode>(
  error: unknown,
  code?: Code,
): error is StemmaError<Code> {
  return error instanceof StemmaError && (code === undefined || (error.code as ErrorCode) === code);
}
