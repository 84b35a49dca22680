/**
 * Draws small networks with weights and inputs from a seed: chains, residuals and concatenations of every
 * layer type that the progressive evaluation computes bounds for.
 */
import type { Architecture, LeafLayer } from "../../shared/model/model.js";
import type { Tensor } from "../../shared/tensor/tensor.js";
import { Streams, type Stream } from "../../shared/random/streams.js";

export interface DrawnNetwork {
  readonly architecture: Architecture;
  readonly tensors: readonly Tensor[];
  readonly inputs: Float32Array;
  readonly sampleCount: number;
  readonly classes: number;
}

export function floatTensor(shape: readonly number[], values: Iterable<number>): Tensor {
  const floats = Float32Array.from(values);
  return { dtype: "F32", shape, bytes: new Uint8Array(floats.buffer) };
}

type Scale = "usual" | "mixed" | "tiny" | "huge";

/** A weight as in trained networks, or from the extremes of float32. */
function drawWeight(stream: Stream, fan: number, scale: Scale): number {
  const usual = stream.uniformBetween(-1, 1) * Math.sqrt(3 / fan);
  switch (scale) {
    case "usual":
      return usual;
    case "tiny":
      return usual * 2 ** -(100 + stream.integer(49));
    case "huge":
      return usual * 2 ** stream.integer(100);
    case "mixed": {
      const odd = stream.integer(12);
      if (odd === 0) return -0;
      if (odd === 1) return 0;
      if (odd === 2) return usual * 2 ** -stream.integer(149);
      if (odd === 3) return 2 ** -149 * stream.integer(4);
      if (odd === 4) return usual * 2 ** stream.integer(6);
      return usual;
    }
  }
}

interface DrawnWeight {
  readonly name: string;
  readonly shape: readonly number[];
  /** Number of inputs of an output, which sets the scale; default 1. */
  readonly fan?: number;
  /** Draws one value instead of `drawWeight`. */
  readonly of?: () => number;
}

/** A network under construction: the layers so far and the output shape of each. */
class NetworkDrawing {
  readonly layers: LeafLayer[] = [];
  readonly tensors: Tensor[] = [];
  readonly shapes: (readonly number[])[] = [];
  constructor(
    readonly stream: Stream,
    readonly scale: Scale,
  ) {}

  add(
    className: string,
    config: Record<string, unknown>,
    inputs: readonly number[],
    { shape, weights = [] }: { readonly shape: readonly number[]; readonly weights?: readonly DrawnWeight[] },
  ): number {
    for (const { shape: extents, fan = 1, of } of weights)
      this.tensors.push(
        floatTensor(
          extents,
          Array.from(
            { length: extents.reduce((a, b) => a * b, 1) },
            of ?? (() => drawWeight(this.stream, fan, this.scale)),
          ),
        ),
      );
    this.shapes.push(shape);
    return (
      this.layers.push({
        className,
        config,
        inputs: inputs.map((layer) => ({ layer, output: 0 })),
        weights: weights.map(({ name, shape: extents }) => ({
          name,
          dtype: "F32",
          shape: extents,
          trainable: !name.startsWith("moving"),
        })),
      }) - 1
    );
  }
  pick<T>(options: readonly T[]): T {
    return options[this.stream.integer(options.length)]!;
  }
}

const activationNames = [
  "linear",
  "relu",
  "relu6",
  "sigmoid",
  "tanh",
  "hardSigmoid",
  "elu",
  "selu",
  "softplus",
  "softsign",
];

/** Output extent of a window along one axis. */
function outputExtent(
  extent: number,
  { size, stride, dilation, padding }: { size: number; stride: number; dilation: number; padding: string },
): number {
  return padding === "same"
    ? Math.ceil(extent / stride)
    : Math.floor((extent - (size - 1) * dilation - 1) / stride) + 1;
}

/** Adds one drawn layer behind `from`. */
function addLayer(net: NetworkDrawing, from: number): number {
  const [height, width, channels] = net.shapes[from] as readonly [number, number, number];
  const { stream } = net;
  const extents = (window: Parameters<typeof outputExtent>[1]): readonly [number, number] => [
    outputExtent(height, window),
    outputExtent(width, window),
  ];
  const size = 1 + stream.integer(3);
  const dilation = stream.integer(4) === 0 ? 2 : 1;
  const stride = dilation > 1 ? 1 : 1 + stream.integer(2);
  const fits = height > (size - 1) * dilation && width > (size - 1) * dilation;
  const padding = fits ? net.pick(["same", "valid"]) : "same";
  const place = extents({ size, stride, dilation, padding });
  const window = {
    kernel_size: [size, size],
    strides: [stride, stride],
    padding,
    dilation_rate: [dilation, dilation],
    data_format: "channels_last",
  };
  const useBias = stream.integer(3) > 0;
  const bias = (count: number): { name: string; shape: readonly number[] }[] =>
    useBias ? [{ name: "bias", shape: [count] }] : [];
  switch (stream.integer(13)) {
    case 0:
    case 1:
    case 2: {
      const filters = 1 + stream.integer(5);
      return net.add(
        "Conv2D",
        { ...window, filters, use_bias: useBias, activation: net.pick(activationNames) },
        [from],
        {
          shape: [...place, filters],
          weights: [
            { name: "kernel", shape: [size, size, channels, filters], fan: size * size * channels },
            ...bias(filters),
          ],
        },
      );
    }
    case 3: {
      const multiplier = 1 + stream.integer(2);
      const undilated = extents({ size, stride, dilation: 1, padding });
      return net.add(
        "DepthwiseConv2D",
        {
          ...window,
          dilation_rate: [1, 1],
          depth_multiplier: multiplier,
          use_bias: useBias,
          activation: "linear",
        },
        [from],
        {
          shape: [...undilated, channels * multiplier],
          weights: [
            { name: "depthwise_kernel", shape: [size, size, channels, multiplier], fan: size * size },
            ...bias(channels * multiplier),
          ],
        },
      );
    }
    case 4: {
      const filters = 1 + stream.integer(4);
      return net.add(
        "SeparableConv2D",
        { ...window, filters, depth_multiplier: 1, use_bias: useBias, activation: "linear" },
        [from],
        {
          shape: [...place, filters],
          weights: [
            { name: "depthwise_kernel", shape: [size, size, channels, 1], fan: size * size },
            { name: "pointwise_kernel", shape: [1, 1, channels, filters], fan: channels },
            ...bias(filters),
          ],
        },
      );
    }
    case 5:
    case 6: {
      const pool = {
        pool_size: [size, size],
        strides: [stride, stride],
        padding: dilation > 1 ? "same" : padding,
        data_format: "channels_last",
      };
      const after = [...extents({ size, stride, dilation: 1, padding: pool.padding }), channels];
      return net.add(net.pick(["MaxPooling2D", "AveragePooling2D"]), pool, [from], { shape: after });
    }
    case 7:
      return net.add("BatchNormalization", { axis: -1, epsilon: 0.001, center: true, scale: true }, [from], {
        shape: [height, width, channels],
        weights: [
          { name: "gamma", shape: [channels], fan: 3 },
          { name: "beta", shape: [channels], fan: 3 },
          { name: "moving_mean", shape: [channels], fan: 3 },
          { name: "moving_variance", shape: [channels], of: () => stream.uniformBetween(0, 2) },
        ],
      });
    case 8:
      return net.add(net.pick(["ReLU", "Activation"]), {}, [from], { shape: [height, width, channels] });
    case 9:
      return net.add("LeakyReLU", { alpha: 0.1 }, [from], { shape: [height, width, channels] });
    case 10: {
      const pad = [
        [1, 0],
        [stream.integer(2), 1],
      ] as const;
      return net.add("ZeroPadding2D", { padding: pad, data_format: "channels_last" }, [from], {
        shape: [height + 1, width + pad[1][0] + 1, channels],
      });
    }
    case 11: {
      const conv = net.add(
        "Conv2D",
        {
          filters: channels,
          kernel_size: [3, 3],
          strides: [1, 1],
          padding: "same",
          data_format: "channels_last",
          use_bias: false,
          activation: "relu",
        },
        [from],
        {
          shape: [height, width, channels],
          weights: [{ name: "kernel", shape: [3, 3, channels, channels], fan: 9 * channels }],
        },
      );
      return net.add(net.pick(["Add", "Average", "Multiply", "Maximum", "Minimum"]), {}, [from, conv], {
        shape: [height, width, channels],
      });
    }
    default: {
      const conv = net.add(
        "Conv2D",
        {
          filters: 2,
          kernel_size: [1, 1],
          strides: [1, 1],
          padding: "same",
          data_format: "channels_last",
          use_bias: false,
          activation: "tanh",
        },
        [from],
        {
          shape: [height, width, 2],
          weights: [{ name: "kernel", shape: [1, 1, channels, 2], fan: channels }],
        },
      );
      return net.add("Concatenate", { axis: -1 }, [from, conv], { shape: [height, width, channels + 2] });
    }
  }
}

/** Draws the settings of the activation layers: an Activation needs a function, a ReLU may have a maximum. */
function setActivations({ layers }: NetworkDrawing, stream: Stream): readonly LeafLayer[] {
  return layers.map((leaf) =>
    leaf.className === "Activation"
      ? { ...leaf, config: { activation: activationNames[stream.integer(activationNames.length)] } }
      : leaf.className === "ReLU" && stream.integer(2) === 0
        ? { ...leaf, config: { max_value: 6 } }
        : leaf,
  );
}

/** Draws a network and `samples` inputs. The scale of the weights is drawn too unless given. */
export function drawNetwork(
  seed: number,
  options: { readonly scale?: Scale; readonly samples?: number } = {},
): DrawnNetwork {
  const stream = new Streams(String(seed), 0).stream("network");
  const { samples = 3 } = options;
  const net = new NetworkDrawing(
    stream,
    options.scale ?? (["usual", "usual", "usual", "mixed", "tiny", "huge"] as const)[stream.integer(6)]!,
  );
  const shape = [4 + stream.integer(4), 4 + stream.integer(4), 1 + stream.integer(3)];
  let at = net.add("InputLayer", { batch_input_shape: [null, ...shape], dtype: "float32" }, [], { shape });
  for (let layers = stream.integer(6); layers >= 0; layers--) at = addLayer(net, at);
  const [height, width, channels] = net.shapes[at] as readonly [number, number, number];
  const flat = height * width * channels;
  const end = net.pick(["Flatten", "GlobalAveragePooling2D", "GlobalMaxPooling2D"]);
  at = net.add(end, end === "Flatten" ? {} : { data_format: "channels_last" }, [at], {
    shape: [end === "Flatten" ? flat : channels],
  });
  for (let hidden = stream.integer(3); hidden > 0; hidden--) {
    const before = net.shapes[at]![0]!;
    const units = 2 + stream.integer(8);
    at = net.add("Dense", { units, activation: net.pick(activationNames), use_bias: true }, [at], {
      shape: [units],
      weights: [
        { name: "kernel", shape: [before, units], fan: before },
        { name: "bias", shape: [units], fan: 4 },
      ],
    });
  }
  const inputs = net.shapes[at]![0]!;
  const classes = 2 + stream.integer(9);
  const activation = net.pick(["linear", "linear", "softmax", "sigmoid"]);
  net.add("Dense", { units: classes, activation, use_bias: true }, [at], {
    shape: [classes],
    weights: [
      { name: "kernel", shape: [inputs, classes], fan: inputs },
      { name: "bias", shape: [classes], fan: 4 },
    ],
  });
  const values = Float32Array.from({ length: samples * shape.reduce((a, b) => a * b, 1) }, () =>
    stream.integer(4) === 0 ? 0 : stream.uniformBetween(-1, 1),
  );
  const layers = setActivations(net, stream);
  return {
    architecture: { layers, outputs: [{ layer: layers.length - 1, output: 0 }] },
    tensors: net.tensors,
    inputs: values,
    sampleCount: samples,
    classes,
  };
}

/** The float32 bytes with all but the `planes` highest byte planes set to zero. */
export function keepHighestPlanes(bytes: Uint8Array, planes: number): Uint8Array {
  return bytes.map((byte, at) => (at % 4 >= 4 - planes ? byte : 0));
}
