/**
 * Simulations of fleets from seeds: STEMMA_TEST_RUNS of them from STEMMA_TEST_SEED on, with STEMMA_TEST_FULL=1 many
 * more and larger ones. What is simulated and what must hold is in README.md of this folder.
 */
import { deepEqual, equal, notEqual, ok } from "node:assert/strict";
import { describe, it } from "node:test";
import { testSeed } from "../helpers/crash-states.js";
import { knownFaults } from "./known-faults.js";
import { runSimulation, type RunOptions, type RunResult } from "./run.js";

const isFull = process.env["STEMMA_TEST_FULL"] === "1";
const runs = Number(process.env["STEMMA_TEST_RUNS"] ?? (isFull ? 400 : 8));
const firstSeed = testSeed();
/** Simulations in which something that one in three meets is looked for; one in a million misses it in so many. */
const maxSearched = 40;

/** A few large fleets are among those of the full counts. */
function sizeOf(seed: number): RunOptions {
  return isFull && seed % 20 === 0 ? { devices: 50, days: 2 } : {};
}

describe("simulated fleets", () => {
  const results: RunResult[] = [];

  for (let seed = firstSeed; seed < firstSeed + runs; seed++)
    it(`keep what they promise, STEMMA_TEST_SEED=${seed}`, async (t) => {
      const result = await runSimulation(seed, sizeOf(seed));
      results.push(result);
      const { devices, days, drivenHours, steps, checked, known } = result;
      t.diagnostic(
        `${devices} devices, ${days} days, ${drivenHours.toFixed(0)} h driven, ${steps} steps, checked ${JSON.stringify(checked)}`,
      );
      for (const { name, since, text } of knownFaults)
        if (known.has(name))
          t.diagnostic(`known fault ${name} (${known.get(name)} times, since ${since}): ${text}`);
    });

  it("check every promise", { skip: runs < 8 }, () => {
    for (const what of ["agreements", "receipts", "runs", "recoveries"] as const) {
      const counts = results.map(({ checked }) => checked[what]);
      ok(
        counts.some((count) => count > 0),
        `no ${what} were checked`,
      );
    }
  });

  it("go the same way again with the same seed", async () => {
    const options = { devices: 3, days: 1 };
    const first = await runSimulation(firstSeed, options);
    const again = await runSimulation(firstSeed, options);
    equal(again.digest, first.digest);
    deepEqual(again, first);
    const other = await runSimulation(firstSeed + 1, options);
    notEqual(other.digest, first.digest);
  });

  it("state a version that a device returned to within one session", async () => {
    const isChecked = ({ checked }: RunResult): boolean => checked.returns > 0;
    let isMet = results.some(isChecked);
    for (let seed = firstSeed + runs; !isMet && seed < firstSeed + runs + maxSearched; seed++)
      isMet = isChecked(await runSimulation(seed));
    ok(isMet, `no device returned within a session in the simulations from seed ${firstSeed} on`);
  });
});
