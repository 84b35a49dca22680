/** One sequence of steps that calls every operation of the table, for tests of all ways into a store. */
import { authoritySteps } from "./steps/authority-steps.js";
import { deviceSteps } from "./steps/device-steps.js";
import { modelSteps } from "./steps/model-steps.js";
import { rolloutSteps } from "./steps/rollout-steps.js";
import { serverSteps } from "./steps/server-steps.js";
import type { Step } from "./steps/step.js";
import { storageSteps } from "./steps/storage-steps.js";
import { trainingSteps } from "./steps/training-steps.js";
import { upkeepSteps } from "./steps/upkeep-steps.js";

/** @param backupFolder the beginning of the names of the folders that they make */
export function steps(backupFolder: string): readonly Step[] {
  return [
    ...modelSteps,
    ...deviceSteps,
    ...authoritySteps,
    ...rolloutSteps,
    ...upkeepSteps,
    ...trainingSteps,
    ...storageSteps,
    ...serverSteps(backupFolder),
  ];
}
