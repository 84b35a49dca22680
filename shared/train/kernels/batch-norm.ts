/**
 * Batch normalisation for training: statistics, normalisation and the activation that follows are one
 * operation, and their gradient is another. Also the gradient of normalisation by given statistics
 * (FusedBatchNorm), for which tfjs needs a dozen full passes.
 */
import type { Tensor } from "@tensorflow/tfjs";
import type { KernelRegistry, TensorInfo, Tf } from "./kernel-registry.js";

/** The activations that the kernels can apply after the normalisation, by the number they take. */
const activations = { none: 0, relu: 1, relu6: 2 } as const;
export type FusedActivation = keyof typeof activations;

interface Attributes {
  readonly epsilon: number;
  readonly activation: FusedActivation;
}
const forward = "StemmaBatchNorm";
const backward = "StemmaBatchNormGradient";
const sums = "StemmaBatchNormSums";
const scale = "StemmaScaleColumns";

interface BatchNormInputs {
  /** [..., C] */
  readonly x: Tensor;
  /** [C]; null stands for ones. */
  readonly gamma: Tensor | null;
  /** [C]; null stands for zeros. */
  readonly beta: Tensor | null;
}

/**
 * Normalises x over all axes but the last: y = activation((x − mean)·gamma / √(variance + ε) + beta).
 * Gradients flow to x, gamma and beta.
 * @returns y of x's shape; mean and variance [C], the variance biased as in TensorFlow.js
 */
export function batchNormTraining(
  tf: Tf,
  { x, gamma, beta }: BatchNormInputs,
  { epsilon, activation }: Attributes,
): { y: Tensor; mean: Tensor; variance: Tensor } {
  const C = x.shape.at(-1)!;
  const inputs = { x, gamma: gamma ?? tf.ones([C]), beta: beta ?? tf.zeros([C]) };
  const [y, mean, variance] = tf
    .engine()
    .runKernel(forward, inputs, { epsilon, activation }) as unknown as Tensor[];
  return { y: y!, mean: mean!, variance: variance! };
}

export function registerBatchNorm(registry: KernelRegistry): void {
  registerForward(registry);
  registerBackward(registry);
  registry.gradient({
    kernelName: forward,
    inputsToSave: ["x", "gamma", "beta"],
    outputsToSave: [false, true, true],
    gradFunc: (dys, saved, attrs) => {
      const [x, gamma, beta, mean, variance] = saved as [Tensor, Tensor, Tensor, Tensor, Tensor];
      // Computed here, all three together: tensors made inside the closures below would be disposed with
      // the scope in which they are called.
      const [dx, dgamma, dbeta] = registry.tf
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
function sizes(registry: KernelRegistry, x: TensorInfo): Sizes {
  const C = x.shape.at(-1)!;
  return { rows: C === 0 ? 0 : registry.tf.util.sizeFromShape(x.shape) / C, C };
}

function registerForward(registry: KernelRegistry): void {
  const { kernels, backend } = registry;
  registry.kernel<{ x: TensorInfo; gamma: TensorInfo; beta: TensorInfo }, Attributes>(
    forward,
    ({ inputs: { x, gamma, beta }, attrs }) => {
      const { rows, C } = sizes(registry, x);
      const [y, mean, variance] = [
        backend.makeOutput(x.shape, "float32"),
        backend.makeOutput([C], "float32"),
        backend.makeOutput([C], "float32"),
      ];
      const factor = registry.scratch(C * 12);
      const [px, pmean, pvariance] = [
        registry.pointer(x),
        registry.pointer(mean),
        registry.pointer(variance),
      ];
      kernels.batchNormStatistics(px, pmean, pvariance, factor + C * 4, rows, C);
      kernels.batchNormFactor(pvariance, registry.pointer(gamma), factor, C, attrs.epsilon);
      kernels.batchNormApply(
        px,
        pmean,
        factor,
        registry.pointer(beta),
        registry.pointer(y),
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

function registerBackward(registry: KernelRegistry): void {
  const { kernels, backend } = registry;
  registry.kernel<BackwardInputs, Attributes>(backward, ({ inputs, attrs }) => {
    const { rows, C } = sizes(registry, inputs.x);
    const [dx, dgamma, dbeta] = [
      backend.makeOutput(inputs.x.shape, "float32"),
      backend.makeOutput([C], "float32"),
      backend.makeOutput([C], "float32"),
    ];
    const factor = registry.scratch(C * 28);
    const [slope, shift, total, scratch] = [factor + C * 4, factor + C * 8, factor + C * 12, factor + C * 20];
    const [x, dy, gamma, beta, mean, variance] = (
      ["x", "dy", "gamma", "beta", "mean", "variance"] as const
    ).map((name) => registry.pointer(inputs[name])) as [number, number, number, number, number, number];
    const activation = activations[attrs.activation];
    kernels.batchNormFactor(variance, gamma, factor, C, attrs.epsilon);
    kernels.batchNormSums(x, dy, mean, factor, beta, total, scratch, rows, C, activation);
    kernels.batchNormCoefficients(
      total,
      variance,
      factor,
      registry.pointer(dgamma),
      registry.pointer(dbeta),
      slope,
      shift,
      rows,
      C,
      attrs.epsilon,
    );
    kernels.batchNormGradient(
      x,
      dy,
      mean,
      factor,
      beta,
      slope,
      shift,
      registry.pointer(dx),
      rows,
      C,
      activation,
    );
    return [dx, dgamma, dbeta];
  });
}

/** Replaces the gradient of tfjs's batchNorm for statistics of shape [C]; other shapes keep tfjs's. */
export function registerGivenStatistics(registry: KernelRegistry): void {
  const { tf, kernels, backend } = registry;
  registry.kernel<{ x: TensorInfo; dy: TensorInfo; mean: TensorInfo }, object>(
    sums,
    ({ inputs: { x, dy, mean } }) => {
      const { rows, C } = sizes(registry, x);
      const out = backend.makeOutput([2, C], "float32");
      kernels.batchNormSums(
        registry.pointer(x),
        registry.pointer(dy),
        registry.pointer(mean),
        0,
        0,
        registry.pointer(out),
        registry.scratch(C * 8),
        rows,
        C,
        activations.none,
      );
      return out;
    },
  );
  registry.kernel<{ x: TensorInfo; factor: TensorInfo }, object>(scale, ({ inputs: { x, factor } }) => {
    const { rows, C } = sizes(registry, x);
    const out = backend.makeOutput(x.shape, "float32");
    kernels.scaleColumns(registry.pointer(x), registry.pointer(factor), registry.pointer(out), rows, C);
    return out;
  });
  const stock = tf.getGradient("FusedBatchNorm");
  const call = (name: string, inputs: Record<string, Tensor>): Tensor =>
    tf.engine().runKernel(name, inputs) as unknown as Tensor;
  registry.gradient({
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
