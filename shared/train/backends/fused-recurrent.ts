/**
 * tfjs-layers' LSTM and GRU on the fused operations where their settings allow it: tanh inside, a
 * sigmoid or hard sigmoid for the gates, no dropout, no mask, no given or returned state. Everything
 * else runs as tfjs-layers runs it.
 */
import type { Tensor } from "@tensorflow/tfjs";
import type { KernelRegistry, Tf } from "../kernels/kernel-registry.js";
import { recurrentStates, type GateActivation, type RecurrentKind } from "../kernels/recurrent.js";
import { only, prototypeOf, replaceCall, type Layer, type Variable } from "./replace-call.js";

interface Cell {
  readonly kernel: Variable;
  readonly recurrentKernel: Variable;
  readonly bias: Variable | null;
  readonly units: number;
  readonly activation: { getClassName(): string };
  readonly recurrentActivation: { getClassName(): string };
  readonly dropout: number;
  readonly recurrentDropout: number;
  readonly resetAfter?: boolean;
}
interface RecurrentLayer extends Layer {
  readonly cell: Cell;
  readonly returnSequences: boolean;
  readonly returnState: boolean;
  readonly stateful: boolean;
  readonly goBackwards: boolean;
}
interface Given {
  readonly mask?: unknown;
  readonly initialState?: unknown;
  readonly constants?: unknown;
}

const gates: Readonly<Record<string, GateActivation>> = { hardSigmoid: "hardSigmoid", sigmoid: "sigmoid" };

export function registerFusedRecurrent(room: KernelRegistry): void {
  for (const [className, kind] of [
    ["LSTM", "Lstm"],
    ["GRU", "Gru"],
  ] as const) {
    replaceCall(
      room,
      prototypeOf(room.tf, className),
      (stock) =>
        function (inputs, kwargs) {
          const layer = this as RecurrentLayer;
          const gate = fusedGate(layer, kwargs as Given | undefined);
          if (gate === undefined || (Array.isArray(inputs) && inputs.length !== 1) || only(inputs).rank !== 3)
            return stock.call(this, inputs, kwargs);
          return run(room.tf, kind, layer, only(inputs), gate);
        },
    );
  }
}

/** The gates' activation where the layer is one that the kernels know. */
function fusedGate(
  { cell, returnState, stateful }: RecurrentLayer,
  given: Given | undefined,
): GateActivation | undefined {
  const plain =
    !returnState &&
    !stateful &&
    !cell.resetAfter &&
    !(cell.dropout > 0) &&
    !(cell.recurrentDropout > 0) &&
    cell.activation.getClassName() === "tanh";
  return plain && given?.mask == null && given?.initialState == null && given?.constants == null
    ? gates[cell.recurrentActivation.getClassName()]
    : undefined;
}

function run(tf: Tf, kind: RecurrentKind, layer: RecurrentLayer, x: Tensor, gate: GateActivation): Tensor {
  return tf.tidy(() => {
    const { cell } = layer;
    const steps = x.shape[1]!;
    const weights = {
      kernel: cell.kernel.read(),
      recurrent: cell.recurrentKernel.read(),
      bias: cell.bias?.read() ?? tf.zeros([cell.recurrentKernel.read().shape[1]!]),
    };
    const states = recurrentStates(tf, kind, layer.goBackwards ? tf.reverse(x, 1) : x, weights, gate);
    return layer.returnSequences
      ? states
      : states.slice([0, steps - 1, 0], [-1, 1, -1]).reshape([x.shape[0], cell.units]);
  });
}
