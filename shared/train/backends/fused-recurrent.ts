/**
 * Runs LSTM and GRU of tfjs-layers on the fused operations where their settings allow it. That is tanh for
 * the states, sigmoid or hard sigmoid for the gates, no dropout, no mask, no initial or returned state. All
 * others run as tfjs-layers runs them.
 */
import type { Tensor } from "@tensorflow/tfjs";
import type { KernelRegistry, Tf } from "../kernels/kernel-registry.js";
import { recurrentStates, type GateActivation, type RecurrentKind } from "../kernels/recurrent.js";
import { firstInput, prototypeOf, replaceCall, type Layer, type Variable } from "./replace-call.js";

interface Cell {
  readonly kernel: Variable;
  readonly recurrentKernel: Variable;
  readonly bias: Variable | null;
  readonly units: number;
  readonly activation: { getClassName(): string };
  readonly recurrentActivation: { getClassName(): string };
  readonly dropout: number;
  readonly recurrentDropout: number;
  /** A mark of the cells of reset-after-gru.ts. */
  readonly resetAfter?: true;
}
interface RecurrentLayer extends Layer {
  readonly cell: Cell;
  readonly returnSequences: boolean;
  readonly returnState: boolean;
  readonly stateful: boolean;
  readonly goBackwards: boolean;
}
/** Arguments of a call that the fused operation does not support. */
interface CallArguments {
  readonly mask?: unknown;
  readonly initialState?: unknown;
  readonly constants?: unknown;
}

const gates: Readonly<Record<string, GateActivation>> = { hardSigmoid: "hardSigmoid", sigmoid: "sigmoid" };

/** Replaces `call` of LSTM and GRU until the registry closes. */
export function registerFusedRecurrent(registry: KernelRegistry): void {
  for (const [className, kind] of [
    ["LSTM", "Lstm"],
    ["GRU", "Gru"],
  ] as const) {
    replaceCall(
      registry,
      prototypeOf(registry.tf, className),
      (stock) =>
        function (inputs, kwargs) {
          const layer = this as RecurrentLayer;
          const gate = fusedGate(layer, kwargs as CallArguments | undefined);
          if (
            gate === undefined ||
            (Array.isArray(inputs) && inputs.length !== 1) ||
            firstInput(inputs).rank !== 3
          )
            return stock.call(this, inputs, kwargs);
          const own = layer.cell.resetAfter === true ? "GruResetAfter" : kind;
          return registry.tf.tidy(() => run(registry.tf, { kind: own, layer, gate }, firstInput(inputs)));
        },
    );
  }
}

/** The gates' activation where the kernels support the layer and the call; else undefined. */
function fusedGate(
  { cell, returnState, stateful }: RecurrentLayer,
  call: CallArguments | undefined,
): GateActivation | undefined {
  const isSupported =
    !returnState &&
    !stateful &&
    !(cell.dropout > 0) &&
    !(cell.recurrentDropout > 0) &&
    cell.activation.getClassName() === "tanh";
  return isSupported && call?.mask == null && call?.initialState == null && call?.constants == null
    ? gates[cell.recurrentActivation.getClassName()]
    : undefined;
}

interface FusedLayer {
  readonly kind: RecurrentKind;
  readonly layer: RecurrentLayer;
  readonly gate: GateActivation;
}

/** x [B,T,F] → [B,T,U], or [B,U] of the last step. The caller disposes intermediates. */
function run(tf: Tf, { kind, layer, gate }: FusedLayer, x: Tensor): Tensor {
  const { cell } = layer;
  const steps = x.shape[1]!;
  const columns = cell.recurrentKernel.read().shape[1]!;
  const inputs = {
    x: layer.goBackwards ? tf.reverse(x, 1) : x,
    kernel: cell.kernel.read(),
    recurrent: cell.recurrentKernel.read(),
    bias: cell.bias?.read() ?? tf.zeros(kind === "GruResetAfter" ? [2, columns] : [columns]),
  };
  const states = recurrentStates(tf, kind, inputs, gate);
  return layer.returnSequences
    ? states
    : states.slice([0, steps - 1, 0], [-1, 1, -1]).reshape([x.shape[0], cell.units]);
}
