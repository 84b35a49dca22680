/**
 * Makes a new version from a base and a file that holds only some of its tensors. The others are the base's,
 * and neither read nor sent. Pure.
 */
import { defined } from "../defined.js";
import { StemmaError } from "../errors.js";
import type { Architecture, Leaf, LeafTable, ModelSource, Names } from "../model/model.js";
import { hasSameHeader } from "../tensor/same-header.js";
import type { Hash, TensorSource } from "../tensor/tensor.js";

/** The largest number of tensors that an error names. */
const maxNamedTensors = 12;

/** The known parts of the base without its tensors. */
export interface PartialBase {
  readonly kind: ModelSource["kind"];
  readonly architecture?: Architecture;
  readonly leaves: LeafTable;
  readonly names: Names;
}

/**
 * The base with the part's tensors in the place of its own. Tensors are found by the base's name for them, or by
 * their path.
 * @param part the tensors of the file, as a model without an architecture
 * @param open opens a stored tensor of the base; it is read only where the store loses it meanwhile
 * @throws ARCHITECTURE_MISMATCH for a tensor that the base does not have, has with another type or shape, or that the
 * file has twice
 */
export function completeModel(
  part: ModelSource,
  { kind, architecture, leaves, names }: PartialBase,
  open: (tensor: Hash) => TensorSource,
): ModelSource {
  const byName = new Map<string, number>(leaves.map(({ path }, i) => [path, i]));
  names.leaves.forEach((name, i) => byName.set(name, i));
  const given = new Map<number, number>();
  part.leaves.forEach((leaf, i) => {
    const found = byName.get(leaf.path);
    if (found === undefined) throw unknownTensor(leaf.path, names.leaves);
    if (given.has(found))
      throw mismatch(`the file has ${quoted(names.leaves[found])} twice, by name and by path`);
    const own = leaves[found] as Leaf;
    if (!hasSameHeader(leaf, own))
      throw mismatch(
        `${quoted(leaf.path)} is ${leaf.dtype} [${leaf.shape.join(", ")}] in the file, and ` +
          `${own.dtype} [${own.shape.join(", ")}] in the base`,
      );
    given.set(found, i);
  });
  const partOf = (i: number): number | undefined => given.get(i);
  return {
    kind,
    ...defined({ architecture }),
    leaves: leaves.map((leaf, i) => {
      const from = partOf(i);
      return from === undefined ? leaf : { ...leaf, tensor: (part.leaves[from] as Leaf).tensor };
    }),
    sources: leaves.map((leaf, i) => {
      const from = partOf(i);
      return from === undefined ? open(leaf.tensor) : (part.sources[from] as TensorSource);
    }),
    names,
  };
}

function quoted(name: string | undefined): string {
  return JSON.stringify((name ?? "").slice(0, 80));
}

function unknownTensor(name: string, known: readonly string[]): StemmaError {
  const more = known.length - maxNamedTensors;
  return mismatch(
    `the base has no tensor ${quoted(name)}; it has ${known.slice(0, maxNamedTensors).map(quoted).join(", ")}` +
      (more > 0 ? ` and ${more} more` : ""),
  );
}

function mismatch(reason: string): StemmaError {
  return new StemmaError(
    "ARCHITECTURE_MISMATCH",
    `The file cannot be laid over the base: ${reason}. Give tensors of the base with their names, types and ` +
      "shapes; a model of another form is imported whole, with --base.",
  );
}
