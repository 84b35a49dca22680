/** Errors of the root of releases that a device pinned, and of models that its owner did not release. */
import { StemmaError } from "../../shared/errors.js";
import type { Hash } from "../../shared/tensor/tensor.js";

// The pinned root.
export const pinDamaged = (path: string): StemmaError =>
  new StemmaError(
    "CONFIG_INVALID",
    `${path}, the root of releases that this device pinned, is damaged. Pin it again with \`stemma agent trust FILE --replace\`.`,
    { path },
  );
export const otherRootPinned = (): StemmaError =>
  new StemmaError(
    "NOT_ALLOWED",
    "This device has pinned another root of releases, or another policy. Add --replace if its owner means to change that.",
  );
export const rootTooLong = (): StemmaError =>
  new StemmaError(
    "USAGE",
    "That file is too long for a root of releases. Name what `stemma release root` wrote.",
  );

// Models and recipes.
export const revoked = (what: string, because: string, versionId: Hash): StemmaError =>
  new StemmaError(
    "RELEASE_REVOKED",
    `The fleet's owner revoked ${what} (${because}). This device does not use it; assign or approve another.`,
    { versionId },
  );
export const notReleased = (rule: string, what: string, why: string, versionId: Hash): StemmaError =>
  new StemmaError("RELEASE_REQUIRED", `This device ${rule}, and ${what} is not among them: ${why}.`, {
    versionId,
  });
export const otherPipeline = (name: string): StemmaError =>
  new StemmaError(
    "RELEASE_MISMATCH",
    `The input pipeline that is offered with the release ${name} is not the one that the fleet's owner signed. Nothing was installed; create the release again from the version that is meant.`,
    { name },
  );
