/** The index of prefixes against comparing with every model, while models come and go. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  compareCandidates,
  type PrefixCandidate,
} from "../../../../../server/storage/lineage/prefix-candidates.js";
import { PrefixIndex } from "../../../../../server/storage/lineage/prefix-index.js";
import { layerIdentities } from "../../../../../shared/model/layer-identity.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import {
  candidateArchitecture,
  randomNumbers,
  searchedChoices,
  type RandomNumbers,
} from "../../../../helpers/random-architectures.js";

const isFull = process.env.STEMMA_TEST_FULL === "1";

interface Known {
  readonly identities: readonly Hash[];
  readonly model: PrefixCandidate;
}

function longestByScan(
  known: Iterable<Known>,
  query: readonly Hash[],
): { readonly model: PrefixCandidate; readonly layers: number } | undefined {
  const asked = new Set(query);
  let best: { model: PrefixCandidate; layers: number } | undefined;
  for (const { identities, model } of known) {
    const layers = new Set(identities.filter((identity) => asked.has(identity))).size;
    const isBetter =
      best === undefined ||
      layers > best.layers ||
      (layers === best.layers && compareCandidates(model, best.model) < 0);
    if (layers > 0 && isBetter) best = { model, layers };
  }
  return best;
}

/** Adds, replaces and removes models and compares the answers; ends with all models removed. */
function comesAndGoes(
  random: RandomNumbers,
  options: { readonly steps: number; readonly maxListed: number; readonly make: () => readonly Hash[] },
): void {
  const index = new PrefixIndex({ maxListed: options.maxListed });
  const known = new Map<string, Known>();
  for (let step = 0; step < options.steps; step++) {
    // Phases in which the catalog grows and shrinks, so that identities become common and rare again.
    const isGrowing = Math.floor(step / 100) % 3 !== 2;
    const isAdded = known.size === 0 || random(10) < (isGrowing ? 8 : 1);
    if (isAdded) {
      const id = sha256(`model ${random(1_000)}`);
      const quality = random(4) === 0 ? undefined : random(5);
      const model: PrefixCandidate = { id, quality, savedAtMs: random(3) };
      const identities = options.make();
      index.add(identities, model);
      known.set(id, { identities, model });
    } else {
      const id = [...known.keys()][random(known.size)] as Hash;
      known.delete(id);
      assert.equal(index.remove(id), true);
    }
    const query = options.make();
    assert.deepEqual(index.longest(query), longestByScan(known.values(), query), `step ${step}`);
  }
  for (const [id, { identities }] of known) {
    index.remove(id as Hash);
    assert.notEqual(index.longest(identities)?.model.id, id);
  }
  assert.equal(index.size, 0);
}

test("architectures of a search", () => {
  for (let seed = 0; seed < (isFull ? 20 : 1); seed++) {
    const random = randomNumbers(seed);
    const identities = searchedChoices(100, random).map((choices) =>
      layerIdentities(candidateArchitecture(choices)).filter((identity) => identity !== undefined),
    );
    const make = (): readonly Hash[] => identities[random(identities.length)] as readonly Hash[];
    comesAndGoes(random, { steps: isFull ? 600 : 300, maxListed: 4, make });
  }
});

test("any sets of identities, in which nothing follows from anything", () => {
  for (let seed = 0; seed < (isFull ? 200 : 5); seed++) {
    const random = randomNumbers(1_000 + seed);
    const names = 3 + random(20);
    const make = (): readonly Hash[] =>
      Array.from({ length: random(12) }, () => sha256(`${random(names)} ${random(2)}`));
    comesAndGoes(random, { steps: 400, maxListed: 1 + random(6), make });
  }
});
