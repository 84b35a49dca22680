/**
 * Checks that a version's objects in the store are what it declares. Tensors have the declared dtype and
 * shape, other objects the kind of their role. A tensor's id follows from its dtype and shape too, but a tree
 * can name a stored tensor by its id and declare another dtype; such a version could not be recovered.
 */
import { StemmaError } from "../../../../shared/errors.js";
import type { LeafTable } from "../../../../shared/model/model.js";
import { declaredObjectsOf, type ReferringRecord } from "../../../../shared/model/record-objects.js";
import type { ObjectReader } from "../../../../shared/objects/object-store.js";

/**
 * Compares everything that is in the store; what is missing passes. Reads no object. `leaves`: of all trees.
 * @throws TREE_MALFORMED, OBJECT_KIND_MISMATCH
 */
export function checkDeclarations(
  objects: Pick<ObjectReader, "stat">,
  record: ReferringRecord,
  leaves: LeafTable,
): void {
  for (const leaf of leaves) checkLeaf(objects, leaf);
  for (const { kind, id } of declaredObjectsOf(record)) {
    const stored = objects.stat(id)?.kind;
    if (stored !== undefined && stored !== kind)
      throw new StemmaError(
        "OBJECT_KIND_MISMATCH",
        `The save record names ${id} as ${kind}; in the store it is of the kind ${stored}. Have the sender save the model again.`,
        { id, expected: kind, actual: stored },
      );
  }
}

function checkLeaf(
  objects: Pick<ObjectReader, "stat">,
  { path, tensor, dtype, shape }: LeafTable[number],
): void {
  const stored = objects.stat(tensor);
  if (stored === undefined) return;
  const { header } = stored;
  if (
    header?.dtype === dtype &&
    header.shape.length === shape.length &&
    header.shape.every((dimension, axis) => dimension === shape[axis])
  )
    return;
  const actual = header === undefined ? stored.kind : `${header.dtype} [${header.shape.join(", ")}]`;
  throw new StemmaError(
    "TREE_MALFORMED",
    `The tree declares the tensor ${tensor} at ${path} as ${dtype} [${shape.join(", ")}]; in the store it is ${actual}. The model could not be recovered. Have the sender save it again.`,
    { id: tensor, path, actual },
  );
}
