/** Changes a copy of a network as `construct` says: first all insertions, in their order, then all deletions. Pure. */
import { layerShapes, type Shape } from "../../../../shared/model/layer-shapes.js";
import type { Work } from "../compiled-query.js";
import type { Network, NetworkLayer } from "../network.js";
import type { LayerTest } from "../templates.js";
import {
  addNode,
  draftOf,
  maskedLayers,
  notDerivable,
  shown,
  type Draft,
  type DraftNode,
  type DraftReference,
  type NamedNetwork,
} from "./draft.js";
import type { NewLayer } from "./new-layer.js";
import { selectLayers, type NodeSet, type SelectedLayer } from "./select-nodes.js";

export type CompiledChange = { readonly nodes: NodeSet } & (
  | { readonly action: "insert"; readonly layer: NewLayer }
  | { readonly action: "delete"; readonly fits: LayerTest }
);

export interface DerivableNetwork extends NamedNetwork {
  /** The same network as conditions look at it. */
  readonly network: Network;
}

/** @throws ARCHITECTURE_INVALID with the reason why it cannot be changed so */
export function applyChanges(
  source: DerivableNetwork,
  changes: readonly CompiledChange[],
  work: Work,
): Draft {
  const draft = draftOf(source);
  const edges = edgesOf(draft);
  const shapes = layerShapes(source.architecture);
  const masked = maskedLayers(source.architecture);
  const deleted = new Set<DraftNode>();
  let inserted = 0;
  for (const change of changes) {
    /** The layers of each name that the change made. */
    const counts = new Map<string, number>();
    for (const selected of selectLayers(change.nodes, source.network, work)) {
      const { index, captures, isEdgeMeant, hasMeantEdges } = selected;
      const fits = ({ consumer }: Edge): boolean => {
        if (consumer === undefined) return change.action === "insert" && !hasMeantEdges;
        const layer = source.network.layers[consumer] as NetworkLayer;
        return isEdgeMeant(consumer) && (change.action === "insert" || change.fits(layer, captures));
      };
      const meant = (edges.get(index) ?? []).filter(fits);
      if (meant.length > 0 && masked.has(index))
        throw notDerivable(
          `a mask passes ${shown(source.names[index] ?? "")}, and what follows it stays as it is`,
        );
      if (change.action === "delete")
        for (const { consumer } of meant) deleted.add(draft.nodes[consumer as number] as DraftNode);
      else inserted += insert(draft, meant, { selected, shapes, counts, ...change });
    }
  }
  if (inserted + deleted.size === 0) throw notDerivable("no layer is where the query would change one");
  removeAll(draft, deleted, work);
  return draft;
}

/** A place where a layer gives another one, or the model's output, what it computes. */
interface Edge {
  /** The index of the layer that it leads to; undefined: it leads out of the model. */
  readonly consumer: number | undefined;
  readonly slot: number;
  /** The references among which that of the edge is. */
  readonly references: DraftReference[];
}

/** The edges that lead from each layer of the source. */
function edgesOf(draft: Draft): ReadonlyMap<number, readonly Edge[]> {
  const edges = new Map<number, Edge[]>();
  const add = (references: DraftReference[], consumer: number | undefined): void => {
    for (const [slot, { node }] of references.entries()) {
      const known = edges.get(node.origin as number) ?? [];
      known.push({ consumer, slot, references });
      edges.set(node.origin as number, known);
    }
  };
  for (const [index, { inputs }] of draft.nodes.entries()) add(inputs, index);
  add(draft.outputs, undefined);
  return edges;
}

interface Insertion {
  readonly counts: Map<string, number>;
  readonly selected: SelectedLayer;
  readonly shapes: readonly (Shape | undefined)[];
  readonly layer: NewLayer;
}

/** Splits each edge by a layer of its own; of several with one name those after the first get a number. */
function insert(draft: Draft, edges: readonly Edge[], insertion: Insertion): number {
  const { selected, shapes, counts, layer } = insertion;
  const name = layer.nameOf(selected.captures);
  for (const { references, slot } of edges) {
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    const node: DraftNode = {
      name: count === 1 ? name : `${name}_${count}`,
      ...layer.formFor(shapes[selected.index]),
      inputs: [references[slot] as DraftReference],
      origin: undefined,
    };
    addNode(draft, node);
    references[slot] = { node, output: 0 };
  }
  return edges.length;
}

/** Takes layers away: those that one fed are fed by the one that fed it. */
function removeAll(draft: Draft, deleted: ReadonlySet<DraftNode>, work: Work): void {
  const instead = new Map<DraftNode, DraftReference>();
  const now = (reference: DraftReference): DraftReference => {
    if (reference.output > 0 && deleted.has(reference.node))
      throw notDerivable(`${shown(reference.node.name)} has outputs that no other layer gives`);
    return instead.get(reference.node) ?? reference;
  };
  // Layers of the source stand behind those that feed them.
  for (const node of draft.nodes.filter((each) => deleted.has(each))) {
    const [before] = node.inputs;
    if (before === undefined || node.inputs.length > 1)
      throw notDerivable(
        `${shown(node.name)} joins ${node.inputs.length} layers, so nothing says which of them follows`,
      );
    instead.set(node, now(before));
  }
  draft.nodes = draft.nodes.filter((node) => !deleted.has(node));
  for (const references of [draft.outputs, ...draft.nodes.map(({ inputs }) => inputs)])
    for (const [slot, reference] of references.entries()) {
      if (!deleted.has(reference.node)) continue;
      const { node, output } = now(reference);
      work.spend(references.length);
      if (references.some((other) => other.node === node && other.output === output))
        throw notDerivable(`${shown(node.name)} would be joined with itself`);
      references[slot] = { node, output };
    }
}
