/** More simulations of fleets than simulation.test.ts has; with STEMMA_TEST_FULL=1 many more, and larger ones. */
import { ok } from "node:assert/strict";
import { describe, it } from "node:test";
import { testSeed } from "../helpers/crash-states.js";
import { runSimulation, type RunOptions, type RunResult } from "./run.js";
import { itKeepsPromises } from "./keeps-promises.js";

const isFull = process.env["STEMMA_TEST_FULL"] === "1";
const runs = Number(process.env["STEMMA_TEST_RUNS"] ?? (isFull ? 300 : 9));
/** The seed after that of simulation.test.ts. */
const firstSeed = testSeed() + 1;
/** Simulations in which something that one in three meets is looked for; one in a million misses it in so many. */
const maxSearched = 40;

/** A few large fleets are among those of the full counts. */
function sizeOf(seed: number): RunOptions {
  return isFull && seed % 20 === 0 ? { devices: 50, days: 2 } : {};
}

describe("more simulated fleets", () => {
  const results: RunResult[] = [];

  for (let seed = firstSeed; seed < firstSeed + runs; seed++)
    itKeepsPromises(seed, {
      size: sizeOf(seed),
      onResult: (result) => results.push(result),
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

  it("state a version that a device returned to within one session", async () => {
    const isChecked = ({ checked }: RunResult): boolean => checked.returns > 0;
    let isMet = results.some(isChecked);
    for (let seed = firstSeed + runs; !isMet && seed < firstSeed + runs + maxSearched; seed++)
      isMet = isChecked(await runSimulation(seed));
    ok(isMet, `no device returned within a session in the simulations from seed ${firstSeed} on`);
  });
});
