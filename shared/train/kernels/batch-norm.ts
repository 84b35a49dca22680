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
  /** The input, [..., C]. */
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

/** The cost of loading and storing one element, in multiplications. */
const elementWork = 8;

/** Ranges of rows for all threads. */
const cutRows = (registry: KernelRegistry, rows: number, C: number): [number, number][] =>
  registry.cut(rows, { work: C * elementWork });

const blocksOf = (registry: KernelRegistry, rows: number, C: number): number =>
  Math.ceil(rows / registry.kernels.rowsPerBlock(C));
/** Memory for two floats a channel of each block of rows. */
const blockBytes = (registry: KernelRegistry, rows: number, C: number): number =>
  C === 0 ? 0 : blocksOf(registry, rows, C) * C * 8;
/** Ranges of blocks of rows for all threads. */
function cutBlocks(registry: KernelRegistry, rows: number, C: number): [number, number][] {
  const blocks = C === 0 ? 0 : blocksOf(registry, rows, C);
  return registry.cut(blocks, { work: (rows / Math.max(1, blocks)) * C * elementWork });
}

/** Pointers of what the sums of a gradient are computed from. */
interface SumInputs {
  readonly x: number;
  readonly dy: number;
  readonly mean: number;
  readonly factor: number;
  readonly beta: number;
  readonly activation: number;
}

/** sums[0..C) = Σ g, sums[C..2C) = Σ g·(x − mean); `blocks` points to blockBytes of memory. */
function sumBlocks(
  registry: KernelRegistry,
  { x, dy, mean, factor, beta, activation }: SumInputs,
  { rows, C, blocks, sums: total }: Sizes & { readonly blocks: number; readonly sums: number },
): void {
  registry.run(
    "batchNormBlockSums",
    cutBlocks(registry, rows, C).map(([first, count]) => [
      ...[x, dy, mean, factor, beta, blocks, first, first + count, rows, C, activation],
    ]),
  );
  registry.kernels.batchNormSums(blocks, total, rows, C);
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
      const [px, py, pmean, pvariance, pbeta] = [x, y, mean, variance, beta].map((info) =>
        registry.pointer(info),
      ) as [number, number, number, number, number];
      const blocks = registry.scratch(blockBytes(registry, rows, C) + C * 4);
      const factor = blocks + blockBytes(registry, rows, C);
      registry.run(
        "batchNormBlocks",
        cutBlocks(registry, rows, C).map(([first, count]) => [px, blocks, first, first + count, rows, C]),
      );
      kernels.batchNormStatistics(blocks, pmean, pvariance, rows, C);
      kernels.batchNormFactor(pvariance, registry.pointer(gamma), factor, C, attrs.epsilon);
      registry.run(
        "batchNormApply",
        cutRows(registry, rows, C).map(([first, count]) => [
          ...[px + first * C * 4, pmean, factor, pbeta, py + first * C * 4, count, C],
          activations[attrs.activation],
        ]),
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
    const blocks = registry.scratch(blockBytes(registry, rows, C) + C * 20);
    const factor = blocks + blockBytes(registry, rows, C);
    const [slope, shift, total] = [factor + C * 4, factor + C * 8, factor + C * 12];
    const [x, dy, gamma, beta, mean, variance] = (
      ["x", "dy", "gamma", "beta", "mean", "variance"] as const
    ).map((name) => registry.pointer(inputs[name])) as [number, number, number, number, number, number];
    const [pdx, pdgamma, pdbeta] = [registry.pointer(dx), registry.pointer(dgamma), registry.pointer(dbeta)];
    const activation = activations[attrs.activation];
    const { epsilon } = attrs;
    kernels.batchNormFactor(variance, gamma, factor, C, epsilon);
    sumBlocks(registry, { x, dy, mean, factor, beta, activation }, { rows, C, blocks, sums: total });
    kernels.batchNormCoefficients(total, variance, factor, pdgamma, pdbeta, slope, shift, rows, C, epsilon);
    registry.run(
      "batchNormGradient",
      cutRows(registry, rows, C).map(([first, count]) => {
        const offset = first * C * 4;
        return [
          x + offset,
          dy + offset,
          mean,
          factor,
          beta,
          slope,
          shift,
          pdx + offset,
          count,
          C,
          activation,
        ];
      }),
    );
    return [dx, dgamma, dbeta];
  });
}

/** Replaces the gradient of tfjs's batchNorm for statistics of shape [C]; other shapes keep tfjs's. */
export function registerGivenStatistics(registry: KernelRegistry): void {
  const { tf, backend } = registry;
  registry.kernel<{ x: TensorInfo; dy: TensorInfo; mean: TensorInfo }, object>(
    sums,
    ({ inputs: { x, dy, mean } }) => {
      const { rows, C } = sizes(registry, x);
      const out = backend.makeOutput([2, C], "float32");
      const [px, pdy, pmean, pout] = [x, dy, mean, out].map((info) => registry.pointer(info)) as [
        number,
        number,
        number,
        number,
      ];
      sumBlocks(
        registry,
        { x: px, dy: pdy, mean: pmean, factor: 0, beta: 0, activation: activations.none },
        { rows, C, blocks: registry.scratch(blockBytes(registry, rows, C)), sums: pout },
      );
      return out;
    },
  );
  registry.kernel<{ x: TensorInfo; factor: TensorInfo }, object>(scale, ({ inputs: { x, factor } }) => {
    const { rows, C } = sizes(registry, x);
    const out = backend.makeOutput(x.shape, "float32");
    const [px, pfactor, pout] = [registry.pointer(x), registry.pointer(factor), registry.pointer(out)];
    registry.run(
      "scaleColumns",
      cutRows(registry, rows, C).map(([first, count]) => [
        ...[px + first * C * 4, pfactor, pout + first * C * 4, count, C],
      ]),
    );
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
