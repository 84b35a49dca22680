/**
 * LSTM and GRU over a complete sequence as one operation, with the gradient as another. tfjs records about
 * forty small operations per time step, whose bookkeeping costs ten times their arithmetic. The input's
 * contribution is one matrix product over all steps, and so are the gradients of all weights.
 */
import type { Tensor } from "@tensorflow/tfjs";
import type { KernelRegistry, Tf } from "./kernel-registry.js";
import { gruResetAfter, gruResetAfterGradient } from "./gru-reset-after.js";
import { gru, gruGradient } from "./gru.js";
import { lstm, lstmGradient } from "./lstm.js";
import type { GradientInputs, RecurrentTensors } from "./recurrent-parts.js";

/** A GRU's reset gate multiplies the state, or with `GruResetAfter` the state's product with the recurrent kernel. */
export type RecurrentKind = "Lstm" | "Gru" | "GruResetAfter";
/** Activation of the gates: clip(0.2·x + 0.5, 0, 1), or the logistic function. States use tanh. */
export type GateActivation = "hardSigmoid" | "sigmoid";

interface Attributes {
  readonly gate: GateActivation;
}
interface RecurrentInputs {
  /** The inputs, [B,T,F]. */
  readonly x: Tensor;
  /** The kernel, [F,G·U]. */
  readonly kernel: Tensor;
  /** The recurrent kernel, [U,G·U]. */
  readonly recurrent: Tensor;
  /** The bias, [G·U]; with `GruResetAfter` one of each product, [2,G·U]. */
  readonly bias: Tensor;
}
/**
 * Computes all states of a layer, starting from zeros. The gates are i, f, c, o (LSTM, G = 4) or z, r, h
 * (GRU, G = 3). Gradients flow to all four inputs.
 * @returns [B,T,U]
 */
export function recurrentStates(
  tf: Tf,
  kind: RecurrentKind,
  { x, kernel, recurrent, bias }: RecurrentInputs,
  gate: GateActivation,
): Tensor {
  const [states] = tf
    .engine()
    .runKernel(`Stemma${kind}`, { x, kernel, recurrent, bias }, { gate }) as unknown as Tensor[];
  return states!;
}

export function registerRecurrent(registry: KernelRegistry): void {
  for (const [kind, forward, backward] of [
    ["Lstm", lstm, lstmGradient],
    ["Gru", gru, gruGradient],
    ["GruResetAfter", gruResetAfter, gruResetAfterGradient],
  ] as const) {
    const name = `Stemma${kind}`;
    const gradientName = `${name}Gradient`;
    registry.kernel<RecurrentTensors, Attributes>(name, ({ inputs, attrs }) =>
      forward(registry, inputs, attrs.gate === "hardSigmoid" ? 1 : 0),
    );
    registry.kernel<RecurrentTensors, Attributes>(gradientName, ({ inputs, attrs }) =>
      backward(registry, inputs as GradientInputs, attrs.gate === "hardSigmoid" ? 1 : 0),
    );
    registry.gradient({
      kernelName: name,
      inputsToSave: ["x", "kernel", "recurrent", "bias"],
      outputsToSave: kind === "Lstm" ? [true, true, true, true] : [true, true, true],
      gradFunc: (dys, saved, attrs) => {
        const [x, kernel, recurrent, bias, states, gates, first, second] = saved as [
          Tensor,
          Tensor,
          Tensor,
          Tensor,
          Tensor,
          Tensor,
          Tensor,
          Tensor?,
        ];
        const inputs = {
          x,
          kernel,
          recurrent,
          bias,
          states,
          gates,
          first,
          ...(second && { second }),
          dy: (dys as unknown as Tensor[])[0]!,
        };
        const [dx, dkernel, drecurrent, dbias] = registry.tf
          .engine()
          .runKernel(gradientName, inputs, attrs) as unknown as [Tensor, Tensor, Tensor, Tensor];
        return { x: () => dx, kernel: () => dkernel, recurrent: () => drecurrent, bias: () => dbias };
      },
    });
  }
}
