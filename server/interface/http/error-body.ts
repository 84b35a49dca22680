/** Encodes typed errors for HTTP, and decodes them to the same typed errors. Pure. */
import {
  type ErrorCode,
  StemmaError,
  exitStatus,
  isErrorCode,
  isStemmaError,
} from "../../../shared/errors.js";
import type { ErrorBody } from "../api/job-schemas.js";

const statusOfCode: Partial<Record<ErrorCode, number>> = {
  TOKEN_INVALID: 401,
  NOT_ALLOWED: 403,
  DEVICE_REVOKED: 403,
  CERTIFICATE_REFUSED: 403,
  CLOCK_NOT_TRUSTED: 503,
  HOME_LOCKED: 409,
  PLAN_STALE: 409,
  COLLECTION_REFUSED: 409,
  MODEL_HELD: 409,
  MODEL_IN_USE: 409,
  MODEL_RETIRED: 410,
  MODEL_ERASED: 410,
  MODEL_CLAIMED: 409,
  CLAIMS_OPEN: 409,
  SIZE_OVER_LIMIT: 413,
  RECORD_TOO_LARGE: 413,
  TENSOR_TOO_LARGE: 413,
  QUOTA_EXCEEDED: 429,
  DISK_FULL: 507,
  JOURNAL_STOPPED: 503,
  SAFETENSORS_MALFORMED: 400,
  SAFETENSORS_TRUNCATED: 400,
  FILE_CHANGED: 409,
  FILE_NOT_SHARED: 409,
  MODEL_JSON_MALFORMED: 400,
  LAYER_NOT_ALLOWED: 400,
  ARCHITECTURE_INVALID: 400,
  ARCHITECTURE_MISMATCH: 400,
  SHAPE_INVALID: 400,
  DTYPE_UNKNOWN: 400,
  SERVER_UNREACHABLE: 503,
  TIER_UNREACHABLE: 503,
  TRAINING_STOPPED: 409,
};

/** The HTTP status of an error; an error that is not typed is 500. */
export function httpStatusOf(error: unknown): number {
  if (!isStemmaError(error)) return 500;
  const own = statusOfCode[error.code];
  if (own !== undefined) return own;
  switch (error.exitStatus) {
    case exitStatus.usage:
      return 400;
    case exitStatus.notFound:
      return 404;
    case exitStatus.verification:
      return 422;
    case exitStatus.timedOut:
      return 504;
    default:
      return 500;
  }
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
  return new StemmaError(
    "SERVER_UNREACHABLE",
    `${where} answered with status ${status} and no error that Stemma knows. Check that a Stemma server of this version listens there.`,
    { status },
  );
}
