/**
 * A GRU whose reset gate multiplies the state's product with the recurrent kernel, as a layer class of tfjs-layers,
 * which has only the other order. Both orders are the class `GRU` of an architecture, told apart by `reset_after`.
 */
import type { layers, Tensor } from "@tensorflow/tfjs";
import type { TensorFlow } from "./tensorflow.js";

/** The name under which TensorFlow.js finds the class, also inside Bidirectional. */
const registeredName = "StemmaResetAfterGru";

interface Value {
  read(): Tensor;
}
interface Activation {
  apply(x: Tensor): Tensor;
}
/** A GRU's cell as tfjs-layers has it. */
interface Cell {
  readonly units: number;
  useBias: boolean;
  kernel: Value;
  recurrentKernel: Value;
  bias: Value | null;
  readonly activation: Activation;
  readonly recurrentActivation: Activation;
  readonly biasInitializer: unknown;
  readonly biasRegularizer: unknown;
  readonly biasConstraint: unknown;
  resetAfter?: true;
  build(inputShape: unknown): void;
  call(inputs: Tensor[]): Tensor[];
  addWeight(name: string, shape: readonly number[], dtype: null, ...settings: readonly unknown[]): Value;
}
type GruLayer = layers.Layer & { readonly cell: Cell };
type GruClass = new (config: Readonly<Record<string, unknown>>) => GruLayer;

/**
 * The class by which TensorFlow.js builds a layer of an architecture.
 * @param config as the architecture has it
 */
export function registeredClass(
  tf: TensorFlow,
  className: string,
  config: Readonly<Record<string, unknown>>,
): string {
  if (className !== "GRU" || config["reset_after"] !== true) return className;
  const known = tf.serialization.SerializationMap.getMap().classNameMap;
  if (known[registeredName] === undefined) register(tf, known["GRU"]![0] as unknown as GruClass);
  return registeredName;
}

function register(tf: TensorFlow, Gru: GruClass): void {
  class ResetAfterGru extends Gru {
    static className = registeredName;
    constructor(config: Readonly<Record<string, unknown>>) {
      super({ ...config, resetAfter: false });
      resetAfter(tf, this.cell);
    }
  }
  tf.serialization.registerClass(ResetAfterGru as never);
}

/** Gives a cell a bias for each product, and the other order. Dropout does not act: training with it is refused. */
function resetAfter(tf: TensorFlow, cell: Cell): void {
  const build = cell.build.bind(cell);
  cell.resetAfter = true;
  cell.build = (inputShape) => {
    const { useBias, units, biasInitializer, biasRegularizer, biasConstraint } = cell;
    cell.useBias = false;
    build(inputShape);
    cell.useBias = useBias;
    if (!useBias) return;
    const shape = [2, 3 * units];
    cell.bias = cell.addWeight("bias", shape, null, biasInitializer, biasRegularizer, true, biasConstraint);
  };
  cell.call = ([x, before]) =>
    tf.tidy(() => {
      const [inputBias, stateBias] = cell.bias === null ? [] : tf.unstack(cell.bias.read());
      const parts = (from: Tensor, kernel: Value, bias: Tensor | undefined): readonly Tensor[] => {
        const product = tf.matMul(from, kernel.read());
        return tf.split(bias === undefined ? product : tf.add(product, bias), 3, 1);
      };
      const ofInput = parts(x!, cell.kernel, inputBias);
      const ofState = parts(before!, cell.recurrentKernel, stateBias);
      const gate = (at: number): Tensor => cell.recurrentActivation.apply(tf.add(ofInput[at]!, ofState[at]!));
      const update = gate(0);
      const candidate = cell.activation.apply(tf.add(ofInput[2]!, tf.mul(gate(1), ofState[2]!)));
      const after = tf.add<Tensor>(tf.mul(update, before!), tf.mul(tf.sub(1, update), candidate));
      return [after, after];
    });
}
