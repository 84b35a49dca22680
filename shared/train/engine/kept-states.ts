/**
 * Keeps states of a training in a folder of their own, so that somebody who asks for one can run the training again
 * from there. A state that cannot be written is reported once, and the training runs on.
 */
import { join } from "node:path";
import { messageOf } from "../../error-text.js";
import type { Files } from "../../ports.js";
import type { Hash } from "../../tensor/tensor.js";
import type { StateKeeper } from "../leaf-collector.js";
import { keptStateName, type EngineNotice } from "../training.js";
import type { FitSnapshot } from "../training-state.js";
import { writeState } from "./state-file.js";

interface KeptStatesOptions {
  readonly files: Files;
  readonly folder: string;
  readonly engine: Hash;
  readonly onNotice: (notice: EngineNotice) => void;
}

/** Nothing of the training's data or course is in such a state. */
const noKey = "0".repeat(64) as Hash;

export class KeptStates implements StateKeeper {
  #isReported = false;

  constructor(private readonly options: KeptStatesOptions) {}

  async keep(iteration: number, snapshot: FitSnapshot): Promise<void> {
    const { files, folder, engine, onNotice } = this.options;
    try {
      await files.makeFolder(folder);
      await writeState(files, join(folder, keptStateName(iteration)), {
        context: {
          engine,
          key: noKey,
          checkpoints: [],
          droppedCheckpoints: 0,
          before: null,
          spentMs: 0,
          continuations: 0,
        },
        snapshot: { ...snapshot, position: { ...snapshot.position, measurements: [] } },
      });
    } catch (error) {
      if (!this.#isReported)
        onNotice({
          event: "training-state-unkept",
          text: `A state that a spot check may ask for cannot be kept: ${messageOf(error)}. The training runs on.`,
        });
      this.#isReported = true;
    }
  }

  async drop(iteration: number): Promise<void> {
    const { files, folder } = this.options;
    await files.remove(join(folder, keptStateName(iteration)));
  }
}
