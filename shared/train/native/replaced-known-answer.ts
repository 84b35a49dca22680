/** Takes the place of ../known-answer.ts in the native runner: the reference training that its class names. */
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { knownAnswer as referenceTraining, type KnownAnswerPorts } from "../known-answer.js";
import { runsDisagree } from "./native-class.js";
import { readManifest } from "./start-native.js";

/**
 * Trains the reference again, so that a library, driver or processor that changed is noticed before a training. Where
 * linking found that two runs disagree, there is nothing to compare.
 */
export async function knownAnswer(ports: KnownAnswerPorts): Promise<string> {
  const { class: recorded } = await readManifest(dirname(fileURLToPath(import.meta.url)));
  return recorded.referenceTraining === runsDisagree ? runsDisagree : await referenceTraining(ports);
}
