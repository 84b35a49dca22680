/**
 * Finds the common prefix of two architectures: the layers that both have after the same layers (EvoStore,
 * Algorithm 1). It also finds which weights of one belong to which of the other. Layers are matched by
 * identity, never by position.
 */
import type { Hash } from "../tensor/tensor.js";
import { layerIdentities } from "./layer-identity.js";
import type { Architecture, LeafLayer } from "./model.js";
import { leafPath } from "./tree.js";

export interface CommonPrefix {
  /** Pairs of layer indices, ascending by the child's. */
  readonly layers: readonly { readonly child: number; readonly ancestor: number }[];
  /** Paths of the weights of these layers, in the child's canonical order; shared weights once. */
  readonly weights: readonly { readonly child: string; readonly ancestor: string }[];
}

/** Finds what a child can take over from an ancestor. */
export function commonPrefix(child: Architecture, ancestor: Architecture): CommonPrefix {
  const ancestors = new Map<Hash, number>();
  layerIdentities(ancestor).forEach((identity, layer) => {
    if (identity !== undefined) ancestors.set(identity, layer);
  });
  const layers = layerIdentities(child).flatMap((identity, layer) => {
    const found = identity === undefined ? undefined : ancestors.get(identity);
    return found === undefined ? [] : [{ child: layer, ancestor: found }];
  });
  const owners = new Map<number, number>();
  for (const pair of layers) owners.set(ownerOf(child, pair.child), ownerOf(ancestor, pair.ancestor));
  return {
    layers,
    weights: [...owners]
      .sort(([left], [right]) => left - right)
      .flatMap(([owner, from]) =>
        (child.layers[owner] as LeafLayer).weights.map((_, weight) => ({
          child: leafPath(owner, weight),
          ancestor: leafPath(from, weight),
        })),
      ),
  };
}

function ownerOf({ layers }: Architecture, layer: number): number {
  return layers[layer]?.sharedWith ?? layer;
}
