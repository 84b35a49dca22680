/** The index of postings against a scan over all models, while models come and go. */
import { test } from "node:test";
import { PostingIndex } from "../../../../../server/storage/lineage/posting-index.js";
import { layerIdentities } from "../../../../../shared/model/layer-identity.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { comesAndGoes } from "../../../../contract/server/storage/lineage/prefix-index-contract.js";
import {
  candidateArchitecture,
  randomNumbers,
  searchedChoices,
} from "../../../../helpers/random-architectures.js";

const isFull = process.env.STEMMA_TEST_FULL === "1";

test("architectures of a search", () => {
  for (let seed = 0; seed < (isFull ? 20 : 1); seed++) {
    const random = randomNumbers(seed);
    const identities = searchedChoices(100, random).map((choices) =>
      layerIdentities(candidateArchitecture(choices)).filter((identity) => identity !== undefined),
    );
    comesAndGoes(new PostingIndex({ maxListed: 4 }), {
      random,
      make: () => identities[random(identities.length)] as readonly Hash[],
      steps: isFull ? 600 : 300,
      models: 1_000,
    });
  }
});

test("any sets of identities, in which nothing follows from anything", () => {
  for (let seed = 0; seed < (isFull ? 200 : 5); seed++) {
    const random = randomNumbers(1_000 + seed);
    const names = 3 + random(20);
    comesAndGoes(new PostingIndex({ maxListed: 1 + random(6) }), {
      random,
      make: () => Array.from({ length: random(12) }, () => sha256(`${random(names)} ${random(2)}`)),
      steps: 400,
      models: 1_000,
    });
  }
});
