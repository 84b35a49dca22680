/**
 * Runs a segment of an earlier training of this device again, from a state that it kept, and gives the leaves on the
 * way, or the arrays of the state at its end: where a server comes to other states, it compares them step by step.
 */
import { join } from "node:path";
import type { Files } from "../../shared/ports.js";
import { segmentsInChild } from "../../shared/train/train-in-child.js";
import { keptStateName } from "../../shared/train/training.js";
import type { StateAfterJob } from "../../shared/determinism/probe/state-after-job.js";
import { packArrays, packLeaves, type SegmentLeavesRequest } from "../../shared/wire/kept-states.js";
import type { Activator } from "../lines/activator.js";
import type { KeptStates } from "./kept-states.js";
import { engineJobOf, type JobOptions } from "./training-job.js";

export interface SegmentsAgainOptions extends JobOptions {
  readonly files: Files;
  readonly home: string;
  readonly activator: Pick<Activator, "installBase">;
  readonly states: Pick<KeptStates, "of">;
}

export type SegmentAnswer = ReturnType<typeof packLeaves> | ReturnType<typeof packArrays>;

export class SegmentsAgain {
  readonly #abort = new AbortController();

  constructor(private readonly options: SegmentsAgainOptions) {}

  stop(): void {
    this.#abort.abort();
  }

  /** @throws NOT_FOUND where states or training are not kept any more; MODEL_NOT_FOUND; the training's errors */
  async run(asked: SegmentLeavesRequest): Promise<SegmentAnswer> {
    const { files, home, activator } = this.options;
    const { versionId, fromStep, toStep, isLast, everySteps } = asked;
    const { line, folder, training } = await this.options.states.of(versionId);
    const workFolder = join(home, "work", `segment-${line}`);
    try {
      const base = await activator.installBase(line, training.job.base);
      const folders = { base: base.folder, work: workFolder };
      const { leaves: _, ...job } = await engineJobOf(this.options, { line, ...training }, folders, 0);
      const file = fromStep === 0 ? {} : { file: join(folder, keptStateName(fromStep)) };
      if (asked.arrays === true)
        return await this.#arraysAfter({ training: job, ...file, step: toStep, isEnd: isLast }, workFolder);
      const [run] = await segmentsInChild(job, [{ ...file, fromStep, toStep, isLast, everySteps }], {
        workFolder,
        signal: this.#abort.signal,
        memoryLimitMb: job.memoryLimitMb,
      });
      return packLeaves((run?.leaves ?? []).map(({ leaf }) => leaf));
    } finally {
      await files.remove(workFolder);
    }
  }

  async #arraysAfter(
    request: Omit<StateAfterJob, "engine" | "engineId">,
    workFolder: string,
  ): Promise<SegmentAnswer> {
    // Loaded when it is asked for.
    const { stateAfterInChild } = await import("../../shared/determinism/probe/state-after-in-child.js");
    const state = await stateAfterInChild(request, { workFolder, signal: this.#abort.signal });
    return state === undefined
      ? { leaves: "" }
      : packArrays(
          state.leaf,
          state.arrays.map(({ hash }) => hash),
        );
  }
}
