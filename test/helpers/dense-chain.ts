/** Models of small dense layers in a row, of which no two have a tensor in common. */
import type { Architecture, ModelSource } from "../../shared/model/model.js";
import { modelSourceOfTensors } from "../../shared/save/model-source.js";
import { architectureOf, savable, type WrittenLayer } from "./random-architectures.js";

const tensorShape = [4, 4];
const tensorBytes = 64;

/** Dense layers in a row, each with one small kernel. */
export function denseChain(tensors: number): Architecture {
  const written: WrittenLayer[] = [{ className: "InputLayer", inputs: [] }];
  for (let layer = 0; layer < tensors; layer++)
    written.push({ className: "Dense", config: { units: 4 }, inputs: [layer], weight: tensorShape });
  return savable(architectureOf(written, [tensors]).architecture);
}

/** A model whose tensors no other one has. */
export function modelOf(
  architecture: Architecture,
  tensors: number,
  line: number,
  version: number,
): ModelSource {
  return modelSourceOfTensors(
    architecture,
    Array.from({ length: tensors }, (_, tensor) => {
      const values = new Float32Array(tensorBytes / Float32Array.BYTES_PER_ELEMENT).fill(version);
      values[0] = line;
      values[1] = tensor;
      return { dtype: "F32" as const, shape: tensorShape, bytes: new Uint8Array(values.buffer) };
    }),
  );
}
