/** Changes a copy of a network as `construct` says: first all insertions, in their order, then all deletions. Pure. */
import { layerShapes, type Shape } from "../../../../shared/model/layer-shapes.js";
import type { Work } from "../compiled-query.js";
import type { Network, NetworkLayer } from "../network.js";
import type { LayerTest } from "../templates.js";
import {
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
  const edges = new Edges(draft, source);
  const shapes = layerShapes(source.architecture);
  const deleted = new Set<number>();
  let changed = 0;
  for (const change of changes) {
    /** The layers of each name that the change made. */
    const counts = new Map<string, number>();
    for (const selected of selectLayers(change.nodes, source.network, work))
      if (change.action === "insert")
        changed += insert(draft, edges.of(selected), { selected, shapes, counts, ...change });
      else
        for (const { consumer } of edges.of(selected))
          if (
            consumer !== undefined &&
            change.fits(source.network.layers[consumer] as NetworkLayer, selected.captures)
          )
            deleted.add(consumer);
  }
  if (changed + deleted.size === 0) throw notDerivable("no layer is where the query would change one");
  for (const index of deleted) remove(draft, index);
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

class Edges {
  readonly #bySource = new Map<number, Edge[]>();
  readonly #masked: ReadonlySet<number>;
  readonly #names: readonly string[];

  constructor(draft: Draft, { architecture, names }: NamedNetwork) {
    this.#masked = maskedLayers(architecture);
    this.#names = names;
    const add = (references: DraftReference[], consumer: number | undefined): void => {
      for (const [slot, { node }] of references.entries()) {
        const known = this.#bySource.get(node.origin as number) ?? [];
        known.push({ consumer, slot, references });
        this.#bySource.set(node.origin as number, known);
      }
    };
    for (const [index, { inputs }] of draft.nodes.entries()) add(inputs, index);
    add(draft.outputs, undefined);
  }

  /** The edges that lead from a layer, as far as the conditions of the query mean them. */
  of({ index, isEdgeMeant, hasMeantEdges }: SelectedLayer): readonly Edge[] {
    const meant = (this.#bySource.get(index) ?? []).filter(({ consumer }) =>
      consumer === undefined ? !hasMeantEdges : isEdgeMeant(consumer),
    );
    if (meant.length > 0 && this.#masked.has(index))
      throw notDerivable(
        `a mask passes ${shown(this.#names[index] ?? "")}, and what follows it stays as it is`,
      );
    return meant;
  }
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
    draft.nodes.push(node);
    references[slot] = { node, output: 0 };
  }
  return edges.length;
}

/** Takes a layer away: those that it fed are fed by the one that fed it. */
function remove(draft: Draft, index: number): void {
  const node = draft.nodes.find(({ origin }) => origin === index) as DraftNode;
  const [before, ...others] = node.inputs;
  if (before === undefined || others.length > 0)
    throw notDerivable(
      `${shown(node.name)} joins ${node.inputs.length} layers, so nothing says which of them follows`,
    );
  const isBefore = (other: DraftReference): boolean =>
    other.node === before.node && other.output === before.output;
  for (const references of [draft.outputs, ...draft.nodes.map(({ inputs }) => inputs)])
    for (const [slot, reference] of references.entries()) {
      if (reference.node !== node) continue;
      if (reference.output > 0)
        throw notDerivable(`${shown(node.name)} has outputs that no other layer gives`);
      if (references.some(isBefore))
        throw notDerivable(`${shown(before.node.name)} would be joined with itself`);
      references[slot] = before;
    }
  draft.nodes.splice(draft.nodes.indexOf(node), 1);
}
