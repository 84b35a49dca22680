/**
 * Cuts a slice out of a network (MH, Query 2): all layers on paths from its first layers to its last ones, and what
 * these need besides. Layers before the first ones are cut off: where a kept layer needs one of them, the slice gets an
 * input. Pure.
 */
import type { Work } from "../compiled-query.js";
import type { LeafLayer } from "../../../../shared/model/model.js";
import { layerShapes } from "../../../../shared/model/layer-shapes.js";
import type { DerivableNetwork } from "./apply-changes.js";
import {
  draftOf,
  maskedLayers,
  notDerivable,
  shown,
  type Draft,
  type DraftNode,
  type DraftReference,
} from "./draft.js";
import { selectLayers, type NodeSet } from "./select-nodes.js";

export interface SliceEnds {
  readonly input: NodeSet;
  readonly output: NodeSet;
}

/** A slice, with the names of the inputs that its first layers do not have. */
export interface SlicedDraft extends Draft {
  readonly extraInputs: ReadonlySet<string>;
}

type Layers = ReadonlySet<number>;

/** @throws ARCHITECTURE_INVALID with the reason why there is no such slice */
export function cutSlice(source: DerivableNetwork, ends: SliceEnds, work: Work): SlicedDraft {
  const { layers } = source.architecture;
  const indicesOf = (nodes: NodeSet): readonly number[] =>
    selectLayers(nodes, source.network, work).map(({ index }) => index);
  const [first, last] = [indicesOf(ends.input), indicesOf(ends.output)];
  if (first.length * last.length === 0)
    throw notDerivable(`none of its layers is selected as the ${first.length === 0 ? "first" : "last"}`);
  const inputsOf = (index: number): readonly number[] =>
    (layers[index]?.inputs ?? []).map(({ layer }) => layer);
  const before = reach(last, inputsOf);
  const after = reach(first, (index) => source.network.layers[index]?.next ?? []);
  const lost = [...first.filter((each) => !before.has(each)), ...last.filter((each) => !after.has(each))];
  if (lost[0] !== undefined)
    throw notDerivable(
      `no path from its first layers to its last ones has ${shown(source.names[lost[0]] ?? "")}`,
    );
  const onPath = new Set([...before].filter((index) => after.has(index)));
  const cutOff = new Set([...reach(first, inputsOf)].filter((index) => !onPath.has(index)));
  const kept = reach([...onPath], (index) => inputsOf(index).filter((each) => !cutOff.has(each)));
  return new Cutter(source, kept).draft(first, last);
}

function reach(from: readonly number[], next: (index: number) => readonly number[]): Layers {
  const reached = new Set(from);
  // A set gives its members in the order in which they came, also those that come meanwhile.
  for (const index of reached) for (const each of next(index)) reached.add(each);
  return reached;
}

class Cutter {
  readonly #draft: Draft;
  readonly #inputs = new Map<string, DraftNode>();
  readonly #shapes: ReturnType<typeof layerShapes>;
  readonly #masked: Layers;

  constructor(
    private readonly source: DerivableNetwork,
    private readonly kept: Layers,
  ) {
    this.#draft = draftOf(source);
    this.#shapes = layerShapes(source.architecture);
    this.#masked = maskedLayers(source.architecture);
  }

  draft(first: readonly number[], last: readonly number[]): SlicedDraft {
    const nodesOf = (indices: Iterable<number>): readonly DraftNode[] =>
      [...indices].sort((a, b) => a - b).map((index) => this.#draft.nodes[index] as DraftNode);
    const [begin, kept] = [nodesOf(first), nodesOf(this.kept)];
    // The inputs of the first layers come first.
    for (const node of new Set([...begin, ...kept]))
      node.inputs = node.inputs.map((reference) => this.#inside(reference));
    const begins = new Set([...begin, ...begin.flatMap(({ inputs }) => inputs.map(({ node }) => node))]);
    const nodes = [...this.#inputs.values(), ...kept];
    const extra = nodes.filter((node) => node.className === "InputLayer" && !begins.has(node));
    return {
      nodes,
      outputs: nodesOf(last).map((node) => ({ node, output: 0 })),
      extraInputs: new Set(extra.map(({ name }) => name)),
    };
  }

  /** The reference of a kept layer: to another one that is kept, or to an input in the place of one that is not. */
  #inside(reference: DraftReference): DraftReference {
    const { node, output } = reference;
    const index = node.origin;
    if (index === undefined || this.kept.has(index)) return reference;
    const key = `${index}.${output}`;
    const input = this.#inputs.get(key) ?? this.#inputFor(node, output);
    this.#inputs.set(key, input);
    return { node: input, output: 0 };
  }

  #inputFor(node: DraftNode, output: number): DraftNode {
    const index = node.origin as number;
    if (node.className === "InputLayer") return node;
    const shape = output === 0 ? this.#shapes[index] : undefined;
    if (shape === undefined)
      throw notDerivable(
        `the shape of what ${shown(node.name)} gives is not known, so the slice's input has none`,
      );
    if (this.#masked.has(index))
      throw notDerivable(`a mask passes ${shown(node.name)}, which an input of the slice would not have`);
    const config: LeafLayer["config"] = { batch_input_shape: [null, ...shape], dtype: "float32" };
    return { name: `${node.name}_output`, className: "InputLayer", config, inputs: [], origin: undefined };
  }
}
