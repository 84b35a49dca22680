/** Errors of releases and rollouts that a caller may not publish or make. */
import { errorOf, StemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";

const notAllowed = errorOf("NOT_ALLOWED");

// Releases.
export const changeNotSigned = (missing: string): StemmaError =>
  new StemmaError(
    "RELEASE_METADATA_INVALID",
    `The change is not signed completely: ${missing}. Sign it with \`stemma release sign\`.`,
  );
export const firstReleases = (fleet: string, role: string): StemmaError =>
  notAllowed(
    `The fleet ${fleet} has no releases yet, and the first ones name the owner's keys. Publish these as an operator; the role ${role} publishes later ones.`,
    { fleet },
  );
export const timeStatedAlready = (number: number, published: number, fleet: string): StemmaError =>
  new StemmaError(
    "RELEASE_ROLLED_BACK",
    `The statement of the time has the number ${number}, and number ${published} is published already, so no device would take it. Write it again with \`stemma release time\`, and sign that.`,
    { fleet, number },
  );
export const recipeOfEngine = (recipe: string): StemmaError =>
  new StemmaError(
    "RECIPE_UNKNOWN",
    `The recipe ${recipe} is built in: devices have it with their engine. Name one of the fleet's own.`,
    { recipe },
  );

// Rollouts.
export const notSignedByOwner = (
  role: string,
  model: string,
  isRevoked: boolean,
  versionId: Hash,
): StemmaError =>
  notAllowed(
    `The role ${role} rolls out what the fleet's owner signed, and ${model} ${isRevoked ? "was revoked" : "is not signed"}. \`stemma release list\` shows what is; other versions need the role operator.`,
    { versionId },
  );
export const notApproved = (rollout: string): StemmaError =>
  notAllowed(
    `The rollout ${rollout} needs the approval of another person before it starts: create it without starting it, and have it approved with \`stemma rollout approve ${rollout}\`.`,
    { rollout },
  );
export const otherLinesRollout = (rollout: string, itsLine: string, line: string): StemmaError =>
  new StemmaError(
    "ROLLOUT_INVALID",
    `The rollout ${rollout} is of the line ${itsLine}, so one of ${line} cannot take its place. Abort it, or name one of the same line.`,
    { rollout, line },
  );
