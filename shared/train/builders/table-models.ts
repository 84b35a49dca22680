/** The models of recipes for tables and other inputs without an order in space or time. Pure. */
import type { Streams } from "../../random/streams.js";
import type { StoredModel } from "../recipes/recipe.js";
import { clusterWeights } from "../clusters.js";
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

/** A logit for each label; each sees the input and the probabilities of the labels before it. */
export function classifierChain(
  { inputShape, labels }: { readonly inputShape: readonly number[]; readonly labels: number },
  streams: Streams,
): StoredModel {
  const graph = new GraphBuilder();
  const input = vectorInput(graph, inputShape);
  const links: NodeId[] = [];
  const seen: [NodeId, ...NodeId[]] = [input];
  for (let label = 0; label < labels; label++) {
    const logit = graph.zeroDense(graph.concatenate(seen), lengthOf(inputShape) + label, 1, 0);
    links.push(logit);
    if (label + 1 < labels) seen.push(graph.sigmoid(logit));
  }
  return graph.build(graph.concatenate(links as [NodeId, ...NodeId[]]), streams);
}

interface ClusterOptions {
  /** Numbers in a row. */
  readonly length: number;
  /** The centres, [clusters, length]. */
  readonly centres: Float32Array;
  readonly sharpness: number;
}

/**
 * Gives the centre that is nearest to a row: a softmax of scores that grow with the nearness of each centre, which is
 * 1 for the nearest and 0 for the others, times the centres.
 */
export function clusterModel({ length, centres, sharpness }: ClusterOptions, streams: Streams): StoredModel {
  const graph = new GraphBuilder();
  const clusters = centres.length / length;
  const { kernel, bias } = clusterWeights(centres, length, sharpness);
  const chosen = graph.softmaxDense(graph.input([length]), length, { kernel: [...kernel], bias: [...bias] });
  return graph.build(graph.fixedDense(chosen, clusters, length, [...centres]), streams);
}

interface FactorizationOptions {
  readonly inputShape: readonly number[];
  /** Numbers of each input's vector. */
  readonly factors: number;
  /** The initial value of each output. */
  readonly bias: readonly number[];
}

/**
 * A factorisation machine of second order (Rendle, Factorization Machines, ICDM 2010, equation 1): a linear layer, and
 * for each output the sum of xᵢ xⱼ ⟨vᵢ, vⱼ⟩ over all pairs i < j, computed as half of (Σ vᵢxᵢ)² − Σ (vᵢxᵢ)²
 * (lemma 3.1). The vectors are a depthwise kernel [1, 1, inputs, outputs × factors]. The last dense layer without a
 * bias only has the constants of that formula, and is frozen.
 */
export function factorizationMachine(
  { inputShape, factors, bias }: FactorizationOptions,
  streams: Streams,
): StoredModel {
  const graph = new GraphBuilder();
  const input = vectorInput(graph, inputShape);
  const inputs = lengthOf(inputShape);
  const width = bias.length * factors;
  const row = graph.reshape(input, [1, 1, inputs]);
  const multiples = graph.multiples(row, inputs, width);
  // Each factor of a square is a layer of its own: TensorFlow.js frees the input of a layer that takes it twice early.
  const scaled = (): NodeId => graph.reshape(multiples, [inputs, width]);
  const mean = (): NodeId => graph.stepAverage(scaled());
  const sums = graph.concatenate([
    graph.product([mean(), mean()]),
    graph.stepAverage(graph.product([scaled(), scaled()])),
  ]);
  const constants = Array.from({ length: 2 * width * bias.length }, (_, index) => {
    const from = Math.floor(index / bias.length);
    const isOwn = Math.floor((from % width) / factors) === index % bias.length;
    if (!isOwn) return 0;
    return from < width ? (inputs * inputs) / 2 : -inputs / 2;
  });
  const pairs = graph.fixedDense(sums, 2 * width, bias.length, constants);
  return graph.build(graph.sum([graph.zeroDense(input, inputs, bias.length, bias), pairs]), streams);
}
