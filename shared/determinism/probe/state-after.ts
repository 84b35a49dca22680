/**
 * Runs a segment of a training to one of its steps, and hashes each array of the state after it. Where two machines
 * part in that step, this says in which weights. The steps are the engine's own. Runs in the probe's process.
 */
import { sha256 } from "../../tensor/hash.js";
import { fit } from "../../train/fit.js";
import { beginTraining, type TrainingBase, type TrainingPorts } from "../../train/run-training.js";
import { leafOf, leafParts } from "../../train/state-leaf.js";
import type { FitSnapshot, FitState } from "../../train/training-state.js";
import type { TrainingJob } from "../../train/training.js";
import type { StateAfter, StateAfterJob } from "./state-after-job.js";

export interface StepWanted extends Pick<StateAfterJob, "step" | "isEnd"> {
  /** The state to begin from; undefined: it begins before the first step. */
  readonly state: FitState | undefined;
}

/** @returns undefined where the training ends before that step */
export async function stateAfter(
  job: TrainingJob,
  base: TrainingBase | undefined,
  ports: TrainingPorts,
  { state, step, isEnd }: StepWanted,
): Promise<StateAfter | undefined> {
  const { model, set, plan, streams, resume } = await beginTraining(job, base, ports);
  let found: StateAfter | undefined;
  try {
    await fit({
      tf: ports.tf,
      model,
      samples: set,
      plan,
      streams,
      resumeFrom: resume?.state,
      continueFrom: state,
      hooks: {
        onPoint: (point, iteration, snapshot) => {
          if (point === "begin" || iteration < step) return false;
          if (iteration === step) found = hashesOf(snapshot());
          return !isEnd || point === "end" || iteration > step;
        },
      },
    });
    return found;
  } finally {
    model.dispose();
  }
}

function hashesOf(snapshot: FitSnapshot): StateAfter {
  const arrays = snapshot.arrays.map(({ name, read }) => {
    const { buffer, byteOffset, byteLength } = read();
    return { name, hash: sha256(new Uint8Array(buffer, byteOffset, byteLength)) };
  });
  return { leaf: leafOf(leafParts(snapshot)), arrays };
}
