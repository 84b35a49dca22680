/** Errors that several operations share: fleets and lines that are not here, models of another form, limits. */
import { errorOf, StemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import { nearName } from "./near-name.js";

const unlikely = errorOf("NAME_UNLIKELY");

// Fleets and lines.
export function noFleet(fleet: string, names: readonly string[], where = "The home"): StemmaError {
  const near = nearName(fleet, names);
  const question = near === undefined ? "" : ` Did you mean "${near}"?`;
  return new StemmaError(
    "NOT_FOUND",
    `${where} has no fleet "${fleet}" (${names.length === 0 ? "it has none yet" : `it has ${names.join(", ")}`}).${question} Name another with --fleet, or start this one with an import or an enrolment.`,
    { fleet },
  );
}
export const fleetMisspelt = (fleet: string, near: string): StemmaError =>
  unlikely(
    `There is no fleet ${JSON.stringify(fleet)} here, and there is ${JSON.stringify(near)}: did you mean that one? Nothing was changed. For a new fleet of this name, enrol its first device or import its first model with --force (over HTTP: force).`,
    { fleet, near },
  );
export const lineMisspelt = (fleet: string, line: string, near: string): StemmaError =>
  unlikely(
    `The fleet ${fleet} has no line ${JSON.stringify(line)}, and has the line ${JSON.stringify(near)}: did you mean that one? Nothing was changed. For a new line of this name, repeat it with --force (over HTTP: force).`,
    { line, near },
  );

// Models of another form.
export const otherShape = (line: string, model: string, difference: string): StemmaError =>
  new StemmaError(
    "SHAPE_DIFFERENT",
    `${model} is of another shape than what the line ${line} has had ${difference}. Nothing was changed. Name the line or the model that is meant, or repeat it with --force (over HTTP: force) where the network changes.`,
    { line },
  );
export const otherNetwork = (
  name: string,
  base: Pick<VersionSummary, "versionId" | "name" | "version">,
  tensors: { readonly common: number; readonly all: number; readonly ofBase: number },
): StemmaError =>
  new StemmaError(
    "BASE_UNRELATED",
    `${name} is another network than its base ${base.name}:${base.version}: ${tensors.common} of its ${tensors.all} tensors have the shape of one of the base's ${tensors.ofBase}. Nothing was saved. Leave --base out, name the base that is meant, or repeat it with --force (over HTTP: force).`,
    { base: base.versionId },
  );
export const withoutArchitecture = (model: string, version: number, versionId: Hash): StemmaError =>
  new StemmaError(
    "MODEL_OPAQUE",
    `${model}:${version} has no architecture, because it is a file that is kept as it is or was imported without one: it can be stored, compared, delivered and recovered, but not trained, evaluated or written as model.json. Tensors are imported again with --arch model.json; a file is measured on devices, by a program of the line.`,
    { versionId },
  );

// Limits.
export const diskFull = (
  freeBytes: number,
  needed: string,
  reservedBytes: number,
  bytes: number,
): StemmaError =>
  new StemmaError(
    "DISK_FULL",
    `The server's disk is full: it has ${freeBytes} free bytes, and a new model needs ${needed}${reservedBytes} bytes that stay free for the journal. Nothing was stored. Free some space on the server, for example with \`stemma storage gc\`, and try again.`,
    { freeBytes, bytes, reservedBytes },
  );
export const tooManyRunning = (
  kind: string,
  maxRunning: number,
  instead: string,
  running: number,
): StemmaError =>
  new StemmaError(
    "QUOTA_EXCEEDED",
    `The limit of ${kind} that run at the same time is ${maxRunning}. Try again when one has ended.${instead}`,
    { running },
  );
