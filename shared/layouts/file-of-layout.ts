/** The tensors of the other tool's file, from a model's weights and its layout: the inverse of the import. */
import { StemmaError } from "../errors.js";
import type { Leaf, Names } from "../model/model.js";
import { compareNames, treeRoot } from "../model/tree.js";
import { dtypeBits } from "../tensor/dtype.js";
import { tensorHasher, tensorIdOfSource } from "../tensor/hash.js";
import type { Hash, TensorSource } from "../tensor/tensor.js";
import { sourceOfTensor, tensorOfSource } from "../tensor/tensor.js";
import { keepsOrder, restored } from "./axis-order.js";
import { differenceOf, inexactSums } from "./addends.js";
import { decodeLayout, isAddend, isWeight, type Addend, type Layout, type WeightTensor } from "./layout.js";

/** A model's tensors as the file of its layout has them. */
export interface LaidOut {
  readonly names: Names;
  readonly sources: readonly TensorSource[];
  /** The root that was stated of the tensors when the layout was made. */
  readonly root: Hash;
  /** Counts numbers whose two addends do not give the weight, which was trained since and is rounded. */
  countInexact(): Promise<number>;
}

/**
 * @param sources the model's weights, in canonical order
 * @param given the attachment's bytes
 * @throws MODEL_FILE_MALFORMED
 */
export function fileOfLayout(sources: readonly TensorSource[], given: Uint8Array): LaidOut {
  const layout = decodeLayout(given, sources);
  const addends = layout.tensors.filter(isAddend);
  const kept = new Map<number, Uint8Array>();
  for (const { addend, leaf, bytes } of addends) if (addend === "kept") kept.set(leaf, bytes);
  const sumOfLeaf = (file: Addend): Sum => ({
    file,
    kept: kept.get(file.leaf) as Uint8Array,
    weight: sources[file.leaf] as TensorSource,
  });
  return {
    root: layout.root,
    names: namesOf(layout),
    sources: layout.tensors.map((tensor) => {
      if (isWeight(tensor)) return sourceOf(tensor, sources[tensor.leaf] as TensorSource);
      return isAddend(tensor) && tensor.addend === "difference"
        ? sourceOfDifference(sumOfLeaf(tensor))
        : sourceOfTensor(tensor);
    }),
    async countInexact() {
      let count = 0;
      for (const sum of addends.filter(({ addend }) => addend === "difference").map(sumOfLeaf)) {
        const { bytes } = await tensorOfSource(sum.weight);
        count += inexactSums(bytes, differenceOf(bytes, sum.file.bytes, sum.kept), sum.kept);
      }
      return count;
    },
  };
}

/** A weight that is the sum of two tensors of the file. */
interface Sum {
  readonly file: Addend;
  readonly kept: Uint8Array;
  readonly weight: TensorSource;
}

function sourceOfDifference({ file, kept, weight }: Sum): TensorSource {
  const { dtype, shape } = file;
  return {
    dtype,
    shape,
    byteLength: file.bytes.length,
    async *chunks() {
      const now = await tensorOfSource(weight);
      const bytes = differenceOf(now.bytes, file.bytes, kept);
      yield* sourceOfTensor({ dtype, shape, bytes }).chunks();
    },
  };
}

function namesOf({ tensors, metadata }: Layout): Names {
  const leaves = tensors.map(({ name }) => name);
  return metadata === undefined ? { leaves } : { leaves, fileMetadata: metadata };
}

function sourceOf({ dtype, shape, order, part }: WeightTensor, weight: TensorSource): TensorSource {
  const { at, of } = part ?? { at: 0, of: 1 };
  const byteLength = weight.byteLength / of;
  const isMoved = order !== undefined && !keepsOrder(order);
  if (!isMoved && of === 1) return { dtype, shape, byteLength, chunks: () => weight.chunks() };
  return {
    dtype,
    shape,
    byteLength,
    async *chunks() {
      const { bytes } = await tensorOfSource(weight);
      const own = bytes.subarray(at * byteLength, (at + 1) * byteLength);
      yield* sourceOfTensor({
        dtype,
        shape,
        bytes: isMoved ? restored(own, order, dtypeBits(dtype) / 8) : own,
      }).chunks();
    },
  };
}

/** A file's tensors that hash themselves while they are read, once each, and the check of what was read. */
export interface CheckedFile extends LaidOut {
  /** @throws ROOT_MISMATCH where the tensors that were read are not those of the stated root */
  readonly check: () => void;
}

export function checkedFile(file: LaidOut): CheckedFile {
  const leaves: Leaf[] = [];
  const sources = file.sources.map((source, at): TensorSource => {
    const { dtype, shape, byteLength } = source;
    return {
      dtype,
      shape,
      byteLength,
      async *chunks() {
        const hash = tensorHasher(source);
        for await (const chunk of source.chunks()) {
          hash.update(chunk);
          yield chunk;
        }
        leaves[at] = { path: file.names.leaves[at] as string, dtype, shape, tensor: hash.digest() };
      },
    };
  });
  const check = (): void => {
    const actual = rootOf(leaves);
    if (actual === file.root) return;
    throw new StemmaError(
      "ROOT_MISMATCH",
      `The tensors in the layout of the file have the root ${actual}, and who saved them stated ${file.root}, so they ` +
        "are not used. Recover the model as safetensors, and look where it comes from.",
      { expected: file.root, actual },
    );
  };
  return { ...file, sources, check };
}

/** The root of a file's tensors, as of a model without an architecture. */
export function rootOf(leaves: readonly Leaf[]): Hash {
  return treeRoot([...leaves].sort((a, b) => compareNames(a.path, b.path)));
}

/** Reads all tensors of a file for their root. */
export async function rootOfFile({ sources, names }: LaidOut): Promise<Hash> {
  const leaves: Leaf[] = [];
  for (const [at, source] of sources.entries()) {
    const { dtype, shape } = source;
    leaves.push({ path: names.leaves[at] as string, dtype, shape, tensor: await tensorIdOfSource(source) });
  }
  return rootOf(leaves);
}

/** Reads all tensors of a file. @throws ROOT_MISMATCH, MODEL_FILE_MALFORMED */
export async function checkFileOfLayout(
  sources: readonly TensorSource[],
  given: Uint8Array,
): Promise<LaidOut> {
  const file = fileOfLayout(sources, given);
  const checked = checkedFile(file);
  for (const source of checked.sources) for await (const _ of source.chunks());
  checked.check();
  return file;
}
