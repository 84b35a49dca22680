/** Errors of a device's settings: their files, agent.json, and profiles. */
import { messageOf } from "../../shared/error-text.js";
import { errorOf, StemmaError, type ErrorCode, type StemmaErrorDetails } from "../../shared/errors.js";

const configInvalid = errorOf("CONFIG_INVALID");
const profileInvalid = errorOf("PROFILE_INVALID");

// Files.
export const noFile = (path: string, code: ErrorCode): StemmaError =>
  new StemmaError(code, `The file ${path} does not exist. Check the path.`, { path });
export const fileTooLong = (path: string, bytes: number, maxBytes: number, code: ErrorCode): StemmaError =>
  new StemmaError(
    code,
    `The file ${path} has ${bytes} bytes, more than the ${maxBytes} allowed. Check that it is the right file.`,
    { path },
  );
export const notJson = (path: string, cause: unknown, code: ErrorCode): StemmaError =>
  new StemmaError(code, `The file ${path} is not JSON: ${messageOf(cause)}. Correct it there.`, {
    path,
    cause,
  });

// agent.json, and requests beside it.
const configUnusable = (config: string, why: string, details: StemmaErrorDetails): StemmaError =>
  configInvalid(
    `The agent's ${config} is not usable: ${why} Correct that field and start the agent again.`,
    details,
  );
export const configFieldInvalid = (where: string, why: string): StemmaError =>
  configUnusable(`configuration ${where}`, `${why}.`, { where });
export const recipeNameInvalid = (line: string, recipe: string): StemmaError =>
  configUnusable(
    "configuration",
    `lines.${line}.recipe: ${JSON.stringify(recipe)} cannot be the name of a fleet's own recipe, which has small letters, digits and hyphens.`,
    { line },
  );
export const recipeUnusable = (line: string, field: string, cause: StemmaError): StemmaError =>
  configUnusable("configuration", `${field}: ${cause.message}`, { line, cause });
export const parameterRefused = (line: string, problem: string): StemmaError =>
  new StemmaError(
    "RECIPE_PARAMETERS_INVALID",
    `${problem} Correct the request; ${line} is trained by a program of the device's own.`,
    { line },
  );

// Profiles.
export const profileUnusable = (where: string, why: string): StemmaError =>
  profileInvalid(
    `The profile ${where} is not usable: ${why}. Correct that field; firmware-profiles/schema.json describes them all.`,
    { where },
  );
export const budgetReserved = (where: string, reserved: number, budgetBytes: number): StemmaError =>
  profileInvalid(
    `The profile ${where} reserves ${reserved} bytes (disk.reserveBytes) of a budget of ${budgetBytes} (disk.budgetBytes), so nothing could ever be trained. Raise the budget or lower the reserves.`,
    { where },
  );
export const noHourOfDuty = (
  where: string,
  hours: { readonly from: number; readonly to: number },
): StemmaError =>
  profileInvalid(
    `The profile ${where} has duty hours from ${hours.from} to ${hours.to}, which contain no hour (training.dutyHours). Write null for the full day.`,
    { where },
  );
export const noSuchProfile = (name: string, known: readonly string[]): StemmaError =>
  profileInvalid(
    `The profile "${name}" does not exist. Choose one of ${known.join(", ")}, or give the absolute path of a .json file.`,
    { known },
  );
