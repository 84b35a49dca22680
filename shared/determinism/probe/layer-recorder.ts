/**
 * Records what each layer of a model gives while TensorFlow.js runs it: its outputs, the gradients that reach them, and
 * the operations between. It looks at TensorFlow.js's engine from outside: results are read, never changed.
 */
import { bytesOfValues, figuresOf, type Figures, type TensorValues } from "../figures.js";
import { maxOperations, type ProbedOperation, type ProbePhase } from "../probe-summary.js";
import type { Architecture } from "../../model/model.js";
import { sha256 } from "../../tensor/hash.js";
import type { TensorFlow, TfLayer, TfLayersModel, TfTensor } from "../../train/tensorflow.js";

/** The part of TensorFlow.js's engine by which kernels and gradients are seen; not part of its types. */
interface WatchedEngine {
  runKernelFunc(call: { readonly kernelName?: string }): TfTensor | TfTensor[];
  addTapeNode(...node: unknown[]): void;
  readonly state: { readonly activeTape: TapeNode[] };
}
interface TapeNode {
  readonly outputs: readonly TfTensor[];
  gradient?: (gradients: (TfTensor | null)[]) => Record<string, () => TfTensor>;
}
type Apply = (inputs: TfTensor | TfTensor[], kwargs?: object) => TfTensor | TfTensor[];

/** The results of one layer in one pass. */
export interface RecordedPass {
  readonly outputs: (Figures | null)[];
  readonly operations: ProbedOperation[];
  unlisted: number;
  isPassedOn?: true;
}

export interface RecorderPorts {
  readonly tf: TensorFlow;
  readonly architecture: Architecture;
  /** Names the kernel of an operation, such as "wasm stemma". */
  readonly kernelOf: (operation: string) => string;
  /** Gets every tensor whose figures are kept, by a name such as "training/12/0". */
  readonly onTensor?: ((name: string, figures: Figures, values: TensorValues) => void) | undefined;
}

/** Operations that give their input another name or shape, and compute nothing. */
const plainOperations = new Set(["Identity", "Reshape"]);

/** Layers whose work the engine may do in the layer before (../../train/backends/folded-layers.ts, fused-layers.ts). */
const followers = new Set(["BatchNormalization", "ReLU", "Activation"]);

/** The place of a layer's output. */
interface Place {
  readonly layer: number;
  readonly output: number;
}

const listOf = (tensors: TfTensor | TfTensor[]): readonly TfTensor[] =>
  Array.isArray(tensors) ? tensors : [tensors];

const valuesOf = (tensor: TfTensor): TensorValues => tensor.dataSync<"float32" | "int32" | "bool">();

export class LayerRecorder {
  readonly #ports: RecorderPorts;
  #phase: ProbePhase = "evaluation";
  #passes = new Map<number, RecordedPass>();
  /** The layer that runs; undefined between layers. */
  #layer: number | undefined;
  readonly #places = new Map<number, Place>();
  readonly #undo: (() => void)[] = [];
  /** The layer in which an operation threw. */
  failedLayer: number | undefined;

  constructor(ports: RecorderPorts, model: TfLayersModel) {
    this.#ports = ports;
    for (const layer of model.layers) this.#watchLayer(layer);
    this.#watchEngine();
  }

  /** Ends the watching. */
  close(): void {
    for (const undo of this.#undo.splice(0).reverse()) undo();
  }

  /**
   * Begins a forward pass, whose inputs are the outputs of the input layers.
   * @returns what the layers give, by their index, filled while they run
   */
  begin(
    phase: "evaluation" | "training",
    inputs: readonly { readonly layer: number; readonly tensor: TfTensor }[],
  ): ReadonlyMap<number, RecordedPass> {
    this.#phase = phase;
    this.#passes = new Map();
    this.#places.clear();
    for (const { layer, tensor } of inputs) this.#keepOutputs(layer, [tensor]);
    return this.#passes;
  }

  /** Takes what follows for the backward pass of the forward pass before. */
  beginBackward(): ReadonlyMap<number, RecordedPass> {
    this.#phase = "backward";
    this.#passes = new Map();
    return this.#passes;
  }

  /** Figures of a tensor, which is handed on under this name. */
  figures(name: string, tensor: TfTensor): Figures {
    const values = valuesOf(tensor);
    const figures = figuresOf(values, tensor.shape);
    this.#ports.onTensor?.(`${this.#phase}/${name}`, figures, values);
    return figures;
  }

  #watchLayer(layer: TfLayer): void {
    const watched = layer as unknown as { apply: Apply };
    const stock = watched.apply.bind(layer);
    // Layers are named after their index (../../train/layer-construction.ts), shared ones after that of the first call.
    const own = Number(/^layer_(\d+)$/.exec(layer.name)?.[1]);
    const calls = this.#ports.architecture.layers.flatMap(({ className, sharedWith }, index) =>
      className !== "InputLayer" && (index === own || sharedWith === own) ? [index] : [],
    );
    if (calls.length === 0) return;
    watched.apply = (inputs, kwargs) => {
      const given = listOf(inputs);
      const call = this.#callOf(calls, given);
      const outputs = this.#within(call, () => stock(inputs, kwargs));
      // TensorFlow.js runs a layer with several outputs once for each of them.
      if (call !== undefined) this.#keepOutputs(call, listOf(outputs), given);
      return outputs;
    };
    this.#undo.push(() => {
      delete (watched as Partial<typeof watched>).apply;
    });
  }

  /** The call of a layer that has these inputs and did not run yet. */
  #callOf(calls: readonly number[], inputs: readonly TfTensor[]): number | undefined {
    const places = inputs.map(({ id }) => this.#places.get(id));
    return calls.find(
      (call) =>
        !this.#isDone(call) &&
        this.#ports.architecture.layers[call]?.inputs.every(
          ({ layer, output }, slot) => places[slot]?.layer === layer && places[slot].output === output,
        ),
    );
  }

  #isDone(call: number): boolean {
    const outputs = this.#passes.get(call)?.outputs ?? [];
    return outputs.length > 0;
  }

  #passOf(layer: number): RecordedPass {
    let pass = this.#passes.get(layer);
    if (pass === undefined) this.#passes.set(layer, (pass = { outputs: [], operations: [], unlisted: 0 }));
    return pass;
  }

  #keepOutputs(layer: number, outputs: readonly TfTensor[], inputs: readonly TfTensor[] = []): void {
    const pass = this.#passOf(layer);
    const dataOf = (tensor: TfTensor): object => tensor.dataId;
    outputs.forEach((tensor, output) => {
      this.#places.set(tensor.id, { layer, output });
      pass.outputs.push(this.figures(`${layer}/${output}`, tensor));
    });
    const [only] = outputs;
    const isFollower = followers.has(this.#ports.architecture.layers[layer]?.className ?? "");
    if (isFollower && only !== undefined && inputs.some((input) => dataOf(input) === dataOf(only)))
      pass.isPassedOn = true;
  }

  #within<Result>(layer: number | undefined, work: () => Result): Result {
    const outer = this.#layer;
    this.#layer = layer;
    try {
      return work();
    } catch (error) {
      this.failedLayer ??= layer;
      throw error;
    } finally {
      this.#layer = outer;
    }
  }

  #watchEngine(): void {
    const engine = this.#ports.tf.engine() as unknown as WatchedEngine;
    const runKernel = engine.runKernelFunc.bind(engine);
    const addNode = engine.addTapeNode.bind(engine);
    engine.runKernelFunc = (call) => {
      const outputs = runKernel(call);
      if (call.kernelName !== undefined) this.#keepOperation(call.kernelName, listOf(outputs));
      return outputs;
    };
    engine.addTapeNode = (...node) => {
      addNode(...node);
      const added = engine.state.activeTape.at(-1);
      if (added !== undefined) this.#watchGradient(added);
    };
    this.#undo.push(() => {
      delete (engine as Partial<WatchedEngine>).runKernelFunc;
      delete (engine as Partial<WatchedEngine>).addTapeNode;
    });
  }

  #keepOperation(name: string, outputs: readonly TfTensor[]): void {
    if (this.#layer === undefined || plainOperations.has(name)) return;
    const pass = this.#passOf(this.#layer);
    if (pass.operations.length >= maxOperations) {
      pass.unlisted++;
      return;
    }
    const bytes = outputs.map((tensor) => bytesOfValues(valuesOf(tensor)));
    const digest = sha256(...bytes).slice(0, 16);
    pass.operations.push({ name, kernel: this.#ports.kernelOf(name), digest });
  }

  /** The gradient of what a layer runs forward belongs to that layer, too. */
  #watchGradient(node: TapeNode): void {
    const { gradient, outputs } = node;
    const layer = this.#layer;
    if (gradient === undefined) return;
    node.gradient = (gradients) => {
      gradients.forEach((tensor, index) => {
        const output = outputs[index];
        if (output !== undefined && tensor !== null) this.keepGradient(output, tensor);
      });
      const parts = this.#within(layer, () => gradient(gradients));
      return Object.fromEntries(
        Object.entries(parts).map(([input, part]) => [input, () => this.#within(layer, part)]),
      );
    };
  }

  /** Keeps the gradient of a tensor, where that is what a layer gives. */
  keepGradient(output: TfTensor, gradient: TfTensor): void {
    const place = this.#places.get(output.id);
    if (place === undefined) return;
    const { outputs } = this.#passOf(place.layer);
    while (outputs.length <= place.output) outputs.push(null);
    outputs[place.output] = this.figures(`${place.layer}/${place.output}`, gradient);
  }
}
