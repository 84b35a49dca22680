/** The course of a training, gathered from the rows of its logs: one measurement for each iteration. */
import { open } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { StemmaError } from "../../../../shared/errors.js";
import { fileError } from "../../../../shared/files/file-error.js";
import type { Measurement } from "../../../../shared/train/training.js";
import { maxMeasurements } from "../../../interface/api/models/import-schemas.js";
import { readerOf } from "./known-readers.js";
import type { LogRow } from "./log-reader.js";
import { sniffedBytes } from "../sniff-kind.js";

/** Names in logs, in lower case, by the member of a measurement that they stand for. */
const knownNames = {
  iteration: ["iteration", "iter", "step", "global_step", "_step"],
  epoch: ["epoch"],
  loss: ["loss", "train_loss", "train/loss", "training_loss", "train.loss", "loss/train", "epoch_loss"],
  validation: [
    "val_loss",
    "valid_loss",
    "validation_loss",
    "eval_loss",
    "val/loss",
    "val.loss",
    "loss/val",
    "val/epoch_loss",
  ],
  learningRate: ["lr", "learning_rate", "learningrate", "train/learning_rate"],
} as const;
type KnownMember = keyof typeof knownNames;
const memberOf = new Map<string, KnownMember>(
  (Object.entries(knownNames) as [KnownMember, readonly string[]][]).flatMap(([member, names]) =>
    names.map((name) => [name, member] as const),
  ),
);

/** TensorFlow writes one log for training and one for validation, with the same names in both. */
const validationFolder = /^(val|valid|validation|eval)$/i;

const maxNames = 500;
const maxNameCharacters = 200;
/** Figures that one version keeps; a log with many names has fewer iterations. */
const maxFigures = 500_000;

type Point = { [Member in KnownMember]?: number | null } & { metrics: Map<string, number | null> };

export interface TrainingCourse {
  /** Ascending by iteration. */
  readonly measurements: readonly Measurement[];
  /** Iterations in the logs; of more than a version keeps, evenly spaced ones are taken, and the last. */
  readonly iterations: number;
  readonly names: readonly string[];
}

/** @throws TRAINER_OUTPUT_INVALID, FILE_MISSING, FILE_FAILED */
export async function courseOfLogs(paths: readonly string[]): Promise<TrainingCourse> {
  const gathered = new GatheredCourse();
  for (const path of paths) {
    const reader = readerOf(path, await firstBytes(path));
    let rows = 0;
    gathered.begin(validationFolder.test(basename(dirname(path))) ? "val/" : "");
    for await (const row of reader.read(path)) {
      gathered.add(row);
      rows++;
    }
    if (rows === 0)
      throw new StemmaError(
        "TRAINER_OUTPUT_INVALID",
        `${path} has no row with figures. Add the log when the training has written some.`,
        { path },
      );
  }
  return gathered.course();
}

export async function firstBytes(path: string): Promise<Buffer> {
  try {
    const file = await open(path, "r");
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(sniffedBytes), 0, sniffedBytes, 0);
      return buffer.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  } catch (error) {
    throw fileError(error, "read", path);
  }
}

class GatheredCourse {
  readonly #points = new Map<number, Point>();
  readonly #names = new Set<string>();
  #iterations = 0;
  /** The distance of the iterations that are kept, counted in iterations of the logs. */
  #stride = 1;
  #last: { readonly iteration: number; readonly point: Point } | undefined;
  #lastStep: number | undefined;
  #row = 0;
  #before = "";

  /** Begins the next log, whose names get a beginning. */
  begin(before: string): void {
    this.#before = before;
    this.#lastStep = undefined;
    this.#row = 0;
  }

  add(row: LogRow): void {
    const given: Point = { metrics: new Map() };
    for (const [name, value] of row) this.#put(given, name, value);
    const iteration = this.#iterationOf(given);
    const known = this.#points.get(iteration) ?? this.#knownLast(iteration);
    if (known !== undefined) {
      merge(known, given);
      return;
    }
    this.#last = { iteration, point: given };
    if (this.#iterations++ % this.#stride !== 0) return;
    this.#points.set(iteration, given);
    if (this.#points.size >= 2 * maxMeasurements) this.#thin();
  }

  #knownLast(iteration: number): Point | undefined {
    return this.#last?.iteration === iteration ? this.#last.point : undefined;
  }

  #put(point: Point, name: string, value: number | null): void {
    const isCount = ["iteration", "epoch"].includes(memberOf.get(name.toLowerCase()) ?? "");
    const full = isCount ? name : this.#before + name;
    const member = memberOf.get(full.toLowerCase());
    if (member !== undefined && point[member] === undefined) point[member] = value;
    else if (member === undefined) {
      const shown = full.slice(0, maxNameCharacters);
      if (!this.#names.has(shown) && this.#names.size >= maxNames) return;
      this.#names.add(shown);
      point.metrics.set(shown, value);
    }
  }

  /** A log that counts epochs alone has these as iterations; one that counts nothing, its rows. */
  #iterationOf({ iteration, epoch }: Point): number {
    const row = this.#row++;
    const isStep = typeof iteration === "number" && iteration >= 0 && iteration <= Number.MAX_SAFE_INTEGER;
    if (isStep) return (this.#lastStep = Math.floor(iteration));
    if (this.#lastStep !== undefined) return this.#lastStep;
    return typeof epoch === "number" && Number.isSafeInteger(epoch) && epoch >= 0 ? epoch : row;
  }

  #thin(): void {
    let at = 0;
    for (const iteration of [...this.#points.keys()]) if (at++ % 2 === 1) this.#points.delete(iteration);
    this.#stride *= 2;
  }

  course(): TrainingCourse {
    if (this.#last !== undefined) this.#points.set(this.#last.iteration, this.#last.point);
    const sorted = [...this.#points].sort(([one], [other]) => one - other);
    const most = Math.max(2, Math.min(maxMeasurements, Math.floor(maxFigures / (this.#names.size + 4))));
    const step = Math.ceil((sorted.length - 1) / (most - 1));
    const kept = sorted.filter((_, at) => at % Math.max(1, step) === 0 || at === sorted.length - 1);
    return {
      measurements: kept.map(([iteration, point]) => measurementOf(iteration, point)),
      iterations: Math.max(this.#iterations, sorted.length),
      names: [...this.#names],
    };
  }
}

function merge(into: Point, { metrics, ...members }: Point): void {
  Object.assign(into, members);
  for (const [name, value] of metrics) into.metrics.set(name, value);
}

/**
 * A measurement in which null stands for what the log does not state and for what is not finite; the latter is among
 * `metrics` too, so that the two are told apart.
 */
function measurementOf(iteration: number, { metrics, ...known }: Point): Measurement {
  const { epoch = null, loss = null, learningRate = null, validation } = known;
  const notFinite = (["loss", "validation", "learningRate"] as const).filter(
    (member) => known[member] === null,
  );
  const all = [...metrics, ...notFinite.map((member) => [member, null] as const)];
  return {
    iteration,
    epoch: epoch as number,
    loss: loss as number,
    learningRate: learningRate as number,
    ...(validation === undefined ? {} : { validation }),
    ...(all.length === 0 ? {} : { metrics: Object.fromEntries(all) }),
  };
}
