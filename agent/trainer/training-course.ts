/** The losses of a running training, as its saved state has them: the same for the same training. */
import { join } from "node:path";
import type { Files } from "../../shared/ports.js";
import { savedProgress } from "../../shared/train/saved-progress.js";
import { stateFileName } from "../../shared/train/training-state.js";
import type { TrainingCourse } from "../../shared/wire/judged-training.js";

/** @returns no measurement before the training has saved a state after so many steps */
export async function courseOf(files: Files, workFolder: string, steps: number): Promise<TrainingCourse> {
  const { iteration } = await savedProgress(files, workFolder);
  if (iteration < steps) return { measurements: [] };
  const { readState } = await import("../../shared/train/engine/state-file.js");
  const state = await readState(files, join(workFolder, "state", stateFileName));
  const later = (state?.fit.position.measurements ?? []).filter((each) => each.iteration >= steps);
  const found = new Set([later[0], later.find(({ validation }) => validation != null)]);
  return { measurements: [...found].flatMap((each) => each ?? []).map(({ metrics: _, ...each }) => each) };
}
