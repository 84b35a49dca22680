/**
 * Tighter bounds of narrow layers: each neuron of a dense layer is bounded by going back from it to the
 * input, as the outputs are, instead of by its inputs' bounds alone. Costs a way back for every neuron, so it
 * is done only where first-order errors leave room for an answer. Knows no levels.
 */
import { isExact, newBounds, type Bounds } from "./bounds.js";
import { minValueOf, type IntervalNetwork, type Passage } from "./interval-network.js";
import type { Passed } from "./bound-layer.js";
import { SummingLayer } from "./linear-layers.js";

/** A layer may cost so many products: two ways back for each neuron. A tenth of a second, about. */
const mostProducts = 1e8;

/**
 * Whether a step is worth it: affordable, and at least one linear layer ahead of it whose own input was not
 * exact.
 */
function isWorthIt({ steps }: IntervalNetwork, passage: Passage, step: number): boolean {
  if (!(steps[step]!.layer instanceof SummingLayer)) return false;
  const wayBack = steps.slice(0, step).reduce((sum, { layer }) => sum + (layer?.products ?? 0), 0);
  if (2 * passage[step]!.out.low.length * wayBack > mostProducts) return false;
  let linear = 0;
  for (let at = step; ; at = steps[at]!.inputs[0]!) {
    if (passage[at]!.slack !== undefined) linear++;
    if (steps[at]!.inputs.length !== 1 || isExact(passage[steps[at]!.inputs[0]!]!.out)) return linear > 2;
  }
}

/** The same sample, passed again with narrow layers tightened; the same passage where there are none. */
export function tighten(network: IntervalNetwork, passage: Passage): Passage {
  const tightened: Passed[] = [];
  const changed = new Set<number>();
  network.steps.forEach(({ layer, inputs }, step) => {
    const again = layer !== undefined && inputs.some((input) => changed.has(input));
    const passed = again ? layer.forward(inputs.map((input) => tightened[input]!.out)) : passage[step]!;
    tightened.push(passed);
    if (again) changed.add(step);
    // The outputs that are ranked are gone back from anyway, in pairs.
    if (step === network.ranking || !isWorthIt(network, tightened, step)) return;
    tightened[step] = { ...passed, out: tightenedBounds(network, tightened, step) };
    changed.add(step);
  });
  return changed.size === 0 ? passage : tightened;
}

function tightenedBounds(network: IntervalNetwork, passage: Passage, step: number): Bounds {
  const { shape, low, high } = passage[step]!.out;
  const out = newBounds(shape);
  for (let neuron = 0; neuron < low.length; neuron++) {
    const bound = (sign: 1 | -1): number => {
      const start = new Float64Array(low.length);
      start[neuron] = sign;
      return minValueOf(network, passage, step, start, Infinity);
    };
    // What is anything stays anything: NaN is neither larger nor smaller.
    out.low[neuron] = Math.max(low[neuron]!, bound(1));
    out.high[neuron] = Math.min(high[neuron]!, -bound(-1));
  }
  return out;
}
