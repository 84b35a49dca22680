/**
 * Tightens the bounds of narrow layers by backward passes to the input. Each neuron of a dense layer is
 * bounded so, like the margins between outputs, and not only by the bounds of its own inputs. This costs two
 * backward passes for every neuron, so it is done only where it may lead to an answer. Does not know levels.
 */
import { isExact, newBounds, type Bounds } from "./bounds.js";
import { minLinearValue, type IntervalNetwork, type Propagation } from "./interval-network.js";
import type { LayerOutput } from "./bounded-layer.js";
import { ConvolutionLayer } from "./linear-layers.js";

/** Multiplications that tightening one layer may cost: about a tenth of a second. */
const maxProducts = 1e8;

/**
 * True if tightening a step is affordable and may help. It may help where the chain of single-input steps
 * before it contains at least one linear layer whose own input is not exact.
 */
function isWorthTightening({ steps }: IntervalNetwork, propagation: Propagation, step: number): boolean {
  if (!(steps[step]!.layer instanceof ConvolutionLayer)) return false;
  const backwardProducts = steps
    .slice(0, step)
    .reduce((sum, { layer }) => sum + (layer?.productCount ?? 0), 0);
  const neurons = propagation[step]!.out.low.length;
  if (2 * neurons * backwardProducts > maxProducts) return false;
  let linearLayers = 0;
  let current = step;
  for (;;) {
    if (propagation[current]!.slack !== undefined) linearLayers++;
    const { inputs } = steps[current]!;
    if (inputs.length !== 1 || isExact(propagation[inputs[0]!]!.out)) return linearLayers > 2;
    current = inputs[0]!;
  }
}

/**
 * Propagates the same sample again with narrow layers tightened. Returns the given propagation where no layer
 * is worth tightening.
 */
export function tighten(network: IntervalNetwork, propagation: Propagation): Propagation {
  const tightened: LayerOutput[] = [];
  const changed = new Set<number>();
  network.steps.forEach(({ layer, inputs }, step) => {
    const isAffected = layer !== undefined && inputs.some((input) => changed.has(input));
    const output = isAffected
      ? layer.forward(inputs.map((input) => tightened[input]!.out))
      : propagation[step]!;
    tightened.push(output);
    if (isAffected) changed.add(step);
    // The ranking gets backward passes anyway, for pairs of its outputs.
    if (step === network.ranking || !isWorthTightening(network, tightened, step)) return;
    tightened[step] = { ...output, out: tightenedBounds(network, tightened, step) };
    changed.add(step);
  });
  return changed.size === 0 ? propagation : tightened;
}

function tightenedBounds(network: IntervalNetwork, propagation: Propagation, step: number): Bounds {
  const { shape, low, high } = propagation[step]!.out;
  const out = newBounds(shape);
  for (let neuron = 0; neuron < low.length; neuron++) {
    const minSigned = (sign: 1 | -1): number => {
      const coefficients = new Float64Array(low.length);
      coefficients[neuron] = sign;
      return minLinearValue(network, propagation, { step, coefficients, sufficient: Infinity });
    };
    // Math.max and Math.min return NaN where an argument is NaN: an unknown neuron stays unknown.
    out.low[neuron] = Math.max(low[neuron]!, minSigned(1));
    out.high[neuron] = Math.min(high[neuron]!, -minSigned(-1));
  }
  return out;
}
