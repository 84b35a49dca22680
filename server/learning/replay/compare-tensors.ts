/** Compares the tensors of a version with those that a replay gave, one after the other. */
import { defined } from "../../../shared/defined.js";
import { tensorId } from "../../../shared/tensor/hash.js";
import { tensorOfSource, type Hash, type TensorSource } from "../../../shared/tensor/tensor.js";
import { hasSameHeader } from "../../../shared/tensor/same-header.js";

export interface ComparedTensor {
  readonly path: string;
  /** The tensor's name for people. */
  readonly name: string;
  readonly id: Hash;
  /** The tensor's bytes; undefined where only its id is known. */
  readonly source: TensorSource | undefined;
}

export interface TensorDifference {
  /** The number of tensors with other bytes. */
  readonly tensors: number;
  /** The first of them, in the model's order. */
  readonly first: string;
  /** The one with the largest difference of a number, and that difference; undefined where none has such numbers. */
  readonly largest?: { readonly tensor: string; readonly difference: number };
}

/**
 * Compares the tensors; undefined where all are equal, bit for bit. A tensor that only one side has counts as
 * different.
 * @param replayed by path
 */
export async function compareTensors(
  original: readonly ComparedTensor[],
  replayed: ReadonlyMap<string, TensorSource>,
): Promise<TensorDifference | undefined> {
  let tensors = 0;
  let first: string | undefined;
  let largest: TensorDifference["largest"];
  for (const { path, name, id, source } of original) {
    const other = replayed.get(path);
    const tensor = other === undefined ? undefined : await tensorOfSource(other);
    if (tensor !== undefined && tensorId(tensor, tensor.bytes) === id) continue;
    tensors++;
    first ??= name;
    if (
      tensor === undefined ||
      source === undefined ||
      !hasSameHeader(tensor, source) ||
      tensor.dtype !== "F32"
    )
      continue;
    const difference = largestDifference((await tensorOfSource(source)).bytes, tensor.bytes);
    if (largest === undefined || difference > largest.difference) largest = { tensor: name, difference };
  }
  const paths = new Set(original.map(({ path }) => path));
  for (const path of replayed.keys()) {
    if (paths.has(path)) continue;
    tensors++;
    first ??= path;
  }
  if (first === undefined) return undefined;
  return { tensors, first, ...defined({ largest }) };
}

/**
 * Returns the largest difference of float32 numbers; the largest of all where one side is not a finite number
 * and the other is.
 */
function largestDifference(a: Uint8Array, b: Uint8Array): number {
  const [viewA, viewB] = [viewOf(a), viewOf(b)];
  let largest = 0;
  for (let at = 0; at < a.length; at += 4) {
    const [numberA, numberB] = [viewA.getFloat32(at, true), viewB.getFloat32(at, true)];
    const difference = Object.is(numberA, numberB) ? 0 : Math.abs(numberA - numberB);
    largest = Math.max(largest, Number.isFinite(difference) ? difference : Number.MAX_VALUE);
  }
  return largest;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
