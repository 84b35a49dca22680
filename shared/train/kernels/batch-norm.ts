/**
 * Batch normalisation for training: statistics, normalising and an activation behind it as one
 * operation, its gradient as another. Also the gradient of the normalisation by given statistics
 * (FusedBatchNorm), which tfjs forms from a dozen full passes.
 */
import type { Tensor } from "@tensorflow/tfjs";
import type { KernelRegistry, TensorInfo, Tf } from "./kernel-registry.js";

/** What follows the normalisation: the kernels know these. */
export const activations = { none: 0, relu: 1, relu6: 2 } as const;
export type FusedActivation = keyof typeof activations;

interface Attributes {
  readonly epsilon: number;
  readonly activation: FusedActivation;
}
const forward = "StemmaBatchNorm";
const backward = "StemmaBatchNormGradient";
const sums = "StemmaBatchNormSums";
const scale = "StemmaScaleColumns";

/**
 * x [..., C] normalised over all but the last axis: y = activation((x − mean)·gamma / √(variance + ε) +
 * beta). gamma, beta [C] or null (ones, zeros). variance is biased, as in TensorFlow.js.
 * Gradients flow to x, gamma and beta.
 */
export function batchNormTraining(
  tf: Tf,
  x: Tensor,
  gamma: Tensor | null,
  beta: Tensor | null,
  { epsilon, activation }: Attributes,
): { y: Tensor; mean: Tensor; variance: Tensor } {
  const C = x.shape.at(-1)!;
  const inputs = { x, gamma: gamma ?? tf.ones([C]), beta: beta ?? tf.zeros([C]) };
  const [y, mean, variance] = tf
    .engine()
    .runKernel(forward, inputs, { epsilon, activation }) as unknown as Tensor[];
  return { y: y!, mean: mean!, variance: variance! };
}

export function registerBatchNorm(room: KernelRegistry): void {
  registerForward(room);
  registerBackward(room);
  room.gradient({
    kernelName: forward,
    inputsToSave: ["x", "gamma", "beta"],
    outputsToSave: [false, true, true],
    gradFunc: (dys, saved, attrs) => {
      const [x, gamma, beta, mean, variance] = saved as [Tensor, Tensor, Tensor, Tensor, Tensor];
      // all three at once, here: what a closure below makes would be gone with the scope it is called in
      const [dx, dgamma, dbeta] = room.tf
        .engine()
        .runKernel(
          backward,
          { x, dy: (dys as unknown as Tensor[])[0]!, gamma, beta, mean, variance },
          attrs,
        ) as unknown as [Tensor, Tensor, Tensor];
      return { x: () => dx, gamma: () => dgamma, beta: () => dbeta };
    },
  });
}

interface Sizes {
  readonly rows: number;
  readonly C: number;
}
function sizes(room: KernelRegistry, x: TensorInfo): Sizes {
  const C = x.shape.at(-1)!;
  return { rows: C === 0 ? 0 : room.tf.util.sizeFromShape(x.shape) / C, C };
}

function registerForward(room: KernelRegistry): void {
  const { kernels, backend } = room;
  room.kernel<{ x: TensorInfo; gamma: TensorInfo; beta: TensorInfo }, Attributes>(
    forward,
    ({ inputs: { x, gamma, beta }, attrs }) => {
      const { rows, C } = sizes(room, x);
      const [y, mean, variance] = [
        backend.makeOutput(x.shape, "float32"),
        backend.makeOutput([C], "float32"),
        backend.makeOutput([C], "float32"),
      ];
      const factor = room.scratch(C * 12);
      const [px, pmean, pvariance] = [room.pointer(x), room.pointer(mean), room.pointer(variance)];
      kernels.batchNormStatistics(px, pmean, pvariance, factor + C * 4, rows, C);
      kernels.batchNormFactor(pvariance, room.pointer(gamma), factor, C, attrs.epsilon);
      kernels.batchNormApply(
        px,
        pmean,
        factor,
        room.pointer(beta),
        room.pointer(y),
        rows,
        C,
        activations[attrs.activation],
      );
      return [y, mean, variance];
    },
  );
}

interface BackwardInputs extends Record<string, TensorInfo> {
  x: TensorInfo;
  dy: TensorInfo;
  gamma: TensorInfo;
  beta: TensorInfo;
  mean: TensorInfo;
  variance: TensorInfo;
}

function registerBackward(room: KernelRegistry): void {
  const { kernels, backend } = room;
  room.kernel<BackwardInputs, Attributes>(backward, ({ inputs, attrs }) => {
    const { rows, C } = sizes(room, inputs.x);
    const [dx, dgamma, dbeta] = [
      backend.makeOutput(inputs.x.shape, "float32"),
      backend.makeOutput([C], "float32"),
      backend.makeOutput([C], "float32"),
    ];
    const factor = room.scratch(C * 28);
    const [slope, shift, total, scratch] = [factor + C * 4, factor + C * 8, factor + C * 12, factor + C * 20];
    const [x, dy, gamma, beta, mean, variance] = (
      ["x", "dy", "gamma", "beta", "mean", "variance"] as const
    ).map((name) => room.pointer(inputs[name])) as [number, number, number, number, number, number];
    const activation = activations[attrs.activation];
    kernels.batchNormFactor(variance, gamma, factor, C, attrs.epsilon);
    kernels.batchNormSums(x, dy, mean, factor, beta, total, scratch, rows, C, activation);
    kernels.batchNormCoefficients(
      total,
      variance,
      factor,
      room.pointer(dgamma),
      room.pointer(dbeta),
      slope,
      shift,
      rows,
      C,
      attrs.epsilon,
    );
    kernels.batchNormGradient(x, dy, mean, factor, beta, slope, shift, room.pointer(dx), rows, C, activation);
    return [dx, dgamma, dbeta];
  });
}

/** The gradient of tfjs's own batchNorm for statistics of shape [C]; other shapes keep tfjs's. */
export function registerGivenStatistics(room: KernelRegistry): void {
  const { tf, kernels, backend } = room;
  room.kernel<{ x: TensorInfo; dy: TensorInfo; mean: TensorInfo }, object>(
    sums,
    ({ inputs: { x, dy, mean } }) => {
      const { rows, C } = sizes(room, x);
      const out = backend.makeOutput([2, C], "float32");
      kernels.batchNormSums(
        room.pointer(x),
        room.pointer(dy),
        room.pointer(mean),
        0,
        0,
        room.pointer(out),
        room.scratch(C * 8),
        rows,
        C,
        activations.none,
      );
      return out;
    },
  );
  room.kernel<{ x: TensorInfo; factor: TensorInfo }, object>(scale, ({ inputs: { x, factor } }) => {
    const { rows, C } = sizes(room, x);
    const out = backend.makeOutput(x.shape, "float32");
    kernels.scaleColumns(room.pointer(x), room.pointer(factor), room.pointer(out), rows, C);
    return out;
  });
  const stock = tf.getGradient("FusedBatchNorm");
  const call = (name: string, inputs: Record<string, Tensor>): Tensor =>
    tf.engine().runKernel(name, inputs) as unknown as Tensor;
  room.gradient({
    kernelName: "FusedBatchNorm",
    inputsToSave: ["x", "mean", "variance", "scale"],
    gradFunc: (dy, saved, attrs) => {
      const [x, mean, variance, gamma] = saved as [Tensor, Tensor, Tensor, Tensor | undefined];
      if (mean.rank !== 1) return stock.gradFunc(dy, saved, attrs);
      const gradient = dy as Tensor;
      const inverse = (): Tensor =>
        variance.add((attrs as { varianceEpsilon: number }).varianceEpsilon).rsqrt();
      const factor = (): Tensor => (gamma ? inverse().mul(gamma) : inverse());
      const total = (row: 0 | 1): Tensor =>
        call(sums, { x, dy: gradient, mean }).slice([row, 0], [1, -1]).reshape(mean.shape);
      return {
        x: () => call(scale, { x: gradient, factor: factor() }),
        mean: () => factor().mul(total(0)).neg(),
        variance: () => inverse().square().mul(factor()).mul(total(1)).mul(-0.5),
        scale: () => inverse().mul(total(1)),
        offset: () => total(0),
      };
    },
  });
}
