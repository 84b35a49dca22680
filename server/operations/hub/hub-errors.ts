/** Errors of bundles, deposits and the hub. */
import { formatBytes } from "../../../shared/cli/output.js";
import { counted } from "../../../shared/printable.js";
import { StemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";

export const bundleInvalid = (what: string, cause?: unknown): StemmaError =>
  new StemmaError(
    "BUNDLE_INVALID",
    `What was sent is not a bundle of models: ${what}. Nothing of it is visible; have its sender make it again.`,
    { cause },
  );

export const bundleCut = (left: number): StemmaError =>
  new StemmaError(
    "BUNDLE_INVALID",
    `The bundle ends ${left} bytes before its end. Run the command again: what came whole is not sent again.`,
    { left },
  );

export const objectsNotSent = (count: number): StemmaError =>
  new StemmaError(
    "REFERENCE_MISSING",
    `${counted(count, "object that the models need was", "objects that the models need were")} not sent. Run the command again.`,
    { count },
  );

export const objectsNotNamed = (id: Hash): StemmaError =>
  new StemmaError(
    "BUNDLE_INVALID",
    `The models need ${id.slice(0, 12)}, which the bundle does not name. A device that sent its own samples names ` +
      "them in its record: send such a model with --with-data.",
    { id },
  );

export const notAHub = (): StemmaError =>
  new StemmaError(
    "NOT_ALLOWED",
    "This server is not a hub: nothing is published to it or pulled from it. Its operator can set " +
      '"hub": {"enabled": true} in server.json.',
  );

export const noDeposit = (): StemmaError =>
  new StemmaError(
    "NOT_FOUND",
    "This sender has no deposit of this name: it was finished, or nothing came for an hour. Run the command again.",
  );

export const tooManyDeposits = (most: number, whose: "one sender" | "a fleet"): StemmaError =>
  new StemmaError(
    "QUOTA_EXCEEDED",
    `${most} deposits are open, the most that ${whose} may have. Try again when one was finished, or in an hour.`,
  );

export const tooMuchUnfinished = ({
  held,
  bytes,
  most,
}: {
  readonly held: number;
  readonly bytes: number;
  readonly most: number;
}): StemmaError =>
  new StemmaError(
    "QUOTA_EXCEEDED",
    `Unfinished uploads have ${formatBytes(held)} of the ${formatBytes(most)} that this fleet of the hub gives them, ` +
      `and ${formatBytes(bytes)} more do not fit. What came stays: try again when other uploads are finished. The ` +
      "hub's operator can free dropped ones with `stemma storage gc`, or raise hub.unfinishedBytes in server.json.",
    { held, bytes, most },
  );

export const proofWrong = (): StemmaError =>
  new StemmaError(
    "NOT_ALLOWED",
    "The proof is not that of these objects: a hash alone gives no right to them. Publish from a repository that has " +
      "them.",
  );

export const otherLicence = (id: Hash, license: string): StemmaError =>
  new StemmaError(
    "NOT_ALLOWED",
    `Another sender has stated the licence ${license} for ${id.slice(0, 12)}, which stays. Leave --license away, or have ` +
      "an operator of the hub state another.",
    { id, license },
  );

export const samplesNotAllowed = (): StemmaError =>
  new StemmaError("NOT_ALLOWED", "This token may not read stored samples. Leave --with-data away.");

export const bundleTooLarge = (what: string, most: number): StemmaError =>
  new StemmaError(
    "SIZE_OVER_LIMIT",
    `The models have more than ${most} ${what} with all their parents. Send fewer generations with --depth.`,
    { most },
  );
