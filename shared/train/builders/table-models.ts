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

interface LabelNetworkOptions {
  readonly inputShape: readonly number[];
  /** Width of the hidden layer. */
  readonly units: number;
  /** Fraction of the hidden layer that is dropped in training; 0 for no dropout. */
  readonly dropout: number;
  readonly labels: number;
}

/** A hidden layer with batch normalisation and dropout, then a logit for each label. */
export function labelNetwork(
  { inputShape, units, dropout, labels }: LabelNetworkOptions,
  streams: Streams,
): StoredModel {
  const graph = new GraphBuilder();
  const hidden = graph.batchNorm(
    graph.dense(vectorInput(graph, inputShape), lengthOf(inputShape), units, "relu"),
    units,
  );
  return graph.build(
    graph.dense(dropout > 0 ? graph.dropout(hidden, dropout) : hidden, units, labels),
    streams,
  );
}

interface AutoencoderOptions {
  readonly features: number;
  /** Width of the layers before and after the code. */
  readonly units: number;
  /** Numbers that a sample is reduced to. */
  readonly code: number;
}

/** Reduces a row to a few numbers and computes the row from them again. The code and the output are linear. */
export function autoencoder({ features, units, code }: AutoencoderOptions, streams: Streams): StoredModel {
  const graph = new GraphBuilder();
  const encoded = graph.dense(graph.dense(graph.input([features]), features, units, "relu"), units, code);
  return graph.build(graph.dense(graph.dense(encoded, code, units, "relu"), units, features), streams);
}
