/** Inputs of a model and the outputs that another tool computed of them, in the order of the architecture's axes. */
import { StemmaError } from "../errors.js";
import { openModelFile } from "../forms/model-file.js";
import type { Architecture } from "../model/model.js";
import { layerShapes, type Shape } from "../model/layer-shapes.js";
import { openSafetensors } from "../save/open-safetensors.js";
import { tensorOfSource, type Tensor } from "../tensor/tensor.js";
import { reordered } from "./axis-order.js";
import { isNpz, readNpz } from "./npz-file.js";

export interface SampleTensors {
  readonly count: number;
  /** The shape of one sample, as the architecture has it. */
  readonly inputShape: readonly number[];
  readonly inputs: Float32Array;
  readonly outputShape: readonly number[];
  readonly outputs: Float32Array;
}

/** Bytes of both tensors together. */
export const maxSampleFileBytes = 256 * 1024 * 1024;

/**
 * Reads the tensors `inputs` and `outputs`, F32 with samples along the first axis. Pictures may have their channels
 * first, as PyTorch has them.
 * @throws DATASET_MALFORMED, and what reading the file throws
 */
export async function readSampleTensors(path: string, architecture: Architecture): Promise<SampleTensors> {
  const fail = (reason: string): never => {
    throw new StemmaError(
      "DATASET_MALFORMED",
      `${path} cannot be used to check outputs: ${reason}. Write the tensors "inputs" and "outputs", float32, samples first.`,
    );
  };
  const shapes = layerShapes(architecture);
  const isInput = architecture.layers.map(({ className }) => className === "InputLayer");
  const [output] = architecture.outputs;
  if (isInput.filter(Boolean).length !== 1 || architecture.outputs.length !== 1 || output?.output !== 0)
    return fail("the architecture has several inputs or outputs");
  const { inputs, outputs } = await tensorsOf(path, fail);
  const count = inputs.shape[0] ?? 0;
  if (count === 0 || outputs.shape[0] !== count)
    return fail(`it has ${count} inputs and ${outputs.shape[0] ?? 0} outputs`);
  const input = arranged(inputs, shapes[isInput.indexOf(true)], (reason) => fail(`its inputs ${reason}`));
  const found = arranged(outputs, shapes[output.layer], (reason) => fail(`its outputs ${reason}`));
  return {
    count,
    inputShape: input.shape,
    inputs: input.values,
    outputShape: found.shape,
    outputs: found.values,
  };
}

async function tensorsOf(
  path: string,
  fail: (reason: string) => never,
): Promise<{ readonly inputs: Tensor; readonly outputs: Tensor }> {
  const tensors = (await isNpz(path))
    ? await readNpz(path, maxSampleFileBytes)
    : await safetensorsOf(path, fail);
  const of = (name: string): Tensor => {
    const tensor = tensors.get(name) ?? fail(`it has no tensor "${name}"`);
    return tensor.dtype === "F32" ? tensor : fail(`its tensor "${name}" is ${tensor.dtype}`);
  };
  return { inputs: of("inputs"), outputs: of("outputs") };
}

async function safetensorsOf(
  path: string,
  fail: (reason: string) => never,
): Promise<ReadonlyMap<string, Tensor>> {
  const model = await openModelFile(path);
  try {
    if (model.size > maxSampleFileBytes) fail(`it has more than ${maxSampleFileBytes} bytes`);
    const opened = await openSafetensors(model.file, path);
    const found = new Map<string, Tensor>();
    for (const entry of opened.tensors) found.set(entry.name, await tensorOfSource(opened.source(entry)));
    return found;
  } finally {
    await model.close();
  }
}

/** Numbers with the samples' axes in the order of the architecture. */
function arranged(
  { shape, bytes }: Tensor,
  wanted: Shape | undefined,
  fail: (reason: string) => never,
): { readonly shape: readonly number[]; readonly values: Float32Array } {
  const [, ...own] = shape;
  const fits = (found: readonly number[]): boolean =>
    wanted === undefined ||
    (found.length === wanted.length && found.every((extent, at) => (wanted[at] ?? extent) === extent));
  const axes = own.map((_, axis) => axis + 1);
  const last = [0, ...axes.slice(1), 1];
  const moved = last.slice(1).map((axis) => shape[axis] as number);
  // A shape that fits both is read as PyTorch orders it: channels of a picture first, steps before features.
  const isMoved = own.length > 1 && fits(moved) && (own.length > 2 || !fits(own));
  if (!isMoved && !fits(own))
    fail(
      `are [${own.join(", ")}], and the architecture has [${(wanted ?? []).map((each) => each ?? "?").join(", ")}]`,
    );
  const ordered = isMoved ? reordered(bytes, { as: shape, axes: last }, 4) : bytes;
  const view = new DataView(ordered.buffer, ordered.byteOffset, ordered.byteLength);
  const values = Float32Array.from({ length: ordered.length / 4 }, (_, at) => view.getFloat32(4 * at, true));
  return { shape: isMoved ? moved : own, values };
}
