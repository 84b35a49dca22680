/**
 * Makes functions of conditions on layers: m["conv*"].next has POOL("MAX"). It is tested once for each network, however
 * many versions have it. Pure.
 */
import type { Untitled, Work } from "./compiled-query.js";
import type { Network, NetworkLayer } from "./network.js";
import type { Scope } from "./operands.js";
import { matchOf, selectorPattern, usedCaptures, type Captures, type Pattern } from "./patterns.js";
import type { Has, Hop, Nodes } from "./syntax.js";
import { layerTest } from "./templates.js";

/** Steps from a layer to a next one, and to one after that. */
const maxHops = 8;

/** The layers that a selector finds, and the steps that lead on from them. */
export interface NodeSelector {
  readonly variable: number;
  readonly pattern: Pattern;
  readonly hops: readonly Hop[];
  readonly startsIn: (
    network: Network,
    work: Work,
  ) => readonly { readonly layer: NetworkLayer; readonly captures: Captures }[];
}

export function compileNodes({ variable, selector: { value, at }, hops }: Nodes, scope: Scope): NodeSelector {
  if (hops.length > maxHops) scope.fail(at, `more than ${maxHops} steps lead from this selector`);
  const pattern = selectorPattern(String(value), (reason) => scope.fail(at + 1, reason));
  return {
    variable: scope.indexOf(variable),
    pattern,
    hops,
    startsIn: (network, work) => {
      work.spend(network.layers.length);
      return network.layers.flatMap((layer) => {
        const captures = matchOf(pattern, layer.name);
        return captures === undefined ? [] : [{ layer, captures }];
      });
    },
  };
}

export function compileHas({ nodes, template }: Has, scope: Scope): Untitled {
  const { variable, pattern, hops, startsIn } = compileNodes(nodes, scope);
  const fits = layerTest(template, new Set(pattern.captures.keys()), scope.fail);
  // Layers that are all tested alike are followed together.
  const isAlike = template.args.every(
    ({ setting, value }) => setting !== undefined || usedCaptures(value).length === 0,
  );
  const answers = new WeakMap<Network, boolean>();
  const answerFor = (network: Network, work: Work): boolean => {
    const found = startsIn(network, work);
    const starts = isAlike
      ? [{ layers: found.map(({ layer }) => layer), captures: noCaptures }]
      : found.map(({ layer, captures }) => ({ layers: [layer], captures }));
    return starts.some(({ layers, captures }) =>
      follow(network, layers, hops, work).some((layer) => fits(layer, captures)),
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
export function follow(
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
