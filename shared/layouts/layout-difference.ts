/** Compares the layout of a version with its base's: the same tensors of the file are the same weights. Pure. */
import { tensorId } from "../tensor/hash.js";
import type { LeafTable } from "../model/model.js";
import { sumOf } from "./addends.js";
import { isAddend, isWeight, type Addend, type Layout, type LayoutTensor } from "./layout.js";
import { counted } from "../printable.js";

/**
 * Two tensors that are added are compared by value: one is as in the base, or their sum is the weight exactly. Else a
 * large one would hide the weight in its rounding.
 * @param leaves of the version's model
 * @returns words about the first difference; undefined where there is none
 */
export function layoutDifference(own: Layout, base: Layout, leaves: LeafTable): string | undefined {
  const ofBase = new Map(base.tensors.map((tensor) => [tensor.name, tensor]));
  if (own.tensors.length !== ofBase.size)
    return `it has ${counted(own.tensors.length, "tensor")}, and that has ${ofBase.size}`;
  for (const tensor of own.tensors) {
    const other = ofBase.get(tensor.name);
    if (other === undefined || placeOf(tensor) !== placeOf(other))
      return `${JSON.stringify(tensor.name.slice(0, 80))} has another place or form in it`;
  }
  const hidden = own.tensors.filter(isAddend).find((tensor) => {
    if (tensor.addend !== "kept") return false;
    const before = ofBase.get(tensor.name) as Addend;
    return Buffer.compare(tensor.bytes, before.bytes) !== 0 && !isExactSum(tensor, own, leaves);
  });
  return hidden === undefined
    ? undefined
    : `${JSON.stringify(hidden.name.slice(0, 80))} and the tensor that is added to it do not give the weight`;
}

/** All that decides which weight the tensor is, and how. */
function placeOf(tensor: LayoutTensor): string {
  const { dtype, shape } = tensor;
  const { order, part } = isWeight(tensor) ? tensor : {};
  const axes = order === undefined ? null : [order.as, order.axes, order.blocks];
  const leaf = isWeight(tensor) || isAddend(tensor) ? tensor.leaf : null;
  return JSON.stringify([
    dtype,
    shape,
    leaf,
    axes,
    part?.at,
    part?.of,
    isAddend(tensor) ? tensor.addend : null,
  ]);
}

function isExactSum(kept: Addend, { tensors }: Layout, leaves: LeafTable): boolean {
  const other = tensors
    .filter(isAddend)
    .find(({ leaf, addend }) => leaf === kept.leaf && addend === "difference");
  const leaf = leaves[kept.leaf];
  return (
    other !== undefined &&
    leaf !== undefined &&
    tensorId(leaf, sumOf(other.bytes, kept.bytes)) === leaf.tensor
  );
}
