/** Errors of trials on live inputs and of their observations. */
import { errorOf, StemmaError } from "../../shared/errors.js";
import type { Hash } from "../../shared/tensor/tensor.js";

const refused = errorOf("TRIAL_REFUSED");

export const notHereYet = (line: string, versionId: Hash): StemmaError =>
  new StemmaError(
    "MODEL_NOT_FOUND",
    `The line ${line} has no model ${versionId.slice(0, 12)} on this device yet. It goes on trial when it is here.`,
    { line, versionId },
  );
export const otherModelRuns = (line: string, before: Hash): StemmaError =>
  refused(
    `The line ${line} does not run ${before.slice(0, 12)}, with which the version is to be compared. The server asks again when it knows what runs.`,
    { line },
  );
export const notOnTrial = (line: string, versionId: Hash, running: Hash): StemmaError =>
  refused(
    `The line ${line} does not have ${versionId.slice(0, 12)} on trial beside ${running.slice(0, 12)}. Ask with {"do": "trial", "line": ${JSON.stringify(line)}} what is on trial now.`,
    { line, versionId },
  );
/** @param at the position of the observation in its request */
export const observationInvalid = (at: number, why: string): StemmaError =>
  new StemmaError(
    "SAMPLE_INVALID",
    `The observation ${at} cannot be used: ${why}. Nothing of the request was taken. Correct it and send it again; docs/live-trials.md describes observations.`,
    { at },
  );
