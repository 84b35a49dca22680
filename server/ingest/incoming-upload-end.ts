/** How a reception ends, and which ends are worth another try. Pure. */
import { StemmaError, isStemmaError } from "../../shared/errors.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { VersionSummary } from "../repository/fleet-repository.js";

/** How a reception ends. `interrupted`: it goes on when the device announces again. */
export type IncomingUploadEnd =
  | { readonly end: "recorded"; readonly summary: VersionSummary }
  | { readonly end: "bases"; readonly bases: readonly Hash[] }
  | {
      readonly end: "refused";
      readonly error: StemmaError;
      readonly retryAfterMs?: number;
      readonly uselessCoding?: boolean;
    }
  | { readonly end: "interrupted" };

/** Codes after which the same announcement may go well later. */
const passing = new Set<string>([
  "TRANSFER_STALLED",
  "QUOTA_EXCEEDED",
  "DISK_FULL",
  "FILE_FAILED",
  "STORE_FAILED",
  "JOURNAL_STOPPED",
  "REFERENCE_MISSING",
  "LEASE_EXPIRED",
  "LEASE_UNKNOWN",
]);

/**
 * @param useless what came coded is no coding of these tensors; announced again, the version is asked for raw
 */
export function refusalOf(error: unknown, useless: boolean): IncomingUploadEnd {
  if (isStemmaError(error))
    return {
      end: "refused",
      error,
      uselessCoding: useless,
      ...(useless ? { retryAfterMs: 1_000 } : passing.has(error.code) ? { retryAfterMs: 30_000 } : {}),
    };
  const unexpected = new StemmaError(
    "INTERNAL",
    "The server failed inside while taking in this version. Its log names the cause; the device keeps the model and tries again.",
    { cause: error },
  );
  return { end: "refused", error: unexpected, retryAfterMs: 60_000 };
}
