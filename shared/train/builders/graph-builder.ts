/**
 * Builds a model layer by layer, in canonical order and with initial values for its weights. Pure: it does
 * not use TensorFlow.js, so none of its counters, defaults or generators has an effect.
 */
import { canonicalOrder } from "../../model/canonical-order.js";
import type { Architecture, LeafLayer } from "../../model/model.js";
import { leafPath } from "../../model/tree.js";
import type { Tensor } from "../../tensor/tensor.js";
import { depthwiseFans, fans, initialize, type InitializerName } from "../initializers.js";
import type { Streams } from "../../random/streams.js";

interface Weight {
  readonly name: string;
  readonly shape: readonly number[];
  readonly trainable?: boolean;
  readonly initializer: InitializerName;
  /** Initial value of every number, or of each, instead of the initialiser's. */
  readonly value?: number | readonly number[];
}
interface Node {
  readonly className: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly inputs: readonly number[];
  readonly weights: readonly Weight[];
}

/** Identifies a layer of one builder. */
export type NodeId = number & { readonly __brand: "NodeId" };

export class GraphBuilder {
  readonly #nodes: Node[] = [];

  #add(
    className: string,
    config: Readonly<Record<string, unknown>>,
    inputs: readonly NodeId[],
    weights: readonly Weight[] = [],
  ): NodeId {
    this.#nodes.push({ className, config, inputs, weights });
    return (this.#nodes.length - 1) as NodeId;
  }

  /** Adds an input. @param shape without the batch dimension */
  input(shape: readonly number[]): NodeId {
    return this.#add("InputLayer", { batch_input_shape: [null, ...shape], dtype: "float32" }, []);
  }

  /**
   * Adds a linear layer whose kernel starts as zeros: all its outputs start as `bias`, or as 0 without a
   * bias, and its learnt weights stay in the span of the data.
   */
  zeroDense(from: NodeId, inputs: number, units: number, bias?: number | readonly number[]): NodeId {
    return this.#add(
      "Dense",
      { units, activation: "linear", use_bias: bias !== undefined },
      [from],
      [
        { name: "kernel", shape: [inputs, units], initializer: "zeros" },
        ...(bias === undefined
          ? []
          : [{ name: "bias", shape: [units], initializer: "zeros" as const, value: bias }]),
      ],
    );
  }

  /** Adds a dense layer with a bias. */
  dense(from: NodeId, inputs: number, units: number, activation = "linear"): NodeId {
    return this.#add(
      "Dense",
      { units, activation, use_bias: true },
      [from],
      [
        {
          name: "kernel",
          shape: [inputs, units],
          initializer: activation === "relu" ? "he-uniform" : "glorot-uniform",
        },
        { name: "bias", shape: [units], initializer: "zeros" },
      ],
    );
  }

  /** Adds an LSTM or GRU that outputs its last state, [units]. */
  recurrent(className: "LSTM" | "GRU", from: NodeId, inputs: number, units: number): NodeId {
    const gates = className === "LSTM" ? 4 : 3;
    const config = {
      units,
      activation: "tanh",
      recurrent_activation: "sigmoid",
      use_bias: true,
      return_sequences: false,
      ...(className === "GRU" ? { reset_after: false } : { unit_forget_bias: true }),
    };
    return this.#add(
      className,
      config,
      [from],
      [
        { name: "kernel", shape: [inputs, gates * units], initializer: "glorot-uniform" },
        { name: "recurrent_kernel", shape: [units, gates * units], initializer: "orthogonal" },
        { name: "bias", shape: [gates * units], initializer: "zeros" },
      ],
    );
  }

  /** Adds a convolution with a square kernel. @param channels of the input */
  convolution(
    from: NodeId,
    channels: number,
    options: {
      readonly filters: number;
      readonly kernel: number;
      readonly strides?: number;
      readonly activation?: string;
      readonly bias?: boolean;
      readonly padding?: "same" | "valid";
    },
  ): NodeId {
    const { filters, kernel, strides = 1, activation = "linear", bias = true, padding = "same" } = options;
    const config = {
      filters,
      kernel_size: [kernel, kernel],
      strides: [strides, strides],
      padding,
      data_format: "channels_last",
      activation,
      use_bias: bias,
    };
    return this.#add(
      "Conv2D",
      config,
      [from],
      [
        {
          name: "kernel",
          shape: [kernel, kernel, channels, filters],
          initializer: activation === "tanh" ? "glorot-uniform" : "he-uniform",
        },
        ...(bias ? [{ name: "bias", shape: [filters], initializer: "zeros" as const }] : []),
      ],
    );
  }

  /** Adds a depthwise convolution with a square kernel, without a bias. */
  depthwise(from: NodeId, channels: number, kernel: number, strides: number): NodeId {
    return this.#depthwise(
      from,
      { kernel, strides, multiplier: 1 },
      {
        shape: [kernel, kernel, channels, 1],
        initializer: "he-uniform",
      },
    );
  }

  /** Adds a layer that gives `multiplier` multiples of each channel, next to each other. */
  multiples(from: NodeId, channels: number, multiplier: number): NodeId {
    return this.#depthwise(
      from,
      { kernel: 1, strides: 1, multiplier },
      {
        shape: [1, 1, channels, multiplier],
        initializer: "glorot-uniform",
      },
    );
  }

  #depthwise(
    from: NodeId,
    {
      kernel,
      strides,
      multiplier,
    }: { readonly kernel: number; readonly strides: number; readonly multiplier: number },
    weight: Pick<Weight, "shape" | "initializer">,
  ): NodeId {
    const config = {
      kernel_size: [kernel, kernel],
      strides: [strides, strides],
      padding: "same",
      data_format: "channels_last",
      depth_multiplier: multiplier,
      activation: "linear",
      use_bias: false,
    };
    return this.#add("DepthwiseConv2D", config, [from], [{ name: "depthwise_kernel", ...weight }]);
  }

  /** Adds a batch normalisation of the last axis. */
  batchNorm(from: NodeId, channels: number): NodeId {
    const ones = { shape: [channels], initializer: "ones" as const };
    const zeros = { shape: [channels], initializer: "zeros" as const };
    return this.#add(
      "BatchNormalization",
      { axis: -1, momentum: 0.9, epsilon: 0.001, center: true, scale: true },
      [from],
      [
        { name: "gamma", ...ones },
        { name: "beta", ...zeros },
        { name: "moving_mean", ...zeros, trainable: false },
        { name: "moving_variance", ...ones, trainable: false },
      ],
    );
  }

  relu6(from: NodeId): NodeId {
    return this.#add("ReLU", { max_value: 6 }, [from]);
  }

  /** Adds a max pooling of 2 × 2. */
  maxPool(from: NodeId): NodeId {
    return this.#add(
      "MaxPooling2D",
      { pool_size: [2, 2], strides: [2, 2], padding: "valid", data_format: "channels_last" },
      [from],
    );
  }

  /** Adds an average pooling of 2 × 2. */
  averagePool(from: NodeId): NodeId {
    return this.#add(
      "AveragePooling2D",
      { pool_size: [2, 2], strides: [2, 2], padding: "valid", data_format: "channels_last" },
      [from],
    );
  }

  /** Adds the mean over height and width. */
  globalAverage(from: NodeId): NodeId {
    return this.#add("GlobalAveragePooling2D", { data_format: "channels_last" }, [from]);
  }

  flatten(from: NodeId): NodeId {
    return this.#add("Flatten", {}, [from]);
  }

  dropout(from: NodeId, rate: number): NodeId {
    return this.#add("Dropout", { rate }, [from]);
  }

  /** Adds the mean over all steps of [steps, features]. */
  stepAverage(from: NodeId): NodeId {
    return this.#add("GlobalAveragePooling1D", {}, [from]);
  }

  /** @param shape without the batch dimension */
  reshape(from: NodeId, shape: readonly number[]): NodeId {
    return this.#add("Reshape", { target_shape: shape }, [from]);
  }

  sigmoid(from: NodeId): NodeId {
    return this.#add("Activation", { activation: "sigmoid" }, [from]);
  }

  /** Joins the last axes; of one layer it is that layer. */
  concatenate(from: readonly [NodeId, ...NodeId[]]): NodeId {
    return from.length === 1 ? from[0] : this.#add("Concatenate", { axis: -1 }, from);
  }

  /** Adds the product of two layers, number by number. */
  product(from: readonly [NodeId, NodeId]): NodeId {
    return this.#add("Multiply", {}, from);
  }

  /** Adds a dense layer with a softmax that begins with these values, row by row. */
  softmaxDense(
    from: NodeId,
    inputs: number,
    { kernel, bias }: { readonly kernel: readonly number[]; readonly bias: readonly number[] },
  ): NodeId {
    const units = bias.length;
    return this.#add(
      "Dense",
      { units, activation: "softmax", use_bias: true },
      [from],
      [
        { name: "kernel", shape: [inputs, units], initializer: "zeros", value: kernel },
        { name: "bias", shape: [units], initializer: "zeros", value: bias },
      ],
    );
  }

  /**
   * Adds a linear layer without a bias that begins with these values, row by row. A recipe that trains by gradients
   * has to freeze it where they are constants.
   */
  fixedDense(from: NodeId, inputs: number, units: number, values: readonly number[]): NodeId {
    return this.#add(
      "Dense",
      { units, activation: "linear", use_bias: false },
      [from],
      [{ name: "kernel", shape: [inputs, units], initializer: "zeros", value: values }],
    );
  }

  /** Adds the sum of two layers. */
  sum(from: readonly [NodeId, NodeId]): NodeId {
    return this.#add("Add", {}, from);
  }

  /**
   * Builds the model that ends in `output`, or in several; layers that do not lead there are left out. Each weight
   * is drawn from the stream "initial/<path>".
   */
  build(
    output: NodeId | readonly NodeId[],
    streams: Streams,
  ): { readonly architecture: Architecture; readonly tensors: readonly Tensor[] } {
    const calls = this.#nodes.map(({ className, inputs }) => ({
      className,
      inputs: inputs.map((layer) => ({ layer })),
    }));
    const outputs = typeof output === "number" ? [output] : output;
    const order = canonicalOrder(
      calls,
      outputs.map((layer) => ({ layer })),
    );
    const newIndex = new Map(order.map((node, index) => [node, index]));
    const nodes = order.map((index) => this.#nodes[index] as Node);
    const layers: LeafLayer[] = nodes.map(({ className, config, inputs, weights }) => ({
      className,
      config,
      inputs: inputs.map((node) => ({ layer: newIndex.get(node) as number, output: 0 })),
      weights: weights.map(({ name, shape, trainable = true }) => ({ name, dtype: "F32", shape, trainable })),
    }));
    const tensors = nodes.flatMap((node, layer) =>
      node.weights.map((weight, index) => initialTensor(node, weight, streams, leafPath(layer, index))),
    );
    return {
      architecture: {
        layers,
        outputs: outputs.map((node) => ({ layer: newIndex.get(node) as number, output: 0 })),
      },
      tensors,
    };
  }
}

function initialTensor(node: Node, weight: Weight, streams: Streams, path: string): Tensor {
  const values = initialize(
    weight.initializer,
    weight.shape,
    streams.stream(`initial/${path}`),
    node.className === "DepthwiseConv2D" ? depthwiseFans(weight.shape) : fans(weight.shape),
  );
  if (typeof weight.value === "number") values.fill(weight.value);
  else if (weight.value !== undefined) values.set(weight.value);
  // Ones for the forget gate, the second of four, so that an LSTM forgets little at first (Jozefowicz et al.,
  // 2015).
  if (node.className === "LSTM" && weight.name === "bias")
    values.fill(1, values.length / 4, values.length / 2);
  const bytes = new Uint8Array(values.length * 4);
  const view = new DataView(bytes.buffer);
  values.forEach((value, index) => {
    view.setFloat32(index * 4, value, true);
  });
  return { dtype: "F32", shape: [...weight.shape], bytes };
}
