/**
 * Writes the files that a training leaves while it runs. Those are checkpoints in its result folder, and its state,
 * from which another process of the same engine continues the same job. A state that cannot be used is reported, and
 * the training begins again. A state that cannot be written is reported once, and the training runs on without it.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { messageOf } from "../../error-text.js";
import { writeDurably } from "../../files/durable-write.js";
import type { Files } from "../../ports.js";
import type { Hash } from "../../tensor/tensor.js";
import type { Checkpoint, SavedPass, SavedTraining, TrainingStates } from "../run-training.js";
import type { EngineNotice, JobState } from "../training.js";
import {
  passFileName,
  StatePace,
  stateFileName,
  type FitSnapshot,
  type PassId,
  type TrainingProgressSoFar,
} from "../training-state.js";
import { modelFile } from "./model-files.js";
import { encodePass, readPass } from "./pass-file.js";
import { arrayBytesOf, readState, writeState, type CheckpointFile, type SavedState } from "./state-file.js";

interface TrainingFolderOptions {
  readonly files: Files;
  readonly resultFolder: string;
  /** The place where the state is kept; undefined keeps none. */
  readonly state: (Omit<JobState, "folder"> & { readonly folder: string }) | undefined;
  readonly engine: Hash;
  readonly startedMs: number;
  readonly monotonic: () => number;
  /** Keep only this many of the newest checkpoints; all when absent. */
  readonly maxCheckpoints: number | undefined;
  readonly onNotice: (notice: EngineNotice) => void;
}

const passNames: Readonly<Record<PassId["stage"], string>> = {
  before: "evaluation before its first step",
  validation: "pass over the validation samples",
  after: "evaluation after its last step",
};

export class TrainingFolder implements TrainingStates {
  readonly #options: TrainingFolderOptions;
  readonly #pace: StatePace;
  readonly #passPace: StatePace;
  #checkpoints: readonly CheckpointFile[] = [];
  /** Checkpoint files that are not kept; the last saved state may still rely on them. */
  #superseded: readonly string[] = [];
  #dropped = 0;
  /** The file that could not be written when that was last reported. */
  #unsaved: string | undefined;

  constructor(options: TrainingFolderOptions) {
    this.#options = options;
    this.#pace = new StatePace(options.startedMs, options.state?.everySeconds);
    this.#passPace = new StatePace(options.startedMs, options.state?.everySeconds);
  }

  /** Checkpoints that were made and not kept. */
  get droppedCheckpoints(): number {
    return this.#dropped;
  }

  /** Names of the checkpoint files, oldest first. */
  get checkpoints(): readonly CheckpointFile[] {
    return this.#checkpoints;
  }

  async read(key: Hash): Promise<SavedTraining | undefined> {
    const saved = await this.#usableState(key);
    this.#checkpoints = saved?.checkpoints ?? [];
    this.#dropped = saved?.droppedCheckpoints ?? 0;
    await this.#clearResult();
    if (saved === undefined) return undefined;
    const { epoch, iteration } = saved.fit.position;
    this.#options.onNotice({
      event: "training-continued",
      text: `The training continues after step ${iteration} (epoch ${epoch}), where its last saved state was taken.`,
      iteration,
    });
    return saved;
  }

  async save(key: Hash, snapshot: () => FitSnapshot, soFar: () => TrainingProgressSoFar): Promise<void> {
    const { files, engine, state, monotonic } = this.#options;
    const startMs = monotonic();
    if (state === undefined || !this.#pace.isDue(startMs)) return;
    const present = snapshot();
    let bytes = arrayBytesOf(present);
    await this.#trySaving(stateFileName, 2 * bytes, async (folder) => {
      bytes = await writeState(files, join(folder, stateFileName), {
        context: {
          engine,
          key,
          checkpoints: this.#checkpoints,
          droppedCheckpoints: this.#dropped,
          ...soFar(),
        },
        snapshot: present,
      });
      await this.#removeSuperseded();
    });
    this.#pace.tried({ startMs, endMs: monotonic(), bytes });
  }

  async readPass(key: Hash, pass: PassId): Promise<SavedPass | undefined> {
    const { files, state, engine, onNotice } = this.#options;
    if (state === undefined) return undefined;
    try {
      const saved = await readPass(files, join(state.folder, passFileName), { ...pass, engine, key });
      // For a training that goes on, it is reported already.
      if (saved !== undefined && pass.stage === "before")
        onNotice({
          event: "training-continued",
          text: `The training continues in its ${passNames.before}, after ${saved.samples} samples.`,
          iteration: 0,
        });
      return saved;
    } catch (error) {
      onNotice({
        event: "training-state-refused",
        text: `The ${passNames[pass.stage]} begins again, because its saved progress cannot be used: ${messageOf(error)}`,
      });
      return undefined;
    }
  }

  async savePass(key: Hash, pass: PassId, progress: () => SavedPass): Promise<void> {
    const { files, engine, state, monotonic } = this.#options;
    const startMs = monotonic();
    if (state === undefined || !this.#passPace.isDue(startMs)) return;
    const bytes = encodePass({ ...pass, engine, key }, progress());
    await this.#trySaving(passFileName, 2 * bytes.length, async (folder) => {
      await writeDurably(files, join(folder, passFileName), bytes);
    });
    this.#passPace.tried({ startMs, endMs: monotonic(), bytes: bytes.length });
  }

  /** Writes a checkpoint into the result folder, durably, since states rely on it. */
  async addCheckpoint({ epoch, iteration, model }: Checkpoint): Promise<void> {
    const { files, resultFolder, maxCheckpoints = Infinity } = this.#options;
    const name = `checkpoint-${String(iteration).padStart(8, "0")}.safetensors`;
    const bytes = await modelFile(model.architecture, model.tensors);
    await writeDurably(files, join(resultFolder, name), bytes);
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    const all = [
      ...this.#checkpoints.filter((one) => one.iteration !== iteration),
      { name, epoch, iteration, sha256 },
    ];
    const surplus = Math.max(0, all.length - maxCheckpoints);
    this.#dropped += surplus;
    this.#superseded = [...this.#superseded, ...all.slice(0, surplus).map((one) => one.name)];
    this.#checkpoints = all.slice(surplus);
    if (this.#options.state === undefined) await this.#removeSuperseded();
  }

  async #removeSuperseded(): Promise<void> {
    for (const name of this.#superseded)
      await this.#options.files.remove(join(this.#options.resultFolder, name));
    this.#superseded = [];
  }

  /** The saved state, if this engine left it for this job and the checkpoints that it relies on are whole. */
  async #usableState(key: Hash): Promise<SavedState | undefined> {
    const { files, state, engine, onNotice } = this.#options;
    if (state === undefined) return undefined;
    let problem: string;
    try {
      const saved = await readState(files, join(state.folder, stateFileName));
      if (saved === undefined) return undefined;
      if (saved.engine === engine && saved.key === key) {
        const damaged = await this.#damagedCheckpoint(saved);
        if (damaged === undefined) return saved;
        problem = `its checkpoint ${damaged} is missing or damaged`;
      } else
        problem =
          saved.engine === engine
            ? "it belongs to another job, base or data"
            : `the engine ${saved.engine.slice(0, 12)} left it, and this is ${engine.slice(0, 12)}`;
    } catch (error) {
      problem = messageOf(error);
    }
    onNotice({
      event: "training-state-refused",
      text: `The training begins again, because its saved state cannot be used: ${problem}`,
    });
    return undefined;
  }

  async #damagedCheckpoint({ checkpoints }: SavedState): Promise<string | undefined> {
    const { files, resultFolder } = this.#options;
    for (const { name, sha256 } of checkpoints) {
      const bytes = await files.read(join(resultFolder, name)).catch(() => new Uint8Array());
      if (createHash("sha256").update(bytes).digest("hex") !== sha256) return name;
    }
    return undefined;
  }

  /** Removes everything from the result folder but the checkpoints that the state relies on. */
  async #clearResult(): Promise<void> {
    const { files, resultFolder } = this.#options;
    const kept = new Set(this.#checkpoints.map(({ name }) => name));
    for (const name of await files.list(resultFolder))
      if (!kept.has(name)) await files.remove(join(resultFolder, name));
  }

  /** Writes a file of the state folder, within the bytes that the training may use. A failure is reported. */
  async #trySaving(
    name: string,
    neededBytes: number,
    write: (folder: string) => Promise<void>,
  ): Promise<void> {
    const { files, state } = this.#options;
    if (state === undefined) return;
    if (neededBytes > (state.maxBytes ?? Infinity)) {
      this.#reportFailure(
        name,
        `it needs ${neededBytes} bytes while it is written, and the training may use ${state.maxBytes}`,
      );
      return;
    }
    try {
      await files.makeFolder(state.folder);
      await write(state.folder);
      if (name === this.#unsaved) this.#unsaved = undefined;
    } catch (error) {
      this.#reportFailure(name, messageOf(error));
    }
  }

  #reportFailure(name: string, reason: string): void {
    if (this.#unsaved !== undefined) return;
    this.#unsaved = name;
    this.#options.onNotice({
      event: "training-state-unsaved",
      text:
        `The state of the training cannot be saved: ${reason}. The training runs on; if it is cut short, ` +
        "it continues from an earlier state, or begins again.",
    });
  }
}
