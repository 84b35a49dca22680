/**
 * Probes one model in this process (MM11): evaluation, the forward pass of training, and the backward pass, on fixed
 * inputs. Runs what a training runs: the same construction of layers, fused operations and streams of random numbers.
 */
import { figuresOf, type Figures, type TensorValues } from "../figures.js";
import {
  probeFormat,
  type ProbedLayer,
  type ProbedPass,
  type ProbePhase,
  type ProbeRun,
} from "../probe-summary.js";
import { defined } from "../../defined.js";
import { isStemmaError } from "../../errors.js";
import { architectureHash, weightSlots } from "../../model/architecture.js";
import type { Architecture, LeafLayer } from "../../model/model.js";
import { treeRoot } from "../../model/tree.js";
import { Streams } from "../../random/streams.js";
import { tensorId } from "../../tensor/hash.js";
import type { Tensor } from "../../tensor/tensor.js";
import type { TensorFlow, TfLayersModel, TfTensor } from "../../train/tensorflow.js";
import { buildTrainable, type Trainable } from "../../train/trainable.js";
import {
  drawnWeights,
  fixedInputs,
  lossWeights,
  type FixedInput,
  type InputChoices,
} from "./fixed-inputs.js";
import { LayerRecorder, type RecordedPass } from "./layer-recorder.js";

export interface ProbeRequest extends InputChoices {
  readonly architecture: Architecture;
  /** The weights in canonical order; absent: drawn from the seed. */
  readonly tensors?: readonly Tensor[] | undefined;
  /** Decimal string of an unsigned 64-bit number. */
  readonly seed: string;
}

export interface ProbePorts {
  readonly tf: TensorFlow;
  readonly fuseActivations: (model: TfLayersModel) => number;
  readonly kernelOf: (operation: string) => string;
  readonly environment: ProbeRun["environment"];
  readonly onTensor?: ((name: string, figures: Figures, values: TensorValues) => void) | undefined;
}

/** Ends of a pass in which the engine keeps its promise by refusing. Others, such as no memory, end the probe. */
const refusals: readonly string[] = ["LAYER_NOT_ALLOWED", "OPERATION_MISSING"];

/**
 * Probes a model.
 * @throws MEMORY_EXHAUSTED, ARCHITECTURE_MISMATCH where the tensors do not fit, RECIPE_PARAMETERS_INVALID for the seed
 */
export function probeModel(request: ProbeRequest, ports: ProbePorts): ProbeRun {
  const { architecture, seed, batch } = request;
  const streams = new Streams(seed, 0);
  const tensors = request.tensors ?? drawnWeights(architecture, streams);
  const inputs = fixedInputs(architecture, request, streams);
  const probe = new ModelProbe({ architecture, tensors, inputs, streams }, ports);
  probe.run();
  const slots = weightSlots(architecture);
  const leaves = slots.map((slot, index) => {
    const tensor = tensors[index] as Tensor;
    return { ...slot, tensor: tensorId(tensor, tensor.bytes) };
  });
  return {
    format: probeFormat,
    kind: "stemma-probe",
    model: {
      architecture: architectureHash(architecture),
      root: treeRoot(leaves),
      weights: request.tensors === undefined ? "drawn" : "own",
      parameters: slots.reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0),
    },
    inputs: { seed, batch, tensors: inputs.map(({ values, shape }) => figuresOf(values, shape)) },
    environment: ports.environment,
    layers: architecture.layers.map((leaf, index) => probe.layer(leaf, index)),
    loss: probe.loss,
    refused: probe.refused,
  };
}

interface Probed {
  readonly architecture: Architecture;
  readonly tensors: readonly Tensor[];
  readonly inputs: readonly FixedInput[];
  readonly streams: Streams;
}
interface BuiltModel {
  readonly trainable: Trainable;
  readonly model: TfLayersModel;
}

class ModelProbe {
  readonly #probed: Probed;
  readonly #ports: ProbePorts;
  readonly #passes: Partial<Record<ProbePhase, ReadonlyMap<number, RecordedPass>>> = {};
  readonly #gradients = new Map<number, { name: string; gradient: Figures | null }[]>();
  loss: Figures | null = null;
  refused: ProbeRun["refused"] = null;

  constructor(probed: Probed, ports: ProbePorts) {
    this.#probed = probed;
    this.#ports = ports;
  }

  /** A model that the engine refuses to train is evaluated all the same, where it can be. */
  run(): void {
    const { streams } = this.#probed;
    const whole = this.#unlessRefused("training", () => this.#build(streams));
    if (whole !== undefined) {
      this.#runPasses(whole, true);
      return;
    }
    const { refused } = this;
    const part = this.#unlessRefused("evaluation", () => this.#build(undefined));
    if (part === undefined) return;
    this.refused = refused;
    this.#runPasses(part, false);
  }

  /** Returns what was found of one layer. */
  layer({ className, inputs, sharedWith }: LeafLayer, index: number): ProbedLayer {
    const { evaluation, training, backward } = this.#passes;
    const outputs = training?.get(index)?.outputs.length ?? 0;
    const gradients = backward?.get(index);
    const weights = this.#gradients.get(index) ?? [];
    return {
      className,
      inputs,
      ...defined({ sharedWith }),
      evaluation: passOf(evaluation?.get(index)),
      training: passOf(training?.get(index)),
      backward:
        backward === undefined
          ? null
          : {
              ...(gradients ?? { operations: [], unlisted: 0 }),
              outputs: Array.from({ length: outputs }, (_, output) => gradients?.outputs[output] ?? null),
              weights,
            },
    };
  }

  #build(streams: Streams | undefined): BuiltModel {
    let model: TfLayersModel | undefined;
    const { architecture, tensors } = this.#probed;
    const { tf } = this.#ports;
    const trainable = buildTrainable(tf, architecture, tensors, {
      streams,
      fuseActivations: (built) => {
        model = built;
        return this.#ports.fuseActivations(built);
      },
    });
    return { trainable, model: model as unknown as TfLayersModel };
  }

  #runPasses(built: BuiltModel, isTrained: boolean): void {
    const { tf } = this.#ports;
    const recorder = new LayerRecorder(
      { ...this.#ports, architecture: this.#probed.architecture },
      built.model,
    );
    const inputs = this.#probed.inputs.map(({ values, shape }) => tf.tensor(values, [...shape]));
    try {
      const evaluated = this.#unlessRefused("evaluation", () => {
        tf.tidy(() => {
          this.#begin(recorder, "evaluation", inputs);
          apply(built.model, inputs, false);
        });
        return true;
      });
      if (evaluated === true && isTrained)
        this.#unlessRefused("training", () => {
          this.#train(built, recorder, inputs);
        });
      this.refused &&= { ...this.refused, layer: recorder.failedLayer ?? this.refused.layer };
    } finally {
      recorder.close();
      tf.dispose(inputs);
      built.trainable.dispose();
    }
  }

  /** The recorder fills the map of a pass, so what it holds when an operation is refused stays known. */
  #begin(recorder: LayerRecorder, phase: "evaluation" | "training", inputs: readonly TfTensor[]): void {
    this.#passes[phase] = recorder.begin(
      phase,
      this.#probed.inputs.map(({ layer }, index) => ({ layer, tensor: inputs[index] as TfTensor })),
    );
  }

  #train({ trainable, model }: BuiltModel, recorder: LayerRecorder, inputs: readonly TfTensor[]): void {
    const { tf } = this.#ports;
    const forward = (): TfTensor => {
      this.#begin(recorder, "training", inputs);
      const loss = this.#lossOf(apply(model, inputs, true), trainable.penalty());
      this.#passes.backward = recorder.beginBackward();
      return loss;
    };
    const variables = trainable.trainable.map(({ variable }) => variable);
    // A model that learns nothing has gradients all the same: those of its inputs.
    const sources: readonly TfTensor[] =
      variables.length > 0 ? variables : inputs.filter((_, index) => this.#isNumeric(index));
    const { value, grads } =
      sources.length === 0
        ? { value: tf.tidy(forward), grads: [] }
        : tf.engine().gradients(forward, [...sources], undefined, true);
    this.loss = recorder.figures("loss", value);
    const gradients = grads as readonly (TfTensor | null | undefined)[];
    if (variables.length > 0) this.#keepWeights(trainable, gradients, recorder);
    else
      sources.forEach((source, index) => {
        const gradient = gradients[index];
        if (gradient != null) recorder.keepGradient(source, gradient);
      });
    tf.dispose([value, ...grads]);
  }

  #keepWeights(
    { trainable }: Trainable,
    gradients: readonly (TfTensor | null | undefined)[],
    recorder: LayerRecorder,
  ): void {
    trainable.forEach(({ layer, name }, index) => {
      const tensor = gradients[index];
      const gradient = tensor == null ? null : recorder.figures(`${layer}/${name}`, tensor);
      this.#gradients.set(layer, [...(this.#gradients.get(layer) ?? []), { name, gradient }]);
    });
  }

  #isNumeric(input: number): boolean {
    const { values, isIndices } = this.#probed.inputs[input] as FixedInput;
    return values instanceof Float32Array && !isIndices;
  }

  /** The sum of all outputs, each number times a fixed one, and of the layers' regularisation losses. */
  #lossOf(outputs: readonly TfTensor[], penalty: TfTensor | undefined): TfTensor {
    const { tf } = this.#ports;
    const terms = outputs.flatMap((output, index) =>
      output.dtype === "float32"
        ? [
            tf.sum(
              tf.mul(output, tf.tensor(lossWeights(index, output.shape, this.#probed.streams), output.shape)),
            ),
          ]
        : [],
    );
    return [...terms, ...(penalty === undefined ? [] : [penalty])]
      .reduce((sum, term) => tf.add(sum, term), tf.scalar(0))
      .asScalar();
  }

  /** Runs a part of the probe; undefined where the engine refuses it, which is noted. */
  #unlessRefused<Result>(phase: ProbePhase, work: () => Result): Result | undefined {
    try {
      return work();
    } catch (error) {
      if (!isStemmaError(error) || !refusals.includes(error.code)) throw error;
      const { layer } = error.details as { readonly layer?: number };
      this.refused = {
        phase: phase === "training" && this.#passes.backward !== undefined ? "backward" : phase,
        layer: layer ?? null,
        code: error.code,
        because: error.message.slice(0, 500),
      };
      return undefined;
    }
  }
}

function apply(model: TfLayersModel, inputs: readonly TfTensor[], training: boolean): readonly TfTensor[] {
  const outputs = model.apply(inputs.length === 1 ? (inputs[0] as TfTensor) : [...inputs], { training }) as
    TfTensor | TfTensor[];
  return Array.isArray(outputs) ? outputs : [outputs];
}

/** A pass that ended before the layer's outputs were there did not reach it. */
function passOf(pass: RecordedPass | undefined): ProbedPass | null {
  return pass === undefined || pass.outputs.length === 0 ? null : pass;
}
