/** The models of recipes for tables and other inputs without an order in space or time. Pure. */
import type { Streams } from "../../random/streams.js";
import type { StoredModel } from "../recipes/recipe.js";
import { GraphBuilder, type NodeId } from "./graph-builder.js";

interface LinearOptions {
  readonly inputShape: readonly number[];
  /** The initial value of each output. */
  readonly bias: readonly number[];
}

const lengthOf = (shape: readonly number[]): number =>
  shape.reduce((product, dimension) => product * dimension, 1);

/** An input as one vector. */
function vectorInput(graph: GraphBuilder, inputShape: readonly number[]): NodeId {
  const input = graph.input(inputShape);
  return inputShape.length === 1 ? input : graph.flatten(input);
}

/** One linear layer, whose kernel begins as zeros. */
export function linearModel({ inputShape, bias }: LinearOptions, streams: Streams): StoredModel {
  const graph = new GraphBuilder();
  const input = vectorInput(graph, inputShape);
  return graph.build(graph.zeroDense(input, lengthOf(inputShape), bias.length, bias), streams);
}
