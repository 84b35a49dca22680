/** The test of one seed: nothing that the invariants forbid happens. */
import { it } from "node:test";
import { knownFaults } from "./known-faults.js";
import { runSimulation, type RunOptions, type RunResult } from "./run.js";

export function itKeepsPromises(
  seed: number,
  {
    size = {},
    onResult,
  }: { readonly size?: RunOptions; readonly onResult?: (result: RunResult) => void } = {},
): void {
  it(`keep what they promise, STEMMA_TEST_SEED=${seed}`, async (t) => {
    const result = await runSimulation(seed, size);
    onResult?.(result);
    const { devices, days, drivenHours, steps, checked, known } = result;
    t.diagnostic(
      `${devices} devices, ${days} days, ${drivenHours.toFixed(0)} h driven, ${steps} steps, checked ${JSON.stringify(checked)}`,
    );
    for (const { name, since, text } of knownFaults)
      if (known.has(name))
        t.diagnostic(`known fault ${name} (${known.get(name)} times, since ${since}): ${text}`);
  });
}
