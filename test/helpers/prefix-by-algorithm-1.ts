/** EvoStore's Algorithm 1, written plainly: the reference for common prefixes. */
import type { Architecture } from "../../shared/model/model.js";
import type { Hash } from "../../shared/tensor/tensor.js";

export interface IdentifiedArchitecture {
  readonly architecture: Architecture;
  /** By layer index, as `layerIdentities` returns them. */
  readonly identities: readonly (Hash | undefined)[];
}

/**
 * From the inputs on, a pair of layers belongs to the prefix when both have the same identity and every
 * predecessor is in it. Pairs of layer indices, ascending by the child's.
 */
export function prefixByAlgorithm1(
  child: IdentifiedArchitecture,
  ancestor: IdentifiedArchitecture,
): readonly (readonly [child: number, ancestor: number])[] {
  const pairs = new Map<number, number>();
  for (let isGrowing = true; isGrowing;) {
    isGrowing = false;
    child.architecture.layers.forEach(({ inputs }, left) => {
      const identity = child.identities[left];
      if (pairs.has(left) || identity === undefined || !inputs.every(({ layer }) => pairs.has(layer))) return;
      const right = ancestor.architecture.layers.findIndex(
        (candidate, i) =>
          ancestor.identities[i] === identity &&
          candidate.inputs.every(({ layer }, slot) => pairs.get(inputs[slot]?.layer as number) === layer),
      );
      if (right < 0) return;
      pairs.set(left, right);
      isGrowing = true;
    });
  }
  return [...pairs].sort(([left], [right]) => left - right);
}
