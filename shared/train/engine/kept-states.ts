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
    const { files, folder, engine } = this.options;
    await this.#try("kept", async () => {
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
    });
  }

  async keepOnly(iterations: readonly number[]): Promise<void> {
    const { files, folder } = this.options;
    const kept = new Set(iterations.map(keptStateName));
    await this.#try("removed", async () => {
      for (const name of await files.list(folder))
        if (!kept.has(name)) await files.remove(join(folder, name));
    });
  }

  async #try(what: "kept" | "removed", work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!this.#isReported)
        this.options.onNotice({
          event: "training-state-unkept",
          text: `A state that a spot check may ask for cannot be ${what}: ${messageOf(error)}. The training runs on.`,
        });
      this.#isReported = true;
    }
  }
}
