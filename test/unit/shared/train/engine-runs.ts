/** What the tests of the engine's process share: jobs that take little, and a folder for their runs. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { trainInChild, type TrainingOutcome } from "../../../../shared/train/train-in-child.js";
import {
  jobFormat,
  type DatasetReference,
  type TrainingJob,
  type TrainingProgress,
} from "../../../../shared/train/training.js";

export const refusal =
  (code: ErrorCode) =>
  (error: unknown): boolean => {
    assert.ok(isStemmaError(error, code), String(error));
    return true;
  };
export const battery = (vehicle: number, more: DatasetReference["parameters"] = {}): DatasetReference => ({
  reader: "battery-simulated",
  parameters: { vehicle, ...more },
});
export const job = (change: Partial<TrainingJob> = {}): TrainingJob => ({
  format: jobFormat,
  recipe: "battery-soh",
  parameters: { epochs: 3 },
  dataset: battery(0, { cycles: 100, cells: 1 }),
  seed: "1",
  invocation: 0,
  ...change,
});
export const bytes = async ({ modelFile, architectureFile }: TrainingOutcome): Promise<string> =>
  Buffer.concat([await readFile(modelFile), await readFile(architectureFile)]).toString("base64");

export interface EngineRuns {
  /** A folder of a new name, which does not exist yet. */
  readonly folder: () => string;
  readonly run: (
    change?: Partial<TrainingJob>,
    options?: Partial<Parameters<typeof trainInChild>[1]>,
  ) => Promise<TrainingOutcome>;
  /** The outcome of the job as it is, which several tests begin from. */
  readonly runPlain: () => Promise<TrainingOutcome>;
  /** What that training reported. */
  readonly plainProgress: readonly TrainingProgress[];
}

/** Makes a folder before the tests of the file, and removes it after them. */
export function engineRuns(): EngineRuns {
  let work: string;
  let count = 0;
  let plain: Promise<TrainingOutcome> | undefined;
  const plainProgress: TrainingProgress[] = [];
  before(async () => {
    work = await mkdtemp(join(tmpdir(), "stemma-engine-"));
  });
  after(async () => {
    await rm(work, { recursive: true, force: true });
  });
  const folder = (): string => join(work, `run-${count++}`);
  const run: EngineRuns["run"] = (change = {}, options = {}) =>
    trainInChild(job(change), { workFolder: folder(), ...options });
  const onProgress = (each: TrainingProgress): void => {
    plainProgress.push(each);
  };
  return { folder, run, runPlain: () => (plain ??= run({}, { onProgress })), plainProgress };
}
