/** Draws the first values of a layer's weights from a stream that has the layer's and the weight's name. */
import { endianness } from "node:os";
import { nextTurn } from "../../../../shared/concurrency/in-steps.js";
import type { LeafLayer } from "../../../../shared/model/model.js";
import { innerOf } from "../../../../shared/model/layer-shapes.js";
import type { Stream, Streams } from "../../../../shared/random/streams.js";
import type { Tensor } from "../../../../shared/tensor/tensor.js";
import { depthwiseFans, fans, initialize } from "../../../../shared/train/initializers.js";
import { notDerivable, shown } from "./draft.js";
import type { WeightShape } from "./weight-shapes.js";

/** Keras's choices where a configuration names nothing. */
const defaults: Readonly<Record<string, string>> = {
  ...{ kernel: "glorotuniform", depthwise_kernel: "glorotuniform", pointwise_kernel: "glorotuniform" },
  ...{ recurrent_kernel: "orthogonal", embeddings: "randomuniform", gamma: "ones", moving_variance: "ones" },
};

interface Initializer {
  readonly name: string;
  readonly settings: Readonly<Record<string, unknown>>;
}

/** Draws the values of a weight. */
export type DrawWeight = (stream: Stream) => Promise<Float32Array>;

type Layer = Pick<LeafLayer, "className" | "config">;

/** @throws ARCHITECTURE_INVALID for an initializer that is not drawn here */
export function drawerOf(layer: Layer, weight: WeightShape, layerName: string): DrawWeight {
  const initializer = initializerOf(layer, weight);
  const draw = drawerBy(initializer, weight);
  if (draw === undefined)
    throw notDerivable(
      `${shown(layerName)}: its ${weight.name} would begin with ${shown(initializer.name)}, which is not drawn here`,
    );
  const { className, config } = innerOf(layer.config) ?? layer;
  const hasForgetGate =
    className === "LSTM" && weight.name.endsWith("bias") && config["unit_forget_bias"] !== false;
  return async (stream) => {
    const values = await draw(stream);
    // Ones for the forget gate, the second of four (Jozefowicz et al., 2015).
    return hasForgetGate ? values.fill(1, values.length / 4, values.length / 2) : values;
  };
}

/** The weight's tensor, of the stream that has its layer's and its own name. */
export async function initialTensor(
  draw: DrawWeight,
  { name, shape }: WeightShape,
  { layerName, streams }: { readonly layerName: string; readonly streams: Streams },
): Promise<Tensor> {
  const values = await draw(streams.stream(`derived/${layerName}/${name}`));
  const bytes = new Uint8Array(values.buffer);
  if (endianness() === "BE") Buffer.from(values.buffer).swap32();
  return { dtype: "F32", shape: [...shape], bytes };
}

function initializerOf(layer: Layer, { name }: WeightShape): Initializer {
  const { config } = innerOf(layer.config) ?? layer;
  const plain = name.replace(/^(forward|backward)\//, "");
  const key = `${plain === "kernel" ? plain : plain.replace(/_kernel$/, "")}_initializer`;
  const stated = config[key] as
    string | { readonly class_name: string; readonly config?: object } | null | undefined;
  const text = typeof stated === "string" ? stated : (stated?.class_name ?? defaults[plain] ?? "zeros");
  const settings = typeof stated === "object" && stated !== null ? (stated.config ?? {}) : {};
  return { name: text.replaceAll("_", "").toLowerCase(), settings: settings as Initializer["settings"] };
}

/** Names of Keras for what VarianceScaling does: scale, fan and distribution. */
const scalings: Readonly<Record<string, readonly [scale: number, mode: unknown]>> = {
  glorot: [1, "fan_avg"],
  he: [2, "fan_in"],
  lecun: [1, "fan_in"],
};

/** Numbers that are drawn in one turn of the event loop. */
const numbersInATurn = 1 << 20;
/** Multiplications that an orthogonal matrix may take, which is made in one turn. */
const maxMultiplications = 500_000_000;

function drawerBy({ name, settings }: Initializer, weight: WeightShape): DrawWeight | undefined {
  const { shape } = weight;
  const number = (key: string, otherwise: number): number => Number(settings[key] ?? otherwise);
  const filled =
    (next: (stream: Stream) => number): DrawWeight =>
    (stream) =>
      fill(shape, () => next(stream));
  if (name === "zeros" || name === "ones" || (name === "orthogonal" && isSmallMatrix(shape)))
    return (stream) => Promise.resolve(initialize(name, shape, stream));
  const [, prefix = "", distribution = ""] = /^(glorot|he|lecun)(normal|uniform)$/.exec(name) ?? [];
  if (prefix !== "" || name === "variancescaling") {
    const [scale, mode] = scalings[prefix] ?? [number("scale", 1), settings["mode"] ?? "fan_in"];
    const { fanIn, fanOut } = weight.name === "depthwise_kernel" ? depthwiseFans(shape) : fans(shape);
    const fan = mode === "fan_avg" ? (fanIn + fanOut) / 2 : mode === "fan_out" ? fanOut : fanIn;
    const variance = scale / Math.max(1, fan);
    const isUniform = (distribution || settings["distribution"]) === "uniform";
    const reach = Math.fround(Math.sqrt(isUniform ? 3 * variance : variance));
    return filled((stream) => (isUniform ? stream.uniformBetween(-reach, reach) : stream.normal() * reach));
  }
  if (name === "constant") return filled(() => number("value", 0));
  if (name === "randomuniform") {
    const [low, high] = [number("minval", -0.05), number("maxval", 0.05)];
    return filled((stream) => stream.uniformBetween(low, high));
  }
  if (name === "randomnormal")
    return filled((stream) => number("mean", 0) + stream.normal() * number("stddev", 0.05));
  return undefined;
}

async function fill(shape: readonly number[], next: () => number): Promise<Float32Array> {
  const values = new Float32Array(shape.reduce((product, extent) => product * extent, 1));
  for (let from = 0; from < values.length; from += numbersInATurn) {
    if (from > 0) await nextTurn();
    const end = Math.min(values.length, from + numbersInATurn);
    for (let index = from; index < end; index++) values[index] = next();
  }
  return values;
}

function isSmallMatrix(shape: readonly number[]): boolean {
  const all = shape.reduce((product, extent) => product * extent, 1);
  return (
    shape.length > 1 &&
    all * Math.min(shape.at(-1) as number, all / (shape.at(-1) as number)) < maxMultiplications
  );
}
