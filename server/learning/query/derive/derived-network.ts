/**
 * Makes an architecture of a changed draft: canonical order, the shapes and weights of every layer, all checked. A
 * layer that gets what it got before is as it was; one whose weights have other shapes gets new ones. Pure.
 */
import { encodeArchitecture, weightSlots } from "../../../../shared/model/architecture.js";
import { canonicalOrder } from "../../../../shared/model/canonical-order.js";
import { layerShapes, outputShape, type Shape } from "../../../../shared/model/layer-shapes.js";
import type { Architecture, LeafLayer } from "../../../../shared/model/model.js";
import { leafPath } from "../../../../shared/model/tree.js";
import { refusalOf, shapeText } from "./check-inputs.js";
import {
  maskedLayers,
  notDerivable,
  shown,
  type Draft,
  type DraftNode,
  type DraftReference,
  type NamedNetwork,
} from "./draft.js";
import { weightShapes, type WeightShape } from "./weight-shapes.js";

export interface DerivedNetwork extends NamedNetwork {
  /** The path in the source of each weight, in canonical order; undefined: it is to be drawn. */
  readonly inherited: readonly (string | undefined)[];
  /** The index in the source of each layer. */
  readonly origins: readonly (number | undefined)[];
  /** Names of layers that the source has too, whose weights have other shapes. */
  readonly reshaped: readonly string[];
}

/** @throws ARCHITECTURE_INVALID, LAYER_NOT_ALLOWED with the reason why it is not a network */
export function derivedNetwork(draft: Draft, source: NamedNetwork): DerivedNetwork {
  refuseOutputs(draft);
  const calls = orderedNodes(draft);
  const made = new NetworkMaker(calls, source.architecture);
  const layers = calls.map((node) => made.layer(node));
  const architecture = { layers, outputs: draft.outputs.map((output) => made.referenceTo(output)) };
  encodeArchitecture(architecture);
  refuseEqualNames(calls, layers);
  const masked = maskedLayers(architecture);
  if (
    layers.some(
      ({ className, inputs }) => className === "Softmax" && inputs.some(({ layer }) => masked.has(layer)),
    )
  )
    throw notDerivable("a mask would reach a Softmax, which has no use for one");
  return {
    architecture,
    names: calls.map(({ name }) => name),
    origins: calls.map(({ origin }) => origin),
    inherited: weightSlots(architecture).map(({ layer, weight }) => made.inheritedPath(layer, weight)),
    reshaped: [...made.reshaped],
  };
}

function orderedNodes({ nodes, outputs }: Draft): readonly DraftNode[] {
  const indices = new Map(nodes.map((node, index) => [node, index]));
  const indexOf = ({ node }: DraftReference): { readonly layer: number } => ({
    layer: indices.get(node) as number,
  });
  const calls = nodes.map(({ className, inputs }) => ({ className, inputs: inputs.map(indexOf) }));
  return canonicalOrder(calls, outputs.map(indexOf)).map((index) => nodes[index] as DraftNode);
}

function refuseOutputs({ outputs }: Draft): void {
  for (const [at, { node, output }] of outputs.entries()) {
    if (node.className === "InputLayer")
      throw notDerivable(`its input ${shown(node.name)} would be its output`);
    if (outputs.slice(0, at).some((other) => other.node === node && other.output === output))
      throw notDerivable(`two of its outputs would be that of ${shown(node.name)}`);
  }
}

function refuseEqualNames(nodes: readonly DraftNode[], layers: readonly LeafLayer[]): void {
  const known = new Set<string>();
  for (const [index, { name }] of nodes.entries()) {
    if (layers[index]?.sharedWith !== undefined) continue;
    if (known.has(name)) throw notDerivable(`two layers would have the name ${shown(name)}`);
    known.add(name);
  }
}

/** The shape that a layer gives, and whether that is what it gave in the source. */
interface Given {
  readonly shape: Shape | undefined;
  readonly isAsBefore: boolean;
}

class NetworkMaker {
  readonly reshaped = new Set<string>();
  readonly #indices: ReadonlyMap<DraftNode, number>;
  readonly #sourceShapes: readonly (Shape | undefined)[];
  readonly #given = new Map<DraftNode, Given>();
  /** The first call of each layer of the source that is called, by the index of the one that has the weights. */
  readonly #firstCalls = new Map<
    number,
    { readonly index: number; readonly weights: readonly WeightShape[] }
  >();
  /** The layers of the source that have the weights, by the layer of the result. */
  readonly #inherits: (number | undefined)[] = [];

  constructor(
    nodes: readonly DraftNode[],
    private readonly source: Architecture,
  ) {
    this.#indices = new Map(nodes.map((node, index) => [node, index]));
    this.#sourceShapes = layerShapes(source);
  }

  referenceTo({ node, output }: DraftReference): LeafLayer["inputs"][number] {
    return { layer: this.#indices.get(node) as number, output };
  }

  inheritedPath(layer: number, weight: number): string | undefined {
    const from = this.#inherits[layer];
    return from === undefined ? undefined : leafPath(from, weight);
  }

  /** Call for each node in canonical order. */
  layer(node: DraftNode): LeafLayer {
    const index = this.#indices.get(node) as number;
    const { className, config } = node;
    const inputs = node.inputs.map((input) => this.referenceTo(input));
    const owner = this.#ownerOf(node);
    const own = owner === undefined ? undefined : (this.source.layers[owner] as LeafLayer);
    const isAsBefore = this.#getsWhatItGot(node);
    const needed = isAsBefore && own !== undefined ? own.weights : this.#weightsOf(node);
    const weights = own !== undefined && areSame(own.weights, needed) ? own.weights : needed;
    const shape = isAsBefore ? this.#sourceShapes[node.origin as number] : this.#shapeOf(node);
    this.#given.set(node, { shape, isAsBefore });
    const first = owner === undefined ? undefined : this.#firstCalls.get(owner);
    if (first !== undefined) {
      if (!areSame(first.weights, weights))
        throw notDerivable(`${shown(node.name)} is called twice, and would need different weights`);
      return { className, config, inputs, weights: [], sharedWith: first.index };
    }
    if (owner !== undefined) this.#firstCalls.set(owner, { index, weights });
    if (own !== undefined && own.weights === weights) this.#inherits[index] = owner;
    else if (own !== undefined) this.reshaped.add(node.name);
    return { className, config, inputs, weights };
  }

  #ownerOf({ origin }: DraftNode): number | undefined {
    return origin === undefined ? undefined : (this.source.layers[origin]?.sharedWith ?? origin);
  }

  #getsWhatItGot({ origin, inputs }: DraftNode): boolean {
    if (origin === undefined) return false;
    const before = this.source.layers[origin]?.inputs ?? [];
    return (
      before.length === inputs.length &&
      before.every(({ layer, output }, slot) => {
        const { node, output: nowOutput } = inputs[slot] as DraftReference;
        const given = this.#given.get(node);
        if (node.origin === layer && nowOutput === output && given?.isAsBefore === true) return true;
        const [was, now] = [
          output === 0 ? this.#sourceShapes[layer] : undefined,
          this.#shapeFrom(inputs[slot]),
        ];
        return was !== undefined && now !== undefined && was.join() === now.join();
      })
    );
  }

  #shapeFrom(reference: DraftReference | undefined): Shape | undefined {
    return reference?.output === 0 ? this.#given.get(reference.node)?.shape : undefined;
  }

  #inputsOf(node: DraftNode): readonly Shape[] {
    return node.inputs.map((reference) => {
      const shape = this.#shapeFrom(reference);
      if (shape === undefined)
        throw notDerivable(
          `the shape of what ${shown(node.name)} gets from ${shown(reference.node.name)} is not known`,
        );
      return shape;
    });
  }

  #weightsOf(node: DraftNode): readonly WeightShape[] {
    if (node.className === "InputLayer") return [];
    const inputs = this.#inputsOf(node);
    const refusal = refusalOf(node, inputs);
    if (refusal !== undefined) throw notDerivable(`${shown(node.name)}: ${refusal}`);
    const weights = weightShapes(node, inputs[0] ?? []);
    if (weights === undefined)
      throw notDerivable(`the shapes of the weights of ${shown(node.name)} are not known`);
    return weights;
  }

  #shapeOf(node: DraftNode): Shape {
    const shape = outputShape(
      node,
      node.inputs.map((reference) => this.#shapeFrom(reference)),
    );
    if (shape === undefined) throw notDerivable(`the shape of what ${shown(node.name)} gives is not known`);
    if (shape.some((extent) => extent !== null && !(Number.isSafeInteger(extent) && extent > 0)))
      throw notDerivable(`${shown(node.name)} would give nothing: ${shapeText(shape)}`);
    return shape;
  }
}

function areSame(one: readonly WeightShape[], other: readonly WeightShape[]): boolean {
  const textOf = ({ name, shape }: WeightShape): string => `${name} ${shape.join()}`;
  return one.map(textOf).join("\n") === other.map(textOf).join("\n");
}
