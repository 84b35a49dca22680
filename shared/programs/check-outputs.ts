/** Runs a model on inputs of which another tool has computed the outputs, and compares what the engine gives. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { StemmaError } from "../errors.js";
import { readSampleTensors, type SampleTensors } from "../layouts/sample-tensors.js";
import type { Architecture, ModelSource } from "../model/model.js";
import { counted } from "../printable.js";
import { writeModelFiles } from "../save/model-folder.js";
import { littleEndianFloats } from "../tensor/little-endian-floats.js";
import { canonicalSamples } from "../train/datasets/canonical-samples.js";
import type { SampleSet } from "../train/datasets/dataset.js";
import type { evaluateInChild } from "../train/evaluate-in-child.js";
import { outputsFile } from "../train/evaluation-job.js";
import { jobFormat } from "../train/training.js";

const defaultTolerance = 1e-5;

export interface OutputCheck {
  /** Path of the file with the tensors `inputs` and `outputs`. */
  readonly samples: string;
  /** The largest difference that is let pass; absent: 1e-5. */
  readonly tolerance?: number | undefined;
}

export interface CheckingOptions {
  readonly evaluate: typeof evaluateInChild;
  /** An empty folder of its own; the caller removes it. */
  readonly workFolder: string;
  readonly signal?: AbortSignal | undefined;
  readonly memoryLimitMb?: number;
  readonly threads?: number;
}

export interface ComparedOutputs {
  /** A sentence that states the largest difference. */
  readonly text: string;
  readonly samples: number;
  readonly largest: number;
  readonly tolerance: number;
}

/**
 * @throws ARCHITECTURE_MISMATCH where a difference is over the tolerance; DATASET_MALFORMED for the samples,
 * NOT_A_NUMBER, and what reading and evaluating throw
 */
export async function checkOutputs(
  model: Pick<ModelSource, "leaves" | "sources"> & { readonly architecture: Architecture },
  check: OutputCheck,
  { evaluate, workFolder, signal, memoryLimitMb, threads }: CheckingOptions,
): Promise<ComparedOutputs> {
  const samples = await readSampleTensors(check.samples, model.architecture);
  const location = join(workFolder, "samples");
  await writeFile(location, Buffer.concat([...canonicalSamples(sampleSetOf(samples))]));
  const folder = join(workFolder, "model");
  await writeModelFiles(model, folder);
  await evaluate(
    {
      format: jobFormat,
      dataset: { reader: "canonical", parameters: {}, location },
      base: { folder },
      evaluate: { outputs: true },
      memoryLimitMb,
      threads,
    },
    { workFolder, signal, memoryLimitMb },
  );
  const found = littleEndianFloats(await readFile(join(workFolder, "result", outputsFile)));
  return compareOutputs(samples, found, check);
}

/** The samples as data that a model with one output of numbers is measured on. */
function sampleSetOf({ count, inputShape, inputs, outputShape, outputs }: SampleTensors): SampleSet {
  const none = { count: 0, inputs: new Float32Array(0), targets: new Float32Array(0) };
  return {
    task: "general",
    inputShape,
    targetSize: outputs.length / count,
    classes: 0,
    outputs: [{ name: "outputs", kind: "numbers", shape: outputShape, classes: 0 }],
    // A set without samples to train on is refused.
    train: { count, inputs, targets: outputs },
    validation: none,
    heldOut: { count, inputs, targets: outputs },
    withoutParts: ["validation"],
    description: {},
  };
}

/** @throws ARCHITECTURE_MISMATCH @internal */
export function compareOutputs(
  { count, outputs, outputShape }: Pick<SampleTensors, "count" | "outputs" | "outputShape">,
  found: Float32Array,
  { samples: path, tolerance = defaultTolerance }: OutputCheck,
): ComparedOutputs {
  let largest = 0;
  let at = 0;
  let differing = 0;
  outputs.forEach((expected, index) => {
    const actual = found[index] ?? Number.NaN;
    if (Object.is(actual, expected)) return;
    differing++;
    const difference = Math.abs(actual - expected);
    // What is not a number is further away than any number: no later difference takes its place.
    const distance = Number.isNaN(difference) ? Infinity : difference;
    if (distance <= largest) return;
    largest = distance;
    at = index;
  });
  const perSample = outputs.length / count;
  const sample = Math.floor(at / perSample);
  if (found.length !== outputs.length || !(largest <= tolerance))
    throw new StemmaError(
      "ARCHITECTURE_MISMATCH",
      `The engine's outputs differ from those in ${path} by up to ${largest.toPrecision(3)} (sample ${sample}, output ` +
        `[${placeIn(outputShape, at % perSample).join(", ")}]: ${found[at] ?? "none"} for ${outputs[at] ?? "none"}), and ` +
        `${tolerance} is allowed, so nothing is saved. Compare padding, epsilon and activations of the architecture with ` +
        "the model, or the layout with its layers.",
      { largest, tolerance, sample },
    );
  const text =
    differing === 0
      ? `the engine's outputs of ${counted(count, "sample")} are those of ${path}, bit for bit`
      : `the engine's outputs of ${counted(count, "sample")} differ from ${path} by ${largest.toPrecision(3)} at most ` +
        `(${differing} of ${outputs.length} numbers)`;
  return { text, samples: count, largest, tolerance };
}

/** The index along each axis of an element. */
function placeIn(shape: readonly number[], index: number): readonly number[] {
  let rest = index;
  return shape
    .toReversed()
    .map((extent) => {
      const place = rest % extent;
      rest = Math.floor(rest / extent);
      return place;
    })
    .toReversed();
}
