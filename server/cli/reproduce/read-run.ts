/** Finds what a run left in its folder, or takes one file of it: model, predictions, log. */
import { readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import {
  totalsOf,
  type RunCourse,
  type RunRecord,
} from "../../../shared/determinism/reproduce/run-record.js";
import { StemmaError } from "../../../shared/errors.js";
import { requireRegular } from "../../../shared/files/not-regular.js";
import type { Measurement } from "../../../shared/train/training.js";
import { courseOfLogs } from "../repository/training-logs/measurements-of-logs.js";
import { readPredictions } from "./read-predictions.js";

/** A run and the file of its model, which is compared tensor by tensor. */
export interface ReadRun {
  readonly name: string;
  readonly record: RunRecord;
  readonly model?: string;
}

/** The files of a run's folder, by what they are; of several names the first that is there counts. */
const namesOf = {
  model: ["model.safetensors"],
  predictions: ["predictions.csv", "predictions.json"],
  log: ["log.jsonl", "log.csv"],
} as const;
type Part = keyof typeof namesOf;

/** @throws NOT_FOUND, TRAINER_OUTPUT_INVALID, FILE_NOT_REGULAR */
export async function readRun(path: string, name = path): Promise<ReadRun> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined)
    throw new StemmaError("NOT_FOUND", `${path} is neither a file nor a folder of a run. Name another one.`, {
      path,
    });
  const parts = found.isDirectory() ? await partsOfFolder(path) : { [partOfFile(path)]: path };
  return await readParts(name, parts);
}

async function partsOfFolder(folder: string): Promise<Partial<Record<Part, string>>> {
  const present = new Set(await readdir(folder));
  const entries = (Object.entries(namesOf) as [Part, readonly string[]][]).flatMap(([part, names]) => {
    const name = names.find((each) => present.has(each));
    return name === undefined ? [] : [[part, join(folder, name)] as const];
  });
  return Object.fromEntries(entries);
}

/** @throws USAGE */
function partOfFile(path: string): Part {
  const name = basename(path);
  if (name.endsWith(".safetensors")) return "model";
  if (/^predictions.*\.(csv|json)$/.test(name)) return "predictions";
  if (/\.(jsonl|csv)$/.test(name)) return "log";
  throw new StemmaError(
    "USAGE",
    `${path} is not a file of a run. These are: *.safetensors, predictions*.csv or .json, and logs (.jsonl, .csv).`,
    { path },
  );
}

async function readParts(
  name: string,
  { model, predictions, log }: Partial<Record<Part, string>>,
): Promise<ReadRun> {
  // A pipe would make the readers wait for ever.
  for (const path of [model, predictions, log])
    if (path !== undefined) requireRegular(await stat(path), path);
  const samples = predictions === undefined ? undefined : await readPredictions(predictions);
  const course = log === undefined ? undefined : await courseOfLogs([log]);
  return {
    name,
    record: {
      totals: samples === undefined ? {} : totalsOf(samples),
      ...(samples === undefined ? {} : { samples }),
      ...(course === undefined ? {} : { course: courseOf(course.measurements, course.iterations) }),
    },
    ...(model === undefined ? {} : { model }),
  };
}

/** A null is not recorded, unless it is among the metrics too: then it was not finite (measurements-of-logs.ts). */
export function courseOf(measurements: readonly Measurement[], iterations: number): RunCourse {
  const members = [
    ["loss", "loss"],
    ["validation", "validation loss"],
  ] as const;
  const losses = measurements.flatMap(({ iteration, metrics = {}, ...values }) =>
    members.flatMap(([member, name]) => {
      const value: number | null | undefined = values[member];
      if (value === undefined || (value === null && metrics[member] !== null)) return [];
      return [{ name, iteration, value }];
    }),
  );
  const epochs = measurements.map(({ epoch }) => epoch as number | null).filter((epoch) => epoch !== null);
  return { losses, iterations, ...(epochs.length === 0 ? {} : { lastEpoch: largest(epochs) }) };
}

const largest = (values: readonly number[]): number => values.reduce((most, each) => Math.max(most, each));
