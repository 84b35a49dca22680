/** Common prefixes of random graphs with twins and shared layers, against EvoStore's algorithm. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { commonPrefix } from "../../../../shared/model/common-prefix.js";
import { layerIdentities } from "../../../../shared/model/layer-identity.js";
import { prefixByAlgorithm1, type IdentifiedArchitecture } from "../../../helpers/prefix-by-algorithm-1.js";
import {
  architectureOf,
  randomBody,
  randomNumbers,
  withRandomHead,
  type WrittenModel,
} from "../../../helpers/random-architectures.js";

const graphs = process.env.STEMMA_TEST_FULL === "1" ? 9_000 : 100;

test("the intersection of identities is Algorithm 1's prefix, and each pair computes the same", () => {
  let found = 0;
  for (let seed = 0; seed < graphs; seed++) {
    const random = randomNumbers(seed);
    const body = randomBody(random, 3 + random(10));
    const [child, ancestor] = [0, 1].map(() => {
      // Half of the pairs have other bodies too: cut off somewhere.
      const cut = random(2) === 0 ? body : body.slice(0, 2 + random(body.length - 1));
      const { written, outputs } = withRandomHead(cut, random);
      return architectureOf(written, outputs);
    }) as [WrittenModel, WrittenModel];
    const prefix = commonPrefix(child.architecture, ancestor.architecture);
    const pairs = prefix.layers.map((pair) => [pair.child, pair.ancestor] as const);
    const identified = ({ architecture }: WrittenModel): IdentifiedArchitecture => ({
      architecture,
      identities: layerIdentities(architecture),
    });
    assert.deepEqual(pairs, prefixByAlgorithm1(identified(child), identified(ancestor)), `seed ${seed}`);
    assert.equal(new Set(pairs.map(([, layer]) => layer)).size, pairs.length, `seed ${seed}: used twice`);
    const ancestorOf = new Map(pairs);
    for (const [left, right] of pairs) {
      const [a, b] = [child.architecture.layers[left], ancestor.architecture.layers[right]];
      assert.equal(a?.className, b?.className);
      assert.deepEqual(a?.config, b?.config);
      assert.deepEqual(
        a?.inputs.map(({ layer }) => ancestorOf.get(layer)),
        b?.inputs.map(({ layer }) => layer),
      );
    }
    assert.equal(new Set(prefix.weights.map(({ ancestor: path }) => path)).size, prefix.weights.length);
    found += pairs.length;
  }
  assert.ok(found > 2 * graphs);
});
