/** Errors of the server's commands to an agent, whose bodies are not what the command takes. */
import { messageOf } from "../shared/error-text.js";
import { errorOf, StemmaError } from "../shared/errors.js";

const wrongUse = errorOf("USAGE");

export const bodyNotJson = (command: string, cause: unknown): StemmaError =>
  wrongUse(
    `The body of the command "${command.slice(0, 40)}" is not JSON: ${messageOf(cause)}. Correct it and send it again.`,
    { cause },
  );
export const bodyNotObject = (command: string): StemmaError =>
  wrongUse(
    `The body of the command "${command.slice(0, 40)}" is not a JSON object. Correct it and send it again.`,
  );
export const versionNotNamed = (): StemmaError =>
  new StemmaError(
    "MODEL_NOT_FOUND",
    "The command does not name a version id of 64 hexadecimal digits. Send it again with the member versionId.",
  );
export const evaluateInvalid = (): StemmaError =>
  wrongUse(
    "The command evaluate takes at most two version ids of 64 hexadecimal digits as versionIds. Correct it and send it again.",
  );
export const trialInvalid = (): StemmaError =>
  wrongUse(
    "The command trial takes line, rollout and versionId, and either end, or before, inputs and minutes. Correct it and send it again.",
  );
export const trainingNotNamed = (): StemmaError =>
  wrongUse(
    "A training is named by line and base, the id of the version that it begins from; training-course takes steps, too. Correct it and send it again.",
  );
export const stateNotNamed = (): StemmaError =>
  wrongUse(
    "The command kept-state takes versionId, step and at, the place where the part begins. Correct it and send it again.",
  );
export const segmentNotNamed = (): StemmaError =>
  wrongUse(
    "The command segment-leaves takes versionId, fromStep, toStep, isLast and everySteps, for at most 1,024 leaves. Correct it and send it again.",
  );
export const conditionsInvalid = (): StemmaError =>
  wrongUse(
    "The command conditions takes power (true or false) and links, a list of kinds of link. Correct it and send it again.",
  );
