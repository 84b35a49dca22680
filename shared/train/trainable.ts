/**
 * Converts a stored model (architecture, tensors in canonical leaf order) into one that can be trained, and
 * back. Does not know recipes or the training loop.
 */
import { StemmaError } from "../errors.js";
import { weightSlots } from "../model/architecture.js";
import type { Architecture, LeafLayer } from "../model/model.js";
import type { Tensor } from "../tensor/tensor.js";
import { constructLayer, type ConstructionOptions } from "./layer-construction.js";
import type { TensorFlow, TfLayer, TfLayersModel, TfTensor, TfVariable } from "./tensorflow.js";

/** A weight of the model in training. */
interface TrainableWeight {
  /** "layer/weight" in canonical order. */
  readonly path: string;
  /** Index of its layer in the architecture. */
  readonly layer: number;
  readonly name: string;
  readonly className: string;
  readonly variable: TfVariable;
  /** True if the optimiser changes it; false for moving averages and frozen layers. */
  readonly trainable: boolean;
}

interface TrainableOptions extends ConstructionOptions {
  /**
   * Fuses batch norms with the activations that follow, where the backend offers that; the bits do not
   * change.
   */
  readonly fuseActivations?: ((model: TfLayersModel) => number) | undefined;
}

type SymbolicTensor = ReturnType<TensorFlow["input"]>;

interface TrainableParts {
  readonly architecture: Architecture;
  readonly model: TfLayersModel;
  readonly weights: readonly TrainableWeight[];
  readonly frozenLayers: ReadonlySet<number>;
}

/** A model in training. All methods are synchronous; `dispose` frees its tensors. */
export class Trainable {
  readonly architecture: Architecture;
  readonly weights: readonly TrainableWeight[];
  /** The weights that an optimiser changes. */
  readonly trainable: readonly TrainableWeight[];
  /**
   * The weights that a step can change: trainable ones, and moving averages of layers that are not frozen.
   */
  readonly changing: readonly TrainableWeight[];
  readonly #tf: TensorFlow;
  readonly #model: TfLayersModel;

  constructor(tf: TensorFlow, { architecture, model, weights, frozenLayers }: TrainableParts) {
    this.#tf = tf;
    this.architecture = architecture;
    this.#model = model;
    this.weights = weights;
    this.trainable = weights.filter((weight) => weight.trainable);
    this.changing = weights.filter((weight) => !frozenLayers.has(weight.layer));
  }

  /** The shape of one sample, for a model with one input; null stands for any size. */
  get inputShape(): readonly (number | null)[] {
    return this.#model.inputs[0]?.shape.slice(1) ?? [];
  }

  /** The shapes of one sample's outputs; null stands for any size. */
  get outputShapes(): readonly (readonly (number | null)[])[] {
    return this.#model.outputs.map(({ shape }) => shape.slice(1));
  }

  /**
   * Computes the model's outputs.
   * @param inputs [batch, …input shape]
   * @returns for each output [batch, …output shape]
   */
  forward(inputs: TfTensor, training: boolean): readonly TfTensor[] {
    const outputs = this.#model.apply(inputs, { training }) as TfTensor | TfTensor[];
    return Array.isArray(outputs) ? outputs : [outputs];
  }

  /** The sum of the layers' regularisation losses, a scalar; undefined without any. */
  penalty(): TfTensor | undefined {
    const losses = this.#model.calculateLosses();
    return losses.length === 0
      ? undefined
      : losses.reduce<TfTensor>((sum, loss) => this.#tf.add(sum, loss), this.#tf.scalar(0));
  }

  /** Copies all weights, in canonical leaf order. */
  readTensors(): Tensor[] {
    return this.weights.map(({ variable }) => {
      const values = variable.dataSync<"float32">();
      return {
        dtype: "F32",
        shape: [...variable.shape],
        bytes: new Uint8Array(values.buffer.slice(values.byteOffset, values.byteOffset + values.byteLength)),
      };
    });
  }

  /** Sets all weights from float32 tensors in canonical leaf order. */
  writeTensors(tensors: readonly Tensor[]): void {
    this.weights.forEach(({ variable }, index) => {
      this.#tf.tidy(() => {
        variable.assign(this.#tf.tensor(floatsOf(tensors[index] as Tensor), variable.shape));
      });
    });
  }

  dispose(): void {
    this.#model.dispose();
  }
}

/**
 * A float32 tensor's bytes as numbers, copied so that they are aligned. Only for training: stored bits stay
 * bytes.
 */
export function floatsOf(tensor: Tensor): Float32Array {
  return new Float32Array(tensor.bytes.slice().buffer);
}

/**
 * Builds a model from its architecture and its tensors in canonical leaf order.
 * @throws ARCHITECTURE_MISMATCH when the tensors are not its weights or not float32, LAYER_NOT_ALLOWED for a
 * layer that cannot be trained here, ARCHITECTURE_INVALID without an output
 */
export function buildTrainable(
  tf: TensorFlow,
  architecture: Architecture,
  tensors: readonly Tensor[],
  options: TrainableOptions = {},
): Trainable {
  checkTensors(architecture, tensors);
  const frozenLayers = new Set(options.frozenLayers ?? []);
  const { model, layers } = buildGraph(tf, architecture, options);
  // A frozen batch norm runs as in inference, where nothing is fused, so the activation after it must stay.
  const hasFrozenBatchNorm = architecture.layers.some(
    ({ className }, index) => className === "BatchNormalization" && frozenLayers.has(index),
  );
  if (!hasFrozenBatchNorm) options.fuseActivations?.(model);
  const weights = weightSlots(architecture).map(({ path, layer, weight, name, trainable }) => ({
    path,
    layer,
    name,
    className: (architecture.layers[layer] as LeafLayer).className,
    variable: variableOf(layers[layer] as TfLayer, weight),
    trainable: trainable && !frozenLayers.has(layer),
  }));
  const built = new Trainable(tf, { architecture, model, weights, frozenLayers });
  built.writeTensors(tensors);
  return built;
}

interface Graph {
  readonly model: TfLayersModel;
  /** The layers by index in the architecture; undefined for inputs. */
  readonly layers: readonly (TfLayer | undefined)[];
}

function buildGraph(tf: TensorFlow, architecture: Architecture, options: ConstructionOptions): Graph {
  if (architecture.outputs.length === 0)
    throw new StemmaError(
      "ARCHITECTURE_INVALID",
      "The model has no output, so it cannot be trained. Store it without training it.",
    );
  const outputsOfLayers: SymbolicTensor[][] = [];
  const layers: (TfLayer | undefined)[] = [];
  const inputs: SymbolicTensor[] = [];
  architecture.layers.forEach((leaf, index) => {
    if (leaf.className === "InputLayer") {
      const input = tf.input({
        batchShape: leaf.config["batch_input_shape"] as number[],
        dtype: leaf.config["dtype"] as "float32",
        name: `layer_${index}`,
      });
      outputsOfLayers[index] = [input];
      inputs.push(input);
      layers[index] = undefined;
      return;
    }
    const shared = leaf.sharedWith === undefined ? undefined : layers[leaf.sharedWith];
    const layer = shared ?? constructLayer(tf, leaf, index, options);
    const from = leaf.inputs.map(
      (source) => (outputsOfLayers[source.layer] as SymbolicTensor[])[source.output] as SymbolicTensor,
    );
    const outputs = layer.apply(from.length === 1 ? (from[0] as SymbolicTensor) : from);
    outputsOfLayers[index] = (Array.isArray(outputs) ? outputs : [outputs]) as SymbolicTensor[];
    layers[index] = layer;
  });
  const model = tf.model({
    inputs: inputs.length === 1 ? (inputs[0] as SymbolicTensor) : inputs,
    outputs: architecture.outputs.map(
      (output) => (outputsOfLayers[output.layer] as SymbolicTensor[])[output.output] as SymbolicTensor,
    ),
    name: "model",
  });
  return { model, layers };
}

function checkTensors(architecture: Architecture, tensors: readonly Tensor[]): void {
  const expected = weightSlots(architecture);
  if (expected.length !== tensors.length)
    throw new StemmaError(
      "ARCHITECTURE_MISMATCH",
      `The architecture has ${expected.length} tensors, the model has ${tensors.length}. Check that both belong to the same model.`,
    );
  expected.forEach(({ path, dtype, shape, name }, index) => {
    const tensor = tensors[index] as Tensor;
    if (tensor.dtype !== dtype || tensor.shape.join() !== shape.join())
      throw new StemmaError(
        "ARCHITECTURE_MISMATCH",
        `The weight ${path} (${name}) is ${tensor.dtype} [${tensor.shape.join(", ")}], but the architecture needs ${dtype} [${shape.join(", ")}]. Check that both belong to the same model.`,
        { path },
      );
    if (dtype !== "F32")
      throw new StemmaError(
        "ARCHITECTURE_MISMATCH",
        `The weight ${path} (${name}) is ${dtype}, but only F32 models can be trained. Store and recover the model without training it.`,
        { path },
      );
  });
}

/** The engine's variable of a weight, which tfjs-layers keeps in the private member `val`. */
function variableOf(layer: TfLayer, weight: number): TfVariable {
  return (layer.weights[weight] as unknown as { readonly val: TfVariable }).val;
}
