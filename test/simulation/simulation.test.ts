/**
 * Simulations of fleets from seeds, as many as every run of the tests has time for: STEMMA_TEST_RUNS of them from
 * STEMMA_TEST_SEED on. What is simulated and what must hold is in README.md of this folder.
 */
import { deepEqual, notEqual, ok } from "node:assert/strict";
import { describe, it } from "node:test";
import { testSeed } from "../helpers/crash-states.js";
import { runSimulation, type RunResult } from "./run.js";
import { itKeepsPromises } from "./keeps-promises.js";

const firstSeed = testSeed();
const runs = Number(process.env["STEMMA_TEST_RUNS"] ?? 1);

describe("simulated fleets", () => {
  const results: RunResult[] = [];
  for (let seed = firstSeed; seed < firstSeed + runs; seed++)
    itKeepsPromises(seed, { onResult: (result) => results.push(result) });

  it("go the same way again with the same seed", async () => {
    const [first] = results;
    ok(first !== undefined, "the first seed failed");
    deepEqual(await runSimulation(firstSeed), first);
    const small = { devices: 1, days: 1 };
    const [one, other] = [await runSimulation(firstSeed, small), await runSimulation(firstSeed + 1, small)];
    notEqual(other.digest, one.digest);
  });
});
