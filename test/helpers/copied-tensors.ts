/** The tensors of a recovered model, in memory. */
import { tensorOfSource, type Tensor, type TensorSource } from "../../shared/tensor/tensor.js";

/** @param flipped index of a tensor whose first bit is changed */
export async function copiedTensors(
  sources: readonly TensorSource[],
  flipped?: number,
): Promise<readonly Tensor[]> {
  const tensors: Tensor[] = [];
  for (const source of sources) {
    const { bytes, ...header } = await tensorOfSource(source);
    tensors.push({ ...header, bytes: bytes.slice() });
  }
  if (flipped !== undefined) tensors[flipped]!.bytes[0]! ^= 1;
  return tensors;
}
