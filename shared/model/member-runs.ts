/** Finds the members of an ensemble in its architecture: a model that ends in the mean of several others. Pure. */
import type { Architecture } from "./model.js";

/** The layers of a member: from `first` to `end`. */
export interface MemberRun {
  readonly first: number;
  readonly end: number;
}

/**
 * The members of a model with one input and one output, whose last layer is the mean of runs of layers that only share
 * the input, in the order of the mean's inputs. undefined for any other model.
 */
export function memberRuns({ layers, outputs }: Architecture): readonly MemberRun[] | undefined {
  const at = outputs[0]?.layer ?? -1;
  const mean = layers[at];
  if (outputs.length !== 1 || at !== layers.length - 1 || mean?.className !== "Average") return undefined;
  if (mean.inputs.length < 2 || layers[0]?.className !== "InputLayer") return undefined;
  const runs: MemberRun[] = [];
  for (const { layer: end } of mean.inputs) {
    const first = (runs.at(-1)?.end ?? 0) + 1;
    const own = layers.slice(first, end + 1);
    const isApart = own.every(
      ({ className, inputs, sharedWith }) =>
        className !== "InputLayer" &&
        (sharedWith === undefined || sharedWith >= first) &&
        inputs.every(({ layer }) => layer === 0 || (layer >= first && layer <= end)),
    );
    if (end < first || !isApart) return undefined;
    runs.push({ first, end });
  }
  return runs.at(-1)?.end === at - 1 ? runs : undefined;
}
