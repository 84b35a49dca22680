/** Trains candidates with the engine, in processes of this machine. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { defined } from "../../../shared/defined.js";
import type { Files } from "../../../shared/ports.js";
import { encodeArchitecture, weightSlots } from "../../../shared/model/architecture.js";
import { fileOfBytes, readSafetensors, writeSafetensors } from "../../../shared/tensor/safetensors.js";
import { sourceOfTensor, tensorOfSource, type Tensor } from "../../../shared/tensor/tensor.js";
import { EngineWorker } from "../../../shared/train/engine-worker.js";
import { isEndedEarly } from "../../../shared/train/engine-process.js";
import { trainInChild, type TrainingOutcome } from "../../../shared/train/train-in-child.js";
import { jobFormat, type DatasetReference, type LossReport } from "../../../shared/train/training.js";
import {
  candidateStart,
  recipeParameters,
  type CandidateJudge,
  type CandidateStart,
  type CandidateTrainer,
} from "./candidate.js";
import { noHeldOutSamples } from "./search-errors.js";

export interface HereOptions {
  readonly files: Files;
  readonly dataset: DatasetReference;
  /** The number of the engine's threads. */
  readonly threads: number;
  /** A folder of its own for the engine's process, which trains one candidate after the other. */
  readonly workerFolder: string;
}

export function trainerHere({ files, dataset, threads, workerFolder }: HereOptions): CandidateTrainer {
  const worker = new EngineWorker(workerFolder);
  return {
    close: () => worker.close(),
    async train(job, inherited, { workFolder, signal, judge }) {
      const { frozenLayers, ...start } = candidateStart(job, inherited);
      const base = join(workFolder, "base");
      await writeModel(files, base, start);
      const judging = new Judging(judge);
      const outcome = await judging.outcomeOf(
        trainInChild(
          {
            format: jobFormat,
            recipe: "image-classify",
            parameters: recipeParameters(job, frozenLayers),
            dataset,
            seed: job.seed,
            invocation: job.candidate,
            base: { folder: base },
            threads,
            ...(judge === undefined ? {} : { lossReports: [judge.after] }),
          },
          { workFolder, worker, onLoss: judging.onLoss, ...defined({ signal }) },
        ),
      );
      if (outcome === undefined) return undefined;
      const { metric, durationMs } = outcome.result;
      if (metric === null) throw noHeldOutSamples();
      return {
        ...start,
        tensors: await readTensors(files, outcome.modelFile),
        accuracy: metric.after,
        frozen: frozenLayers.length,
        trainMs: durationMs,
      };
    },
  };
}

/** Ends a training that its judge does not let go on; what it made meanwhile does not count. */
class Judging {
  #verdict: Promise<boolean> | undefined;
  #isEnded = false;

  constructor(private readonly judge: CandidateJudge | undefined) {}

  readonly onLoss = ({ loss }: LossReport, end: () => void): void => {
    this.#verdict = this.judge?.isEnded(loss).then((isEnded) => {
      this.#isEnded = isEnded;
      if (isEnded) end();
      return isEnded;
    });
    // It is awaited when the training has ended.
    this.#verdict?.catch(() => undefined);
  };

  /** @returns undefined for a candidate that was ended. @throws what training and judging throw */
  async outcomeOf(training: Promise<TrainingOutcome>): Promise<TrainingOutcome | undefined> {
    try {
      const outcome = await training;
      return (await this.#verdict) === true ? undefined : outcome;
    } catch (error) {
      // A process may be lost after it was told to end.
      if (isEndedEarly(error) || this.#isEnded) return undefined;
      throw error;
    }
  }
}

async function writeModel(
  files: Files,
  folder: string,
  { architecture, tensors }: Pick<CandidateStart, "architecture" | "tensors">,
): Promise<void> {
  await mkdir(folder, { recursive: true });
  const file = await files.open(join(folder, "model.safetensors"), "create");
  try {
    const slots = weightSlots(architecture);
    await writeSafetensors(
      file,
      tensors.map((tensor, leaf) => ({ name: slots[leaf]?.path ?? "", source: sourceOfTensor(tensor) })),
    );
  } finally {
    await file.close();
  }
  const written = await files.open(join(folder, "architecture.json"), "create");
  try {
    await written.write(encodeArchitecture(architecture), 0);
  } finally {
    await written.close();
  }
}

async function readTensors(files: Files, path: string): Promise<readonly Tensor[]> {
  const opened = await readSafetensors(fileOfBytes(await files.read(path)), path);
  return Promise.all(opened.tensors.map((entry) => tensorOfSource(opened.source(entry))));
}
