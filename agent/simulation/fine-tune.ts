/**
 * Makes a fine-tune that no training makes. The last tensors of a model, which are those of its head, change in the low
 * bits of their numbers, as after a few steps with a small learning rate. Floats of 16 bits and more stay finite.
 */
import { defined } from "../../shared/defined.js";
import { decodeArchitecture } from "../../shared/model/architecture.js";
import type { Leaf, ModelSource } from "../../shared/model/model.js";
import { decodeNames } from "../../shared/model/names.js";
import { dtypeBits } from "../../shared/tensor/dtype.js";
import { tensorId } from "../../shared/tensor/hash.js";
import { sourceOfTensor, tensorOfSource, type Hash, type TensorSource } from "../../shared/tensor/tensor.js";
import type { Outbox } from "../outbox/outbox.js";

/** Bits of the lowest byte of a number that may change: the sign and the exponent of no type are among them. */
const changedBits = 0x3f;

/**
 * The leaves that change: the last ones, until they have this share of the model's bytes; at least one. Pure.
 * @param sizes bytes of each tensor, in canonical order
 */
export function changedFrom(sizes: readonly number[], share: number): number {
  const wanted = share * sizes.reduce((sum, size) => sum + size, 0);
  let from = sizes.length - 1;
  for (let bytes = sizes[from] ?? 0; from > 0 && bytes < wanted; bytes += sizes[from] ?? 0) from--;
  return from;
}

/** The tensor's bytes with low bits changed, drawn from `draw`. Pure but for the draw. */
export function changedBytes(bytes: Uint8Array, elementBytes: number, draw: () => number): Uint8Array {
  const changed = new Uint8Array(bytes);
  for (let at = 0; at < changed.length; at += elementBytes)
    changed[at] = (changed[at] as number) ^ Math.floor(draw() * (changedBits + 1));
  return changed;
}

export async function fineTuned(
  base: Hash,
  outbox: Pick<Outbox, "record" | "leaves" | "objects">,
  { share, draw }: { readonly share: number; readonly draw: () => number },
): Promise<ModelSource> {
  const { objects } = outbox;
  const { record } = await outbox.record(base);
  const leaves = await outbox.leaves(record);
  const stored = leaves.map(({ tensor }) => objects.openTensor(tensor));
  const first = changedFrom(
    stored.map(({ byteLength }) => byteLength),
    share,
  );
  const changed = await Promise.all(
    leaves.map(async (leaf, at): Promise<{ readonly leaf: Leaf; readonly source: TensorSource }> => {
      const source = stored[at] as TensorSource;
      if (at < first) return { leaf, source };
      const { bytes } = await tensorOfSource(source);
      const tensor = {
        dtype: leaf.dtype,
        shape: leaf.shape,
        bytes: changedBytes(bytes, Math.max(1, dtypeBits(leaf.dtype) / 8), draw),
      };
      const id = tensorId(tensor, tensor.bytes);
      return { leaf: { ...leaf, tensor: id }, source: sourceOfTensor(tensor, id) };
    }),
  );
  const { architecture, names } = record.objects;
  return defined({
    kind: architecture === undefined ? "opaque" : "architecture",
    architecture: architecture && decodeArchitecture(await objects.read("architecture", architecture)),
    leaves: changed.map(({ leaf }) => leaf),
    sources: changed.map(({ source }) => source),
    names: decodeNames(await objects.read("names", names), leaves.length),
  });
}
