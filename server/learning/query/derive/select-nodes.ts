/** Finds the layers that a mutation names, each with what its selector captured. Pure. */
import type { Work } from "../compiled-query.js";
import { compileNodes, follow, type NodeSelector } from "../layer-conditions.js";
import type { Network, NetworkLayer } from "../network.js";
import type { Scope } from "../operands.js";
import type { Captures } from "../patterns.js";
import type { Condition, Has, Hop, Nodes } from "../syntax.js";
import { layerTest, type LayerTest } from "../templates.js";

/** A condition on the selector of a mutation, which limits what is changed to the layers that meet it. */
interface Limit {
  readonly hops: readonly Hop[];
  readonly fits: LayerTest;
}

export interface NodeSet {
  readonly selector: NodeSelector;
  readonly limits: readonly Limit[];
}

export interface SelectedLayer {
  readonly index: number;
  readonly captures: Captures;
  /** True if the edge to this layer is one that the conditions are about. */
  readonly isEdgeMeant: (target: number) => boolean;
  /** True where conditions are about its edges: one that leads out of the model is not meant. */
  readonly hasMeantEdges: boolean;
}

/**
 * The conditions that limit are those on the same selector that all results meet (MH, Query 3: only a convolution that
 * an average pooling follows gets a ReLU).
 */
export function compileNodeSet(nodes: Nodes, where: readonly Condition[], scope: Scope): NodeSet {
  const selector = compileNodes(nodes, scope);
  const limits = where.flatMap((condition): readonly Limit[] => {
    if (condition.kind !== "has" || !isSameSelector(condition, nodes)) return [];
    const { template, nodes: limited } = condition;
    const captured = new Set(selector.pattern.captures.keys());
    return [{ hops: limited.hops, fits: layerTest(template, captured, scope.fail) }];
  });
  return { selector, limits };
}

function isSameSelector({ nodes }: Has, { variable, selector }: Nodes): boolean {
  return nodes.variable.name === variable.name && nodes.selector.value === selector.value;
}

/** The selected layers; one that several lead to is found once. */
export function selectLayers(
  { selector, limits }: NodeSet,
  network: Network,
  work: Work,
): readonly SelectedLayer[] {
  const indices = new Map(network.layers.map((layer, index) => [layer, index]));
  const found = new Map<number, SelectedLayer>();
  for (const start of selector.startsIn(network, work)) {
    const { layer, captures } = start;
    const meets = ({ hops, fits }: Limit): boolean =>
      follow(network, [layer], hops, work).some((reached) => fits(reached, captures));
    if (!limits.every(meets)) continue;
    const ofLayers = limits.filter(({ hops }) => isSamePath(hops, selector.hops));
    const ofEdges = limits.filter(({ hops }) => isSamePath(hops, [...selector.hops, "next"]));
    const isEdgeMeant = (target: number): boolean =>
      ofEdges.every(({ fits }) => fits(network.layers[target] as NetworkLayer, captures));
    for (const reached of follow(network, [layer], selector.hops, work)) {
      if (!ofLayers.every(({ fits }) => fits(reached, captures))) continue;
      const index = indices.get(reached) as number;
      if (!found.has(index))
        found.set(index, { index, captures, isEdgeMeant, hasMeantEdges: ofEdges.length > 0 });
    }
  }
  return [...found.values()];
}

function isSamePath(one: readonly Hop[], other: readonly Hop[]): boolean {
  return one.join() === other.join();
}
