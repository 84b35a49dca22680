/**
 * Simulations of fleets from seeds, as many as every run of the tests has time for: STEMMA_TEST_RUNS of them from
 * STEMMA_TEST_SEED on. What is simulated and what must hold is in README.md of this folder.
 */
import { deepEqual, equal, notEqual } from "node:assert/strict";
import { describe, it } from "node:test";
import { testSeed } from "../helpers/crash-states.js";
import { runSimulation } from "./run.js";
import { itKeepsPromises } from "./keeps-promises.js";

const firstSeed = testSeed();
const runs = Number(process.env["STEMMA_TEST_RUNS"] ?? 1);

describe("simulated fleets", () => {
  for (let seed = firstSeed; seed < firstSeed + runs; seed++) itKeepsPromises(seed);

  it("go the same way again with the same seed", async () => {
    const options = { devices: 3, days: 1 };
    const first = await runSimulation(firstSeed, options);
    const again = await runSimulation(firstSeed, options);
    equal(again.digest, first.digest);
    deepEqual(again, first);
    const other = await runSimulation(firstSeed + 1, options);
    notEqual(other.digest, first.digest);
  });
});
