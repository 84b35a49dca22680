/**
 * Refuses a model with numbers that are not finite where its base has only finite ones. Such a training diverged, or
 * the file was written wrongly. A base may have such numbers on purpose (a mask of −∞), so they are compared.
 */
import { StemmaError } from "../errors.js";
import { isWeight, type Layout } from "./layout.js";
import type { LeafTable, ModelSource } from "../model/model.js";
import type { DType } from "../tensor/dtype.js";
import { sourceOfTensor, type Hash, type TensorSource } from "../tensor/tensor.js";

/** Bytes of a number, and the bits of its highest word, of 16 or 32 bits, that are all 1 where it is not finite. */
const floats: Partial<Record<DType, { readonly bytes: number; readonly exponent: number }>> = {
  F16: { bytes: 2, exponent: 0x7c00 },
  BF16: { bytes: 2, exponent: 0x7f80 },
  F32: { bytes: 4, exponent: 0x7f80_0000 },
  F64: { bytes: 8, exponent: 0x7ff0_0000 },
};

/** Opens stored tensors by their ids. */
export interface TensorOpener {
  openTensor(id: Hash, options?: { readonly verify?: boolean }): TensorSource;
}

/**
 * Reads the tensors that differ from the base.
 * @throws NOT_A_NUMBER naming the first tensor with a number that is not finite
 */
export async function requireFinite(
  model: ModelSource,
  base: LeafTable,
  { objects, where }: { readonly objects: TensorOpener; readonly where: string },
): Promise<void> {
  const earlier = new Map(base.map(({ path, tensor }) => [path, tensor]));
  for (const [at, { path, tensor }] of model.leaves.entries()) {
    const before = earlier.get(path);
    const source = model.sources[at];
    if (before === undefined || before === tensor || source === undefined) continue;
    if (await isFinite(source)) continue;
    if (!(await isFinite(objects.openTensor(before, { verify: false })))) continue;
    throw notFinite(model.names.leaves[at] ?? path, where);
  }
}

/**
 * Looks at the tensors of a file that are kept beside the weights: what uses the file computes with them.
 * @param layouts that of the file, and that of its base
 * @throws NOT_A_NUMBER naming the first tensor with a number that is not finite, where the base's are
 */
export async function requireFiniteBeside(
  [layout, base]: readonly [Layout, Layout],
  where: string,
): Promise<void> {
  const earlier = new Map(base.tensors.map((tensor) => [tensor.name, tensor]));
  for (const tensor of layout.tensors) {
    const before = earlier.get(tensor.name);
    if (isWeight(tensor) || before === undefined || isWeight(before)) continue;
    if (await isFinite(sourceOfTensor(tensor))) continue;
    if (await isFinite(sourceOfTensor(before))) throw notFinite(tensor.name, where);
  }
}

function notFinite(tensor: string, where: string): StemmaError {
  const name = tensor.slice(0, 80);
  return new StemmaError(
    "NOT_A_NUMBER",
    `The tensor ${JSON.stringify(name)} in ${where} has numbers that are NaN or infinite, and the ` +
      "model before has none there: the training diverged, or wrote the file wrongly. Nothing was " +
      "saved; train again, with a lower learning rate or with clipped gradients.",
    { tensor: name },
  );
}

/** True if all numbers of a tensor are finite; true for types that have no other ones. */
async function isFinite(source: TensorSource): Promise<boolean> {
  const float = floats[source.dtype];
  if (float === undefined) return true;
  const { bytes, exponent } = float;
  /** The beginning of a number whose end is in the next chunk. */
  let rest: Uint8Array = new Uint8Array(0);
  for await (const chunk of source.chunks()) {
    const joined = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    const whole = joined.length - (joined.length % bytes);
    if (!areFinite(highWords(joined.subarray(0, whole), bytes), bytes === 8 ? 2 : 1, exponent)) return false;
    rest = new Uint8Array(joined.subarray(whole));
  }
  return true;
}

/** Little-endian words of 16 bits of two-byte numbers, else of 32 bits. Copies bytes that are not aligned. */
function highWords(bytes: Uint8Array, numberBytes: number): Uint16Array | Uint32Array {
  const wordBytes = Math.min(numberBytes, 4);
  const { buffer, byteOffset, length } = bytes.byteOffset % wordBytes === 0 ? bytes : new Uint8Array(bytes);
  return wordBytes === 2
    ? new Uint16Array(buffer, byteOffset, length / 2)
    : new Uint32Array(buffer, byteOffset, length / 4);
}

/** @param step words of a number; its highest is the last of them */
function areFinite(words: Uint16Array | Uint32Array, step: number, exponent: number): boolean {
  for (let at = step - 1; at < words.length; at += step)
    if (((words[at] as number) & exponent) === exponent) return false;
  return true;
}
