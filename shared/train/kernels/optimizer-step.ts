/**
 * Runs one optimiser step on one variable: new weights and new state from the old ones. Its float32
 * operations have a fixed order, which a replay must repeat. With the fused kernels a step is one kernel;
 * without them the same operations run one after the other and give the same bits. Inputs are neither changed
 * nor disposed; the caller owns the results. Weight, gradient and state have the same shape.
 */
import type { Tensor } from "@tensorflow/tfjs";
import type { KernelRegistry, TensorInfo, Tf } from "./kernel-registry.js";

/** Settings of a step. The kernels round these numbers to float32. */
interface SgdRates {
  readonly learningRate: number;
}
interface MomentumRates extends SgdRates {
  readonly momentum: number;
  readonly nesterov: boolean;
}
interface AdagradRates extends SgdRates {
  readonly epsilon: number;
}
interface RmsPropRates extends SgdRates {
  readonly decay: number;
  readonly momentum: number;
  readonly epsilon: number;
}
interface AdamRates extends SgdRates {
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  /** β₁ᵗ at step t, counted from 1. */
  readonly beta1Product: number;
  /** β₂ᵗ at step t. */
  readonly beta2Product: number;
}

export interface StepInputs {
  readonly weight: Tensor;
  readonly gradient: Tensor;
}
interface AccumulatorInputs extends StepInputs {
  readonly accumulator: Tensor;
}
interface RmsPropInputs extends StepInputs, RmsPropState {}
interface AdamInputs extends StepInputs {
  /** Running means of the gradient and of its square. */
  readonly first: Tensor;
  readonly second: Tensor;
}

const run = (tf: Tf, name: string, inputs: Record<string, Tensor>, attrs: object): Tensor[] => {
  const out = tf.engine().runKernel(name, inputs, attrs as never);
  return Array.isArray(out) ? out : [out];
};
const hasKernel = (tf: Tf, name: string): boolean => tf.getKernel(name, tf.getBackend()) != null;

/** w' = w − g·rate. */
export function sgdStep(tf: Tf, { weight, gradient }: StepInputs, rates: SgdRates): { weight: Tensor } {
  const [next] = hasKernel(tf, "StemmaSgdStep")
    ? run(tf, "StemmaSgdStep", { weight, gradient }, rates)
    : [tf.tidy(() => weight.sub(gradient.mul(rates.learningRate)))];
  return { weight: next! };
}

/** a' = a·momentum + g; w' = w − a'·rate, with Nesterov w − (g + a'·momentum)·rate. */
export function momentumStep(
  tf: Tf,
  { weight, gradient, accumulator }: AccumulatorInputs,
  rates: MomentumRates,
): { weight: Tensor; accumulator: Tensor } {
  const [next, nextAccumulator] = hasKernel(tf, "StemmaMomentumStep")
    ? run(tf, "StemmaMomentumStep", { weight, gradient, accumulator }, rates)
    : tf.tidy((): Tensor[] => {
        const a = accumulator.mul(rates.momentum).add(gradient);
        return [
          weight.sub((rates.nesterov ? gradient.add(a.mul(rates.momentum)) : a).mul(rates.learningRate)),
          a,
        ];
      });
  return { weight: next!, accumulator: nextAccumulator! };
}

/** s' = s + g²; w' = w − (g·rate) / √(s' + ε). */
export function adagradStep(
  tf: Tf,
  { weight, gradient, accumulator }: AccumulatorInputs,
  rates: AdagradRates,
): { weight: Tensor; accumulator: Tensor } {
  const [next, nextAccumulator] = hasKernel(tf, "StemmaAdagradStep")
    ? run(tf, "StemmaAdagradStep", { weight, gradient, accumulator }, rates)
    : tf.tidy((): Tensor[] => {
        const s = accumulator.add(gradient.mul(gradient));
        return [weight.sub(gradient.mul(rates.learningRate).div(s.add(rates.epsilon).sqrt())), s];
      });
  return { weight: next!, accumulator: nextAccumulator! };
}

interface RmsPropState {
  readonly meanSquare: Tensor;
  readonly moment: Tensor;
  /** The mean gradient, only when centred. */
  readonly meanGradient?: Tensor;
}

/**
 * s' = s·decay + g²·(1 − decay); [a' = a·decay + g·(1 − decay)]; m' = m·momentum + (g·rate) / √((s' [− a'²])
 * + ε); w' = w − m'.
 */
export function rmsPropStep(
  tf: Tf,
  { weight, gradient, meanSquare, moment, meanGradient }: RmsPropInputs,
  rates: RmsPropRates,
): { weight: Tensor } & RmsPropState {
  const name = meanGradient ? "StemmaRmsPropCentredStep" : "StemmaRmsPropStep";
  const [next, square, nextMoment, average] = hasKernel(tf, name)
    ? run(tf, name, { weight, gradient, meanSquare, moment, ...(meanGradient && { meanGradient }) }, rates)
    : tf.tidy((): Tensor[] => {
        const s = meanSquare.mul(rates.decay).add(gradient.mul(gradient).mul(1 - rates.decay));
        const a = meanGradient?.mul(rates.decay).add(gradient.mul(1 - rates.decay));
        const root = (a ? s.sub(a.mul(a)) : s).add(rates.epsilon).sqrt();
        const m = moment.mul(rates.momentum).add(gradient.mul(rates.learningRate).div(root));
        return [weight.sub(m), s, m, ...(a ? [a] : [])];
      });
  return {
    weight: next!,
    meanSquare: square!,
    moment: nextMoment!,
    ...(average && { meanGradient: average }),
  };
}

/**
 * m' = m·β₁ + g·(1 − β₁); v' = v·β₂ + g²·(1 − β₂); w' = w − (m' / (√v' / √(1 − β₂ᵗ) + ε))·(rate / (1 − β₁ᵗ)),
 * the last two factors computed in float64 (Kingma and Ba, 2015, in PyTorch's order of operations).
 */
export function adamStep(
  tf: Tf,
  { weight, gradient, first, second }: AdamInputs,
  rates: AdamRates,
): { weight: Tensor; first: Tensor; second: Tensor } {
  const [next, m2, v2] = hasKernel(tf, "StemmaAdamStep")
    ? run(tf, "StemmaAdamStep", { weight, gradient, first, second }, rates)
    : tf.tidy((): Tensor[] => {
        const { root, rate } = adamFactors(rates);
        const m = first.mul(rates.beta1).add(gradient.mul(1 - rates.beta1));
        const v = second.mul(rates.beta2).add(gradient.mul(gradient).mul(1 - rates.beta2));
        return [weight.sub(m.div(v.sqrt().div(root).add(rates.epsilon)).mul(rate)), m, v];
      });
  return { weight: next!, first: m2!, second: v2! };
}

const adamFactors = ({
  learningRate,
  beta1Product,
  beta2Product,
}: AdamRates): { root: number; rate: number } => ({
  root: Math.sqrt(1 - beta2Product),
  rate: learningRate / (1 - beta1Product),
});

/** True if no element of a float32 tensor is NaN or infinite. */
export function allFinite(tf: Tf, tensor: Tensor): boolean {
  return tf.tidy(() => {
    const finite = hasKernel(tf, "StemmaAllFinite")
      ? run(tf, "StemmaAllFinite", { x: tensor }, {})[0]!
      : tensor.isFinite().all();
    return finite.dataSync()[0] === 1;
  });
}

/** Registers one kernel for each optimiser; outputs are the weight, then the state in the order above. */
export function registerOptimizerSteps(registry: KernelRegistry): void {
  registerGradientSteps(registry);
  registerRmsPropSteps(registry);
  registerAdamStep(registry);
  registerAllFinite(registry);
}

/** The optimisers whose step follows the gradient, or a sum of gradients or of their squares. */
function registerGradientSteps(registry: KernelRegistry): void {
  const { kernels } = registry;
  registerStep<SgdRates>(registry, "StemmaSgdStep", ["weight"], ([w, g], [w2], n, { learningRate }) =>
    kernels.sgdStep(w!, g!, w2!, n, learningRate),
  );
  registerStep<MomentumRates>(
    registry,
    "StemmaMomentumStep",
    ["weight", "accumulator"],
    ([w, g, a], [w2, a2], n, r) =>
      kernels.momentumStep(w!, g!, a!, w2!, a2!, n, r.learningRate, r.momentum, r.nesterov ? 1 : 0),
  );
  registerStep<AdagradRates>(
    registry,
    "StemmaAdagradStep",
    ["weight", "accumulator"],
    ([w, g, s], [w2, s2], n, r) => kernels.adagradStep(w!, g!, s!, w2!, s2!, n, r.learningRate, r.epsilon),
  );
}

function registerRmsPropSteps(registry: KernelRegistry): void {
  const { kernels } = registry;
  registerStep<RmsPropRates>(
    registry,
    "StemmaRmsPropStep",
    ["weight", "meanSquare", "moment"],
    ([w, g, s, m], [w2, s2, m2], n, r) =>
      kernels.rmsPropStep(
        w!,
        g!,
        s!,
        m!,
        w2!,
        s2!,
        m2!,
        n,
        r.learningRate,
        r.decay,
        1 - r.decay,
        r.momentum,
        r.epsilon,
      ),
  );
  registerStep<RmsPropRates>(
    registry,
    "StemmaRmsPropCentredStep",
    ["weight", "meanSquare", "moment", "meanGradient"],
    ([w, g, s, m, a], [w2, s2, m2, a2], n, r) =>
      kernels.rmsPropCentredStep(
        w!,
        g!,
        s!,
        m!,
        a!,
        w2!,
        s2!,
        m2!,
        a2!,
        n,
        r.learningRate,
        r.decay,
        1 - r.decay,
        r.momentum,
        r.epsilon,
      ),
  );
}

function registerAdamStep(registry: KernelRegistry): void {
  const { kernels } = registry;
  registerStep<AdamRates>(
    registry,
    "StemmaAdamStep",
    ["weight", "first", "second"],
    ([w, g, m, v], [w2, m2, v2], n, r) =>
      kernels.adamStep(
        w!,
        g!,
        m!,
        v!,
        w2!,
        m2!,
        v2!,
        n,
        adamFactors(r).rate,
        r.beta1,
        1 - r.beta1,
        r.beta2,
        1 - r.beta2,
        adamFactors(r).root,
        r.epsilon,
      ),
  );
}

function registerAllFinite(registry: KernelRegistry): void {
  const { kernels } = registry;
  registry.kernel<{ x: TensorInfo }, object>("StemmaAllFinite", ({ inputs: { x } }) => {
    const out = registry.backend.makeOutput([], "bool");
    registry.backend.wasm.HEAPU8[registry.pointer(out)] = kernels.allFinite(
      registry.pointer(x),
      registry.tf.util.sizeFromShape(x.shape),
    );
    return out;
  });
}

/**
 * Registers a step kernel. `call` gets the pointers of weight, gradient and state, and those of the new
 * weight and the new state.
 */
function registerStep<Rates>(
  registry: KernelRegistry,
  name: string,
  state: readonly ["weight", ...string[]],
  call: (inputs: readonly number[], outputs: readonly number[], count: number, rates: Rates) => void,
): void {
  const [weightName, ...slots] = state;
  registry.kernel<Record<string, TensorInfo>, Rates>(name, ({ inputs, attrs }) => {
    const names = [weightName, "gradient", ...slots];
    const { shape } = inputs[weightName]!;
    const outputs = state.map(() => registry.backend.makeOutput(shape, "float32"));
    call(
      names.map((key) => registry.pointer(inputs[key]!)),
      outputs.map((out) => registry.pointer(out)),
      registry.tf.util.sizeFromShape(shape),
      attrs,
    );
    return outputs;
  });
}
