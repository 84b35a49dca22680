/**
 * Makes functions of conditions on layers: m["conv*"].next has POOL("MAX"). It is tested once for each network, however
 * many versions have it. Pure.
 */
import type { Untitled, Work } from "./compiled-query.js";
import type { Network, NetworkLayer } from "./network.js";
import type { Scope } from "./operands.js";
import { matchOf, selectorPattern, usedCaptures, type Captures } from "./patterns.js";
import type { Has, Hop } from "./syntax.js";
import { layerTest } from "./templates.js";

/** Steps from a layer to a next one, and to one after that. */
const maxHops = 8;

export function compileHas({ nodes, template }: Has, scope: Scope): Untitled {
  const variable = scope.indexOf(nodes.variable);
  const { value, at } = nodes.selector;
  if (nodes.hops.length > maxHops) scope.fail(at, `more than ${maxHops} steps lead from this selector`);
  const selector = selectorPattern(String(value), (reason) => scope.fail(at + 1, reason));
  const fits = layerTest(template, new Set(selector.captures.keys()), scope.fail);
  // Layers that are all tested alike are followed together.
  const isAlike = template.args.every((arg) => usedCaptures(String(arg.value)).length === 0);
  const answers = new WeakMap<Network, boolean>();
  const answerFor = (network: Network, work: Work): boolean => {
    const found = network.layers.flatMap((layer) => {
      const captures = matchOf(selector, layer.name);
      return captures === undefined ? [] : [{ layer, captures }];
    });
    work.spend(network.layers.length);
    const starts = isAlike
      ? [{ layers: found.map(({ layer }) => layer), captures: noCaptures }]
      : found.map(({ layer, captures }) => ({ layers: [layer], captures }));
    return starts.some(({ layers, captures }) =>
      follow(network, layers, nodes.hops, work).some((layer) => fits(layer, captures)),
    );
  };
  return {
    variables: new Set([variable]),
    needs: [{ variable, facet: "network" }],
    test: (binding, work) => {
      const network = binding[variable]?.network;
      if (network === undefined) return undefined;
      const known = answers.get(network);
      if (known !== undefined) return known;
      const answer = answerFor(network, work);
      answers.set(network, answer);
      return answer;
    },
  };
}

const noCaptures: Captures = new Map();

/** The layers to which some hops lead. */
function follow(
  network: Network,
  from: readonly NetworkLayer[],
  hops: readonly Hop[],
  work: Work,
): readonly NetworkLayer[] {
  let reached = from;
  for (const hop of hops) {
    const indices = new Set<number>();
    for (const layer of reached) {
      work.spend(1 + layer[hop].length);
      for (const index of layer[hop]) indices.add(index);
    }
    reached = [...indices].flatMap((index) => network.layers[index] ?? []);
  }
  return reached;
}
