/**
 * Builds the network that a recipe's own code describes. Shapes are computed here and not taken from the recipe, so
 * its weights always fit its layers. Pure.
 */
import type { Streams } from "../../random/streams.js";
import { GraphBuilder, type NodeId } from "../builders/graph-builder.js";
import type { StoredModel } from "../recipes/recipe.js";
import { invalidRecipe } from "./bundle.js";
import type { NetworkAnswer, NetworkOperation } from "./description.js";

/** The largest number of numbers that all weights together, or the output of one layer for one sample, may have. */
export const maxNumbers = 2 ** 26;

interface Built {
  readonly id: NodeId;
  readonly shape: readonly number[];
  /** Numbers of its weights. */
  readonly weights: number;
}

type Operation<Op extends NetworkOperation["op"]> = Extract<NetworkOperation, { op: Op }>;

const sizeOf = (shape: readonly number[]): number =>
  shape.reduce((product, dimension) => product * dimension, 1);

/** @throws RECIPE_INVALID naming the layer */
export function buildNetwork(
  { operations, outputs }: NetworkAnswer,
  inputShape: readonly number[],
  streams: Streams,
): StoredModel {
  const graph = new GraphBuilder();
  const built: Built[] = [{ id: graph.input(inputShape), shape: inputShape, weights: 0 }];
  let weights = 0;
  operations.forEach((operation, index) => {
    const fail = (why: string): never => {
      throw invalidRecipe(`layer ${index + 1} of its network (${operation.op}) ${why}`);
    };
    const from = [operation.from]
      .flat()
      .map((at) => built[at] ?? fail(`reads layer ${at}, which comes later`));
    const next = addLayer(graph, operation, { from, fail });
    weights += next.weights;
    if (weights > maxNumbers || sizeOf(next.shape) > maxNumbers)
      fail(`is too large: ${maxNumbers} numbers is the most`);
    built.push(next);
  });
  const ends = outputs.map((at) => (built[at] ?? invalidOutput(at)).id);
  return graph.build(ends, streams);
}

function invalidOutput(at: number): never {
  throw invalidRecipe(`its network ends in layer ${at}, which it does not have`);
}

interface Place {
  readonly from: readonly Built[];
  readonly fail: (why: string) => never;
}

/** Adds a layer; one with too many weights is refused before anything is drawn: nothing is allocated here. */
function addLayer(graph: GraphBuilder, operation: NetworkOperation, place: Place): Built {
  const [first, second] = place.from as readonly [Built, Built | undefined];
  const { id, shape } = first;
  switch (operation.op) {
    case "dense":
    case "linear":
      return denseLayer(graph, operation, place);
    case "convolution":
      return convolutionLayer(graph, operation, place);
    case "recurrent": {
      const features = dimensions(place, 2)[1] as number;
      const { kind, units } = operation;
      const gates = kind === "LSTM" ? 4 : 3;
      const weights = gates * units * (features + units + 1);
      return { id: graph.recurrent(kind, id, features, units), shape: [units], weights };
    }
    case "batchNorm": {
      const channels = shape.at(-1) ?? place.fail("needs at least one dimension");
      return { id: graph.batchNorm(id, channels), shape, weights: 4 * channels };
    }
    case "relu6":
      return { id: graph.relu6(id), shape, weights: 0 };
    case "sigmoid":
      return { id: graph.sigmoid(id), shape, weights: 0 };
    case "dropout":
      return { id: graph.dropout(id, operation.rate), shape, weights: 0 };
    case "maxPool":
    case "averagePool":
      return poolLayer(graph, operation.op, place);
    case "globalAverage":
      return shape.length === 2
        ? { id: graph.stepAverage(id), shape: [shape[1] as number], weights: 0 }
        : { id: graph.globalAverage(id), shape: [dimensions(place, 3)[2] as number], weights: 0 };
    case "flatten":
      return { id: graph.flatten(id), shape: [sizeOf(shape)], weights: 0 };
    case "reshape":
      if (sizeOf(operation.shape) !== sizeOf(shape))
        place.fail(`cannot make [${operation.shape.join(", ")}] of [${shape.join(", ")}]`);
      return { id: graph.reshape(id, operation.shape), shape: operation.shape, weights: 0 };
    case "sum":
    case "product": {
      const other = second ?? place.fail("needs two layers");
      if (shape.join() !== other.shape.join())
        place.fail(`cannot join [${shape.join(", ")}] and [${other.shape.join(", ")}]`);
      return { id: graph[operation.op]([id, other.id]), shape, weights: 0 };
    }
    case "concatenate":
      return concatenated(graph, place);
  }
}

function dimensions({ from: [first], fail }: Place, count: number): readonly number[] {
  const { shape } = first as Built;
  return shape.length === count
    ? shape
    : fail(`needs ${count} dimensions, and its input is [${shape.join(", ")}]`);
}

function denseLayer(
  graph: GraphBuilder,
  operation: Operation<"dense"> | Operation<"linear">,
  place: Place,
): Built {
  const { id } = place.from[0] as Built;
  const inputs = dimensions(place, 1)[0] as number;
  const { units } = operation;
  const layer = { shape: [units], weights: (inputs + 1) * units };
  if (layer.weights > maxNumbers) place.fail(`is too large: ${maxNumbers} numbers is the most`);
  if (operation.op === "dense") return { id: graph.dense(id, inputs, units, operation.activation), ...layer };
  const { start } = operation;
  if (typeof start !== "number" && start.length !== units)
    place.fail(`starts with ${start.length} values for ${units} units`);
  if (![start].flat().every((value) => Number.isFinite(Math.fround(value))))
    place.fail("starts with a value that is not a finite float32");
  return { id: graph.zeroDense(id, inputs, units, start), ...layer };
}

function convolutionLayer(graph: GraphBuilder, operation: Operation<"convolution">, place: Place): Built {
  const [height, width, channels] = dimensions(place, 3) as readonly [number, number, number];
  const { op: _, from: __, ...options } = operation;
  const { filters, kernel, strides, padding, bias } = options;
  const extent = (side: number): number =>
    Math.ceil((padding === "same" ? side : side - kernel + 1) / strides);
  const shape = [extent(height), extent(width), filters];
  if (Math.min(...shape) < 1) place.fail(`leaves nothing of [${height}, ${width}]`);
  const id = graph.convolution((place.from[0] as Built).id, channels, options);
  return { id, shape, weights: kernel * kernel * channels * filters + (bias ? filters : 0) };
}

function poolLayer(graph: GraphBuilder, op: "maxPool" | "averagePool", place: Place): Built {
  const [height, width, channels] = dimensions(place, 3) as readonly [number, number, number];
  const shape = [Math.floor(height / 2), Math.floor(width / 2), channels];
  if (Math.min(...shape) < 1) place.fail(`leaves nothing of [${height}, ${width}]`);
  return { id: graph[op]((place.from[0] as Built).id), shape, weights: 0 };
}

function concatenated(graph: GraphBuilder, { from, fail }: Place): Built {
  const [first, ...rest] = from as readonly [Built, ...Built[]];
  const outer = first.shape.slice(0, -1).join();
  if (rest.some(({ shape }) => shape.slice(0, -1).join() !== outer))
    fail("joins layers that differ in more than their last axis");
  const last = from.reduce((sum, { shape }) => sum + (shape.at(-1) ?? 0), 0);
  const ids = [first.id, ...rest.map(({ id }) => id)] as const;
  return { id: graph.concatenate(ids), shape: [...first.shape.slice(0, -1), last], weights: 0 };
}
