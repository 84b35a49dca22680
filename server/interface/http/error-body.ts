/** Encodes typed errors for HTTP, and decodes them to the same typed errors. Pure. */
import { StemmaError, isErrorCode, isStemmaError } from "../../../shared/errors.js";
import type { ErrorBody } from "../api/job-schemas.js";
import { notOfThisVersion } from "./http-errors.js";
import { statusOfCode } from "./status-of-code.js";

/** The HTTP status of an error; an error that is not typed is 500. */
export function httpStatusOf(error: unknown): number {
  return isStemmaError(error) ? statusOfCode[error.code] : 500;
}

/** Body for an error. Untyped errors become INTERNAL and reveal nothing of the server. */
export function errorBodyOf(error: unknown): ErrorBody {
  if (isStemmaError(error))
    return { code: error.code, message: error.message, details: plainDetails(error.details) };
  return {
    code: "INTERNAL",
    message:
      "The server failed while answering this request. Its log names the cause; try again, and report it if it stays.",
    details: {},
  };
}

function plainDetails(details: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const plain: Record<string, unknown> = {};
  for (const [field, value] of Object.entries(details)) {
    if (value === null || ["string", "number", "boolean"].includes(typeof value)) plain[field] = value;
    else if (
      Array.isArray(value) &&
      value.length <= 100 &&
      value.every((item) => ["string", "number", "boolean"].includes(typeof item))
    )
      plain[field] = value;
  }
  return plain;
}

/** The typed error in an answer; SERVER_UNREACHABLE for an answer that is not from a Stemma server. */
export function errorOfAnswer(status: number, body: Uint8Array, where: string): StemmaError {
  try {
    const parsed = JSON.parse(Buffer.from(body).toString("utf8")) as Partial<ErrorBody> | null;
    if (
      parsed !== null &&
      typeof parsed.code === "string" &&
      isErrorCode(parsed.code) &&
      typeof parsed.message === "string"
    ) {
      return new StemmaError(
        parsed.code,
        parsed.message,
        typeof parsed.details === "object" && parsed.details !== null ? { ...parsed.details } : {},
      );
    }
  } catch {
    /* not JSON: refused below */
  }
  return notOfThisVersion(where, `answered with status ${status} and no error that Stemma knows`, { status });
}
