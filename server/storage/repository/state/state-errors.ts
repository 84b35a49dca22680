/** Errors of facts that do not fit the state of a fleet, sorted by what they are about. */
import { type ErrorCode, errorOf, StemmaError, type StemmaErrorDetails } from "../../../../shared/errors.js";
import { notThere, quoted } from "../../../../shared/missing-errors.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

const notAllowed = errorOf("NOT_ALLOWED");
const invalidFact = errorOf("FACT_INVALID");
const invalidName = errorOf("NAME_INVALID");
const modelRetired = errorOf("MODEL_RETIRED");
const refused = errorOf("CERTIFICATE_REFUSED");

interface NamedVersion {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
}
type RetiredVersion = NamedVersion & { readonly retired?: { readonly because: string } | undefined };

// The fleet does not have it, or has it already.
const unknown = (code: ErrorCode, what: string, list: string, details?: StemmaErrorDetails): StemmaError =>
  notThere(code, `This fleet has no ${what}`, list, details);
export const deviceUnknown = (device: string): StemmaError =>
  unknown("DEVICE_UNKNOWN", `device ${quoted(device)}`, "device list", { device });
export const batchUnknown = (name: string): StemmaError =>
  unknown("NOT_FOUND", `batch ${quoted(name)}`, "device batch list");
export const authorityUnknown = (name: string): StemmaError =>
  unknown("NOT_FOUND", `authority ${quoted(name)}`, "authority list");
export const rolloutUnknown = (name: string): StemmaError =>
  unknown("ROLLOUT_UNKNOWN", `rollout ${quoted(name)}`, "rollout status", { rollout: name });
export function modelNotFound(reference: string): StemmaError {
  const asked = reference.slice(0, 300);
  return unknown("MODEL_NOT_FOUND", `model ${JSON.stringify(asked)}`, "model list", { reference: asked });
}
export const versionUnknown = (versionId: Hash): StemmaError =>
  unknown("MODEL_NOT_FOUND", `version ${versionId}`, "model list", { versionId });
/** @param mayWrite false: the index is read beside whoever writes it */
export const indexDamaged = (
  {
    fleet,
    folder,
    mayWrite,
  }: { readonly fleet: string; readonly folder: string; readonly mayWrite: boolean },
  cause: Error,
): StemmaError =>
  new StemmaError(
    mayWrite ? "STORE_FAILED" : "HOME_CHANGED",
    `The index of fleet ${fleet} is damaged: ${cause.message} No model and no fact is lost; ` +
      (mayWrite
        ? "run it again, or start the server again."
        : `run it again, and where that does not help, delete the folder ${folder}: it is made again.`),
    { fleet, cause },
  );
export const recordMissing = (versionId: Hash): StemmaError =>
  new StemmaError(
    "OBJECT_MISSING",
    `The save record ${versionId} is not in the store. Run \`stemma storage check\`, and restore it from a backup.`,
    { id: versionId },
  );
export const batchExists = (batch: string): StemmaError =>
  invalidName(
    `There is a batch ${batch} already. Choose another name; \`stemma device batch list\` lists them.`,
    { batch },
  );
export const rolloutExists = (name: string, phase: string): StemmaError =>
  notAllowed(
    `There is a rollout ${name} already (${phase}; stemma rollout status ${name}), and its history stays. Give the new one another name.`,
    { rollout: name },
  );

// Versions that are not for this.
export const needsUnknown = (versionId: Hash, cause: unknown): StemmaError =>
  new StemmaError(
    "COLLECTION_REFUSED",
    `The objects that ${versionId} needs cannot be determined, so nothing can be collected. Run \`stemma storage check\` and restore it, or retire that version.`,
    { versionId, cause },
  );
export const versionRetired = (
  { versionId, name, version, retired }: RetiredVersion,
  so: string,
): StemmaError =>
  modelRetired(`${name}:${version} is retired (${retired?.because}), so it ${so}. Choose another version.`, {
    versionId,
  });
export const allRetired = (name: string, count: number): StemmaError =>
  modelRetired(
    `All ${count} versions of ${JSON.stringify(name)} are retired. \`stemma model show NAME:VERSION\` shows what is still known about one.`,
    { name },
  );
export const versionErased = (
  { versionId, name, version }: NamedVersion,
  device: string | undefined,
  erased: { readonly atMs: number; readonly because: string },
): StemmaError =>
  new StemmaError(
    "MODEL_ERASED",
    `${name}:${version} was erased with its device ${device} on ${new Date(erased.atMs).toISOString()} (${erased.because}): its name, parents and times are kept, its tensors and data are not. Choose another version.`,
    { versionId, device },
  );
export const versionHeld = (
  { versionId, name, version }: NamedVersion,
  hold: string,
  so: string,
): StemmaError =>
  new StemmaError(
    "MODEL_HELD",
    `${name}:${version} is held ${hold}, so it ${so}. Remove that hold first: stemma model unhold ${name}:${version} --because TEXT.`,
    { versionId },
  );
export const versionInUse = (versionId: Hash, name: string, use: string): StemmaError =>
  new StemmaError(
    "MODEL_IN_USE",
    `${name} is ${use} and cannot be retired. ` +
      (use.startsWith("needed ")
        ? "Store the tensors of that one again first (stemma model keep), or retire it too."
        : "Give the device another version, or revoke it."),
    { versionId, use },
  );
export const neededByReplay = (versionId: Hash, name: string): StemmaError =>
  notAllowed(
    `${name} is recovered by a replay, which needs its story. Store its tensors again first: stemma model keep ${name}.`,
    { versionId },
  );
export const versionDropped = (versionId: Hash, name: string): StemmaError =>
  new StemmaError(
    "MODEL_DROPPED",
    `The tensors of ${name} were dropped, and a device would have to wait for its replay. Store its tensors again first: stemma model keep ${name}.`,
    { versionId },
  );

// Names and tags.
export const nameInvalid = (kind: string, name: string, rule: string): StemmaError =>
  invalidName(`${quoted(name)} is not a valid name of a ${kind}: ${rule}.`, {
    what: kind,
    name: name.slice(0, 80),
  });
export const tagLikeVersion = (tag: string): StemmaError =>
  invalidName(
    `The tag ${JSON.stringify(tag)} would read as a version number in name:version. Use one with a letter in it.`,
    { tag },
  );
export const tagOfAnotherName = (name: string, known: string): StemmaError =>
  invalidFact(
    `A tag of ${JSON.stringify(name)} must name one of its versions; this one is of ${JSON.stringify(known)}.`,
    { name },
  );
export const nameReserved = (device: string): StemmaError =>
  invalidName(
    `The name ${JSON.stringify(device)} is reserved for models that the server made. Choose another name for the device.`,
    { device },
  );
export const exactAndReduced = (name: string, existing: string, added: string, suffix: string): StemmaError =>
  new StemmaError(
    "MODEL_REDUCED",
    `The versions named ${JSON.stringify(name)} are ${existing}; ${added} one under the same name could be mistaken for one of them. Choose another name, such as ${JSON.stringify(`${name}-${suffix}`)}.`,
    { name },
  );

// Devices and their certificates.
export const onlyRevoked = (device: string, status: string | undefined, todo: string): StemmaError =>
  notAllowed(
    `${device} is ${status}, and only a revoked device can be ${todo}. Revoke it first: stemma device revoke ${device} --because TEXT.`,
    { device },
  );
export const notQuarantined = (device: string, status: string | undefined): StemmaError =>
  notAllowed(`${device} is not quarantined; it is ${status}. Nothing was changed.`, { device });
export const enrolledMeanwhile = (device: string, next: number, generation: number): StemmaError =>
  invalidFact(
    `The device ${device} was enrolled by someone else meanwhile: its next generation is ${next}, not ${generation}. Look at \`stemma device show ${device}\`, and enrol it again if it still has to be.`,
    { device },
  );
export const certificateEndedHere = (serial: string): StemmaError =>
  refused(
    `The certificate ${serial} was used by a device that was revoked, and is not taken again. Have another one issued for the device.`,
    { serial },
  );
export const listNotNewer = (authority: string, number: string, known: string): StemmaError =>
  refused(
    `The revocation list is not newer than the one that ${authority} has: it has the number ${number}, and number ${known} was taken already. Nothing was changed.`,
    { authority },
  );

// Rollouts.
/** @param why "so it cannot become running", "or was changed meanwhile" */
export const rolloutNotSo = (name: string, phase: string, why: string): StemmaError =>
  notAllowed(`The rollout ${name} is ${phase}, ${why}. See \`stemma rollout status ${name}\`.`, {
    rollout: name,
    phase,
  });
export const approvalMissing = (name: string, phase: string): StemmaError =>
  notAllowed(
    `The rollout ${name} starts only when somebody else than its creator has approved it: stemma rollout approve ${name}`,
    { rollout: name, phase },
  );

// Other facts.
export const onlyThroughMethods = (): StemmaError =>
  invalidFact(
    "Versions, claims, evaluations, releases and what is dropped are recorded through methods that check what they refer to. Use those.",
  );
