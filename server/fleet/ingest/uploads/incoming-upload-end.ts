/** Defines how an incoming upload ends, and after which ends another attempt may succeed. Pure. */
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { ClaimSummary } from "../../../storage/repository/claim.js";
import type { VersionSummary } from "../../../storage/repository/answers/version-answers.js";
import { receivingFailed } from "../ingest-errors.js";

/** The end of an incoming upload. `interrupted`: it is resumed when the device announces again. */
export type IncomingUploadEnd =
  | { readonly end: "recorded"; readonly summary: VersionSummary }
  /** The end where everything but the tensors is stored; a replay is to give them. */
  | { readonly end: "claimed"; readonly claim: ClaimSummary }
  | { readonly end: "bases"; readonly bases: readonly Hash[] }
  | {
      readonly end: "refused";
      readonly error: StemmaError;
      readonly retryAfterMs?: number | undefined;
      readonly uselessCoding?: boolean;
    }
  | { readonly end: "interrupted" };

/** Codes after which the same announcement may succeed later. */
const temporaryCodes = new Set<string>([
  "TRANSFER_STALLED",
  "QUOTA_EXCEEDED",
  "DISK_FULL",
  "FILE_FAILED",
  "STORE_FAILED",
  "JOURNAL_STOPPED",
  "REFERENCE_MISSING",
  "LEASE_EXPIRED",
  "LEASE_UNKNOWN",
  "TIER_UNREACHABLE",
]);
const retryMs = { uselessCoding: 1_000, temporary: 30_000, unexpected: 60_000 };

/**
 * @param isUselessCoding whether the coded stream does not decode to these tensors; when the version is
 * announced again, it is requested raw
 */
export function refusalOf(error: unknown, isUselessCoding: boolean): IncomingUploadEnd {
  if (!isStemmaError(error)) {
    const unexpected = receivingFailed(error);
    return { end: "refused", error: unexpected, retryAfterMs: retryMs.unexpected };
  }
  const temporary = temporaryCodes.has(error.code) ? retryMs.temporary : undefined;
  return {
    end: "refused",
    error,
    uselessCoding: isUselessCoding,
    retryAfterMs: isUselessCoding ? retryMs.uselessCoding : temporary,
  };
}
