/** Models for simulations: tensors as a small network for images has them, and an update of some of them. Pure. */
import { seededNumbers } from "../../../shared/random/seeded-numbers.js";
import { safetensorsByteLength, safetensorsChunks } from "../../../shared/tensor/safetensors.js";
import { sourceOfTensor } from "../../../shared/tensor/tensor.js";
import type { ImportStream } from "../../interface/api/server-operations.js";

export interface SyntheticTensor {
  readonly name: string;
  readonly shape: readonly [number, number];
  /** The numbers as float32, little-endian. */
  readonly bytes: Uint8Array;
}

const backboneTensors = 11;
/** The share of a model's bytes that devices fine-tune. */
const headShare = 0.02;
const columns = 64;
/** Largest size of one weight. */
const scale = 0.1;

/** @param bytes of all tensors together, roughly: each has whole rows */
export function syntheticModel(bytes: number, seed: number): readonly SyntheticTensor[] {
  const draw = seededNumbers(seed);
  const shares = [
    ...Array.from({ length: backboneTensors }, () => (1 - headShare) / backboneTensors),
    headShare,
  ];
  return shares.map((share, at) => {
    const rows = Math.max(1, Math.round((share * bytes) / 4 / columns));
    const values = new DataView(new ArrayBuffer(4 * rows * columns));
    for (let index = 0; index < rows * columns; index++)
      values.setFloat32(4 * index, scale * (draw() + draw() - 1), true);
    // The last one by its name too, which is the order of a model without an architecture.
    const name = at === backboneTensors ? "output" : `layer-${String(at).padStart(2, "0")}`;
    return { name, shape: [rows, columns], bytes: new Uint8Array(values.buffer) };
  });
}

/**
 * A partial update, as of a training that was continued with most layers frozen: the weights of the last `share` of
 * the tensors move a little, all others stay.
 */
export function updatedModel(
  tensors: readonly SyntheticTensor[],
  share: number,
  seed: number,
): readonly SyntheticTensor[] {
  const draw = seededNumbers(seed);
  const first = tensors.length - Math.max(1, Math.round(share * tensors.length));
  return tensors.map((tensor, at) => {
    if (at < first) return tensor;
    const bytes = tensor.bytes.slice();
    const values = new DataView(bytes.buffer);
    for (let offset = 0; offset < bytes.length; offset += 4)
      values.setFloat32(offset, values.getFloat32(offset, true) + (scale / 50) * (draw() + draw() - 1), true);
    return { ...tensor, bytes };
  });
}

/** Encodes tensors as a safetensors file. */
export function importStreamOf(tensors: readonly SyntheticTensor[]): ImportStream {
  const parts = tensors.map(({ name, shape, bytes }) => ({
    name,
    source: sourceOfTensor({ dtype: "F32", shape, bytes }),
  }));
  return { byteLength: safetensorsByteLength(parts), chunks: safetensorsChunks(parts) };
}
