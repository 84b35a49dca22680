/** Errors of releases and of what their owner signs, sorted by what they are about. */
import { errorOf, StemmaError } from "../../errors.js";
import { notThere } from "../../missing-errors.js";

const mismatch = errorOf("RELEASE_MISMATCH");
const goesBack = errorOf("RELEASE_ROLLED_BACK");

const invalidMetadata = (text: string, cause: unknown): StemmaError =>
  new StemmaError("RELEASE_METADATA_INVALID", text, { cause });

// Statements and manifests that are not accepted.
export const metadataInvalid = (why: string, cause?: unknown): StemmaError =>
  invalidMetadata(
    `The metadata of releases is not accepted: ${why}. Nothing was changed; publish what the fleet's owner signed.`,
    cause,
  );
export const ownerTimeInvalid = (why: string, cause?: unknown): StemmaError =>
  invalidMetadata(
    `The owner's statement of the time is not accepted: ${why}. Nothing was changed; write it again with \`stemma release time\`, and sign it.`,
    cause,
  );
export const restoreInvalid = (why: string, cause?: unknown): StemmaError =>
  invalidMetadata(
    `The owner's statement of a restore is not accepted: ${why}. Nothing was changed; write it again with \`stemma journal restored\`, and sign it.`,
    cause,
  );
export const manifestMismatch = (name: string, why: string): StemmaError =>
  mismatch(
    `The manifest of the release ${name} is not accepted: ${why}. Nothing was changed; create the release again from the version that is meant.`,
    { name },
  );

// Keys and names.
export const keySignsNothing = (publicKey: string, what: string): StemmaError =>
  new StemmaError(
    "KEY_INVALID",
    `The key ${publicKey.slice(0, 16)}… does not sign ${what}. Sign with a key that \`stemma release show\` lists for it.`,
  );
export const noRelease = (name: string, among: string): StemmaError =>
  notThere("RELEASE_UNKNOWN", `There is no release ${name} ${among}`, "release list", { name });
export const nameOfOtherKind = (name: string, recipePrefix: string): StemmaError =>
  mismatch(
    `Names of released recipes begin with ${recipePrefix}, and no others do; ${name} does not fit. Choose another with --name.`,
    { name },
  );
export const releaseExists = (name: string, isSameVersion: boolean): StemmaError =>
  mismatch(
    isSameVersion
      ? `There is a release ${name} of this version already, with another manifest: it was made with another input pipeline, or without one. Choose another name with --name: devices take what either has.`
      : `There is a release ${name} already, of another version. Choose another name with --name.`,
    { name },
  );

// Metadata that goes back, differs or has expired.
export const rolledBack = (what: string, before: number, after: number): StemmaError =>
  goesBack(
    `The metadata of releases goes back: ${what} has version ${after}, and version ${before} was seen already. Publish what was signed last.`,
  );
export const changedContent = (role: string, version: number): StemmaError =>
  goesBack(
    `The metadata of releases has another ${role} version ${version} than was seen before. Sign it again under the next number.`,
  );
export const releasesExpired = (role: string, version: number, expires: string): StemmaError =>
  new StemmaError(
    "RELEASE_EXPIRED",
    `The metadata of releases has expired: ${role} version ${version} was valid until ${expires}. Sign it again with \`stemma release refresh\`, and publish it.`,
    { role, expires },
  );
