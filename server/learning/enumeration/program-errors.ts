/** Errors of candidates that a program of the user's own trains: each is the reason why one became no version. */
import { isStemmaError, StemmaError, type ErrorCode } from "../../../shared/errors.js";
import { printable } from "../../../shared/printable.js";
import type { ProgramKind } from "../../../shared/programs/run-command.js";

export const programKind: ProgramKind = {
  title: "program",
  setting: "trainer",
  outcome: "This candidate was not trained",
  afterwards: "the same command goes on with it",
};

/** Errors of one candidate, after which the others go on. */
export const programFaults: ReadonlySet<string> = new Set<ErrorCode>([
  ...(["TRAINER_FAILED", "TRAINER_TIMED_OUT", "TRAINER_OUTPUT_INVALID", "TRAINER_OUTPUT_TOO_LARGE"] as const),
  ...(["SAFETENSORS_MALFORMED", "SAFETENSORS_TRUNCATED", "MODEL_FILE_MALFORMED"] as const),
  ...(["ARCHITECTURE_MISMATCH", "NOT_A_NUMBER"] as const),
]);

/** A program writes what it likes: nothing of that may control a terminal. */
export function ofProgram(error: unknown): unknown {
  if (!isStemmaError(error) || !programFaults.has(error.code)) return error;
  const { code, details } = error;
  const { stderr, signal, timeoutSeconds, maxBytes } = details;
  const fault = (text: string): StemmaError => new StemmaError(code, text, { cause: error });
  if (code === "TRAINER_TIMED_OUT")
    return fault(
      `its program did not end within ${Number(timeoutSeconds)} s (timeoutSeconds in its settings, or --max-minutes)`,
    );
  if (code === "TRAINER_OUTPUT_TOO_LARGE")
    return fault(
      `its program wrote more than ${Number(maxBytes)} bytes, or very many files (at most maxOutputBytes in its ` +
        "settings, and half of what is free on the disk)",
    );
  if (code !== "TRAINER_FAILED" || typeof stderr !== "string") return fault(printable(error.message));
  const how = typeof signal === "string" ? signal : `status ${Number(details["code"])}`;
  const wrote = printable(stderr.slice(-300)).trim();
  return fault(`its program ended with ${how}${wrote === "" ? "" : `; it wrote: ${wrote}`}`);
}

export const killedAgain = (cause: unknown): StemmaError =>
  new StemmaError(
    "TRAINER_FAILED",
    "its program was killed twice by something else: perhaps memory ran out",
    {
      cause,
    },
  );

export const otherModel = (difference: string, cause?: unknown): StemmaError =>
  new StemmaError("ARCHITECTURE_MISMATCH", `its program left a model of another network: ${difference}`, {
    cause,
  });

export const changedFrozen = (tensor: string): StemmaError =>
  new StemmaError(
    "TRAINER_OUTPUT_INVALID",
    `its program changed the tensor ${printable(tensor)}, whose layer was not to be trained (frozenLayers)`,
  );

export const otherDirection = ({ name }: { readonly name: string }): StemmaError =>
  new StemmaError(
    "TRAINER_OUTPUT_INVALID",
    `its program states the other direction for ${printable(name)} (lowerIsBetter) than its settings do`,
  );
