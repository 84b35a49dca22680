/**
 * Defines every error that Stemma throws on purpose: the codes by area, each with its exit status. Does not
 * depend on the areas themselves.
 */

/** Exit statuses of the command line (a documented promise). */
export const exitStatus = {
  done: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  verification: 4,
  partly: 5,
  /** The program of a service that ended to be replaced, and is not to be started again before. */
  replaced: 75,
  timedOut: 124,
  interrupted: 130,
} as const;
export type ExitStatus = (typeof exitStatus)[keyof typeof exitStatus];

const { failed, usage, notFound, verification, partly, timedOut, interrupted } = exitStatus;

/** Code → exit status, by area. A new code is one line here; the type `ErrorCode` follows. */
const tensorCodes = {
  DTYPE_UNKNOWN: failed,
  SHAPE_INVALID: failed,
  TENSOR_SIZE_MISMATCH: verification,
  TENSOR_TOO_LARGE: failed,
  SAFETENSORS_MALFORMED: failed,
  SAFETENSORS_TRUNCATED: failed,
  FILE_CHANGED: failed,
  FILE_NOT_SHARED: failed,
} as const;
const modelCodes = {
  ARCHITECTURE_INVALID: failed,
  ARCHITECTURE_MISMATCH: failed,
  LAYER_NOT_ALLOWED: failed,
  MODEL_FILE_MALFORMED: failed,
  MODEL_JSON_MALFORMED: failed,
  TREE_MALFORMED: verification,
  RECORD_INVALID: failed,
  BUNDLE_INVALID: verification,
  PROVENANCE_INVALID: failed,
  PROGRAM_INVALID: failed,
  OPENINGS_MISMATCH: verification,
  STORY_INVALID: verification,
  STORY_MISMATCH: verification,
  EVALUATION_INVALID: verification,
  RECORD_TOO_LARGE: failed,
  OWNER_MAP_INVALID: failed,
  NAMES_INVALID: failed,
  CANONICAL_JSON_INVALID: failed,
} as const;
const objectCodes = {
  OBJECT_MISSING: notFound,
  OBJECT_HASH_MISMATCH: verification,
  OBJECT_KIND_MISMATCH: failed,
  PACK_CORRUPT: verification,
  PACK_FORMAT_UNKNOWN: failed,
  LEASE_EXPIRED: failed,
  LEASE_UNKNOWN: notFound,
  REFERENCE_MISSING: failed,
  COLLECTION_REFUSED: failed,
  PLAN_STALE: failed,
  STORE_FAILED: failed,
  CHAIN_TOO_LONG: failed,
  CHAIN_CYCLIC: failed,
  TIER_UNREACHABLE: failed,
  TIER_INVALID: usage,
} as const;
const journalCodes = {
  JOURNAL_CORRUPT: verification,
  JOURNAL_FORMAT_UNKNOWN: failed,
  JOURNAL_STOPPED: failed,
  JOURNAL_DIFFERS: verification,
  FACT_INVALID: failed,
  HEAD_SIGNATURE_INVALID: verification,
  HISTORY_UNPROVEN: verification,
  CHECKPOINT_INVALID: verification,
  COSIGNATURES_MISSING: verification,
} as const;
const fileCodes = {
  FILE_MISSING: notFound,
  FILE_EXISTS: usage,
  FILE_NOT_REGULAR: usage,
  FILE_FAILED: failed,
  DISK_FULL: failed,
  HOME_LOCKED: failed,
  HOME_TAKEN: failed,
  HOME_CHANGED: failed,
  HOME_FORMAT_UNKNOWN: failed,
  PATH_TOO_LONG: failed,
} as const;
const recoverCodes = {
  MODEL_NOT_FOUND: notFound,
  MODEL_PART_MISSING: notFound,
  LAYER_NOT_FOUND: notFound,
  MODEL_AMBIGUOUS: usage,
  MODEL_RETIRED: notFound,
  MODEL_ERASED: notFound,
  MODEL_CLAIMED: notFound,
  MODEL_DROPPED: failed,
  DROP_REFUSED: failed,
  AVERAGE_REFUSED: failed,
  REBUILD_FAILED: failed,
  RECOVERY_CANCELLED: failed,
  CLAIMS_OPEN: failed,
  ROOT_MISMATCH: verification,
  EXPORT_MISMATCH: verification,
  ENVIRONMENT_DIFFERENT: verification,
  RECOVERY_INCOMPLETE: partly,
  REPLAY_REFUTED: verification,
  REPLAY_INCOMPLETE: partly,
  REPLAY_TOO_LONG: failed,
  MODEL_HELD: failed,
  MODEL_IN_USE: failed,
  MODEL_REDUCED: usage,
  QUERY_INVALID: usage,
  QUERY_TOO_LARGE: failed,
  RETENTION_RULE_INVALID: usage,
} as const;
const trainCodes = {
  BACKEND_UNAVAILABLE: failed,
  OPERATION_MISSING: failed,
  MEMORY_EXHAUSTED: failed,
  MEMORY_FULL: failed,
  NOT_A_NUMBER: failed,
  OPTIMIZER_REFUSED: usage,
  RECIPE_UNKNOWN: notFound,
  RECIPE_PARAMETERS_INVALID: usage,
  RECIPE_INVALID: failed,
  RECIPE_FAILED: failed,
  RECIPE_NOT_APPROVED: failed,
  RECIPE_INEXACT: verification,
  CONFINEMENT_FAILED: failed,
  DATASET_UNKNOWN: notFound,
  DATASET_KIND_UNCLEAR: usage,
  DATASET_MALFORMED: failed,
  DATASET_EMPTY: failed,
  DATASET_IN_USE: failed,
  DATA_MANIFEST_INVALID: failed,
  ENGINE_HASH_MISMATCH: verification,
  MACHINE_INEXACT: verification,
  ENGINE_INVALID: failed,
  ENGINE_IN_USE: failed,
  MODEL_OPAQUE: usage,
  TRAINING_STOPPED: failed,
  TRAINING_TOO_LONG: failed,
  TRAINER_FAILED: failed,
  TRAINER_TIMED_OUT: timedOut,
  HOOK_FAILED: failed,
  TRAINER_OUTPUT_INVALID: failed,
  TRAINER_OUTPUT_TOO_LARGE: failed,
  RECORDER_UNAVAILABLE: failed,
  RANDOM_PROFILE_INVALID: verification,
  REPLAY_DIVERGED: verification,
  TENSORS_LEAKED: failed,
} as const;
const wireCodes = {
  ENVELOPE_MALFORMED: failed,
  ENVELOPE_TOO_LARGE: failed,
  PROTOCOL_VERSION_UNSUPPORTED: failed,
  TOPIC_INVALID: failed,
  TOPIC_FORBIDDEN: failed,
  TRANSFER_UNKNOWN: notFound,
  TRANSFER_MANIFEST_INVALID: failed,
  BLOCK_HASH_MISMATCH: verification,
  BLOCK_SIZE_MISMATCH: verification,
  TRANSFER_STALLED: timedOut,
  SIZE_OVER_LIMIT: failed,
  IDENTITY_FOREIGN: failed,
  ANNOUNCE_INVALID: failed,
  BASE_MISSING: notFound,
  QUOTA_EXCEEDED: failed,
  DEVICE_QUARANTINED: failed,
} as const;
const trustCodes = {
  KEY_INVALID: failed,
  SIGNER_FAILED: failed,
  SIGNATURE_INVALID: verification,
  TOKEN_INVALID: failed,
  TOKEN_EXPIRED: failed,
  DEVICE_UNKNOWN: notFound,
  DEVICE_REVOKED: failed,
  ENROLMENT_INVALID: usage,
  CERTIFICATE_REFUSED: failed,
  CERTIFICATE_ENDED: failed,
  CLOCK_NOT_TRUSTED: failed,
  RECEIPT_INVALID: verification,
  RELEASE_METADATA_INVALID: verification,
  RELEASE_ROLLED_BACK: verification,
  RELEASE_EXPIRED: verification,
  RELEASE_MISMATCH: verification,
  RELEASE_REQUIRED: verification,
  RELEASE_REVOKED: verification,
  RELEASE_UNKNOWN: notFound,
} as const;
const serverCodes = {
  PORT_TAKEN: failed,
  SERVER_UNREACHABLE: failed,
  HTTP_REQUEST_INVALID: usage,
  NOT_ALLOWED: failed,
  BACKUP_INVALID: failed,
  NAME_INVALID: usage,
  NAME_UNLIKELY: usage,
  SHAPE_DIFFERENT: failed,
  BASE_UNRELATED: failed,
} as const;
const agentCodes = {
  CONFIG_INVALID: usage,
  PROFILE_INVALID: usage,
  LABEL_INVALID: usage,
  SETTING_INVALID: usage,
  SELECTION_INVALID: usage,
  ROLLOUT_UNKNOWN: notFound,
  ROLLOUT_INVALID: usage,
  ROLLOUT_REACHES_NOBODY: failed,
  SEARCH_SPACE_INVALID: usage,
  SEARCH_OTHER: usage,
  SEARCH_DAMAGED: failed,
  SEARCH_RUNS: failed,
  SEARCH_WORKER_LOST: failed,
  OUTBOX_CORRUPT: verification,
  DISK_BUDGET_EXHAUSTED: failed,
  SAMPLE_INVALID: failed,
  SAMPLE_QUOTA: failed,
  SLOT_CORRUPT: verification,
  AGENT_UNREACHABLE: failed,
  LINE_UNKNOWN: notFound,
  TRAINING_REFUSED: failed,
  TRIAL_REFUSED: failed,
} as const;
const deltaCodes = {
  DELTA_MALFORMED: verification,
  DELTA_REFERENCE_MISSING: notFound,
  DELTA_CODE_UNKNOWN: failed,
} as const;
const plannerCodes = {
  STORAGE_GRAPH_INVALID: failed,
  BUDGET_UNREACHABLE: usage,
  PLAN_INVALID: verification,
} as const;
const progressiveCodes = { PROGRESSIVE_UNSUPPORTED: usage, PROGRESSIVE_DIFFERS: verification } as const;
const commandCodes = {
  USAGE: usage,
  NOT_FOUND: notFound,
  TIMED_OUT: timedOut,
  INTERRUPTED: interrupted,
  CHECK_FAILED: verification,
  INTERNAL: failed,
} as const;

const codes = {
  ...tensorCodes,
  ...modelCodes,
  ...objectCodes,
  ...journalCodes,
  ...fileCodes,
  ...recoverCodes,
  ...trainCodes,
  ...wireCodes,
  ...trustCodes,
  ...serverCodes,
  ...agentCodes,
  ...deltaCodes,
  ...plannerCodes,
  ...progressiveCodes,
  ...commandCodes,
} as const;

export type ErrorCode = keyof typeof codes;

export interface StemmaErrorDetails {
  readonly cause?: unknown;
  readonly [field: string]: unknown;
}

/** An error with a code to match on and a message that states what happened, where, and what to do next. */
export class StemmaError<Code extends ErrorCode = ErrorCode> extends Error {
  readonly code: Code;
  readonly details: Readonly<Record<string, unknown>>;
  constructor(code: Code, message: string, { cause, ...details }: StemmaErrorDetails = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "StemmaError";
    this.code = code;
    this.details = details;
  }
  get exitStatus(): ExitStatus {
    return codes[this.code];
  }
}

/** The maker of a room's errors of one code: `const corrupt = errorOf("PACK_CORRUPT")`. */
export const errorOf =
  (code: ErrorCode) =>
  (text: string, details?: StemmaErrorDetails): StemmaError =>
    new StemmaError(code, text, details);

/** True if a caught value is a StemmaError, of the given code where one is named. */
export function isStemmaError<Code extends ErrorCode>(
  error: unknown,
  code?: Code,
): error is StemmaError<Code> {
  return error instanceof StemmaError && (code === undefined || (error.code as ErrorCode) === code);
}

/** True if a string received from elsewhere is one of our codes. */
export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(codes, text);
}
