/** Models of small dense layers in a row, of which no two have a tensor in common. */
import { seededNumbers } from "../../shared/random/seeded-numbers.js";
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

/** Largest number of a version's step from the one before it; a kernel's first numbers are below 1. */
const stepScale = 0.002;

/** A model whose tensors no other one has: each version is a small step from the one before it, as fine-tunes are. */
export function modelOf(
  architecture: Architecture,
  tensors: number,
  line: number,
  version: number,
): ModelSource {
  return modelSourceOfTensors(
    architecture,
    Array.from({ length: tensors }, (_, tensor) => {
      const first = seededNumbers(tensor);
      const step = seededNumbers(line * tensors + tensor + tensors);
      const values = Float32Array.from(
        { length: tensorBytes / Float32Array.BYTES_PER_ELEMENT },
        () => first() + stepScale * (version + 1) * step(),
      );
      return { dtype: "F32" as const, shape: tensorShape, bytes: new Uint8Array(values.buffer) };
    }),
  );
}
