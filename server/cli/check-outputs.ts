/** Runs a model on inputs of which another tool has computed the outputs, and compares what the engine gives. */
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StemmaError } from "../../shared/errors.js";
import type { LaidOutFile } from "../../shared/layouts/laid-out-file.js";
import { readSampleTensors, type SampleTensors } from "../../shared/layouts/sample-tensors.js";
import type { DescribedModel } from "../../shared/model/model-json.js";
import { modelSourceOfSafetensors } from "../../shared/save/model-source.js";
import { canonicalSamples } from "../../shared/train/datasets/canonical-samples.js";
import type { SampleSet } from "../../shared/train/datasets/dataset.js";
import { evaluateInChild } from "../../shared/train/evaluate-in-child.js";
import { outputsFile, type EvaluationJob } from "../../shared/train/evaluation-job.js";
import { jobFormat } from "../../shared/train/training.js";
import { writeModelFiles } from "../services/context/model-folder.js";
import { counted } from "../../shared/printable.js";

export interface OutputCheck {
  readonly described: DescribedModel;
  /** Path of the file with the tensors `inputs` and `outputs`. */
  readonly samples: string;
  /** The largest difference that is let pass. */
  readonly tolerance: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * @returns a sentence that states the largest difference
 * @throws ARCHITECTURE_MISMATCH where it is over the tolerance; NOT_A_NUMBER, and what reading and evaluating throw
 */
export async function checkOutputs(
  { part }: Pick<LaidOutFile, "part">,
  { described, samples: path, tolerance, signal }: OutputCheck,
): Promise<string> {
  const samples = await readSampleTensors(path, described.architecture);
  const model = await modelSourceOfSafetensors(part.file, "The file", {
    architecture: { architecture: described.architecture, names: described.names },
  });
  const workFolder = await mkdtemp(join(tmpdir(), "stemma-check-"));
  try {
    const location = join(workFolder, "samples");
    await writeFile(location, Buffer.concat([...canonicalSamples(sampleSetOf(samples))]));
    const folder = join(workFolder, "model");
    await mkdir(folder);
    await writeModelFiles(model, folder);
    const job: EvaluationJob = {
      format: jobFormat,
      dataset: { reader: "canonical", parameters: {}, location },
      base: { folder },
      evaluate: { outputs: true },
    };
    await evaluateInChild(job, { workFolder, ...(signal === undefined ? {} : { signal }) });
    const found = await readFile(join(workFolder, "result", outputsFile));
    return compare(samples, floatsOf(found), { path, tolerance });
  } finally {
    await rm(workFolder, { recursive: true, force: true });
  }
}

function floatsOf(bytes: Uint8Array): Float32Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Float32Array.from({ length: bytes.length / 4 }, (_, at) => view.getFloat32(4 * at, true));
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

/** @throws ARCHITECTURE_MISMATCH */
function compare(
  { count, outputs }: SampleTensors,
  found: Float32Array,
  { path, tolerance }: { readonly path: string; readonly tolerance: number },
): string {
  let largest = 0;
  let at = 0;
  let differing = 0;
  outputs.forEach((expected, index) => {
    const actual = found[index] ?? Number.NaN;
    if (Object.is(actual, expected)) return;
    differing++;
    const difference = Math.abs(actual - expected);
    if (difference <= largest) return;
    largest = difference;
    at = index;
  });
  const sample = Math.floor(at / (outputs.length / count));
  if (found.length !== outputs.length || !(largest <= tolerance))
    throw new StemmaError(
      "ARCHITECTURE_MISMATCH",
      `The engine's outputs differ from those in ${path} by up to ${largest.toPrecision(3)} (sample ${sample}: ` +
        `${found[at] ?? "none"} for ${outputs[at] ?? "none"}), and ${tolerance} is allowed, so nothing is saved. Compare ` +
        "padding, epsilon and activations of the architecture with the model, or the layout with its layers.",
      { largest, tolerance, sample },
    );
  return differing === 0
    ? `the engine's outputs of ${counted(count, "sample")} are those of ${path}, bit for bit`
    : `the engine's outputs of ${counted(count, "sample")} differ from ${path} by ${largest.toPrecision(3)} at most (${differing} of ` +
        `${outputs.length} numbers)`;
}
