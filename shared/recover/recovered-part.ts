/**
 * Names the parts of a version that are recovered like a model. Those are the model itself, the model after
 * an iteration, and the optimizer's state after the training. Pure.
 */
import { StemmaError } from "../errors.js";
import type { Leaf, LeafTable, Names, SaveRecord } from "../model/model.js";
import { treesOf } from "../model/record-objects.js";
import { hasSameHeader } from "../tensor/same-header.js";
import type { Hash } from "../tensor/tensor.js";

export type RecoveredPart = "model" | "optimizer" | { readonly checkpoint: number };

export function describePart(part: RecoveredPart): string {
  if (part === "model") return "the model";
  return part === "optimizer" ? "the optimizer's state" : `the checkpoint after iteration ${part.checkpoint}`;
}

/** The largest number of iterations that an error names. */
const maxNamedIterations = 50;

/** The tree of a part. @throws MODEL_PART_MISSING naming the parts that the version has */
export function treeOfPart(record: Pick<SaveRecord, "name" | "objects" | "uses">, part: RecoveredPart): Hash {
  const trees = treesOf(record);
  const found = trees.find((tree) =>
    typeof part === "string"
      ? tree.part === part
      : tree.part === "checkpoint" && tree.iteration === part.checkpoint,
  );
  if (found !== undefined) return found.tree;
  const iterations = trees.flatMap((tree) => (tree.part === "checkpoint" ? [tree.iteration] : []));
  const hasOptimizer = trees.some((tree) => tree.part === "optimizer");
  const named = iterations.slice(0, maxNamedIterations).join(", ");
  const more =
    iterations.length > maxNamedIterations ? ` and ${iterations.length - maxNamedIterations} more` : "";
  const has =
    iterations.length === 0
      ? "It has no checkpoints"
      : `It has checkpoints after the iterations ${named}${more}`;
  throw new StemmaError(
    "MODEL_PART_MISSING",
    `${record.name} was saved without ${describePart(part)}. ${has}, ` +
      `and ${hasOptimizer ? "the" : "no"} optimizer's state. Choose one of these, or the model itself.`,
    { iterations, hasOptimizer },
  );
}

/** Returns the names of a part's leaves: as in the model where it has the model's leaves, else by their paths. */
export function namesOfPart(
  leaves: LeafTable,
  model: { readonly leaves: LeafTable; readonly names: Names },
): Names {
  const isLikeModel =
    leaves.length === model.leaves.length && leaves.every(({ path }, i) => path === model.leaves[i]?.path);
  if (!isLikeModel) return { leaves: leaves.map(({ path }) => path) };
  // The header of the model's file fits where the tensors have the same types and shapes.
  if (leaves.every((leaf, i) => hasSameHeader(leaf, model.leaves[i] as Leaf))) return model.names;
  const { fileHeader: _, ...names } = model.names;
  return names;
}
