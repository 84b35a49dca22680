/** How often a rollout's evidence calls a version worse: of 10,000 rollouts of one that is not, and of one that is. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ComparedLosses } from "../../../../../shared/journal/facts/rollout-facts.js";
import { seededNumbers } from "../../../../../shared/random/seeded-numbers.js";
import {
  deviceThreshold,
  evidenceOnDevice,
  evidenceOnFleet,
  fleetThreshold,
} from "../../../../../server/fleet/rollout/evidence.js";

const level = 0.05;

function comparedOf(differences: readonly number[]): ComparedLosses {
  const samples = differences.length;
  const meanDifference = differences.reduce((sum, each) => sum + each, 0) / samples;
  const squares = differences.reduce(
    (sum, each) => sum + (each - meanDifference) * (each - meanDifference),
    0,
  );
  return { samples, meanDifference, standardError: Math.sqrt(squares / (samples - 1) / samples) };
}

/** What a rollout finds that looks after every device: a device on which, or that everywhere, the version is worse. */
function isCalledWorse(devices: Iterable<ComparedLosses>, margin = 0): "device" | "fleet" | undefined {
  const seen: ComparedLosses[] = [];
  for (const compared of devices) {
    seen.push(compared);
    if (evidenceOnDevice(compared, margin) >= deviceThreshold(level, seen.length)) return "device";
    if (evidenceOnFleet(seen, margin) >= fleetThreshold(level)) return "fleet";
  }
  return undefined;
}

describe("evidence", () => {
  for (const { name, draw } of [
    { name: "classes", draw: (next: () => number) => (next() < 0.9 ? 0 : next() < 0.5 ? -1 : 1) },
    {
      name: "numbers with rare large differences",
      draw: (next: () => number) => (next() < 0.5 ? -1 : 1) / (0.01 + next()),
    },
  ])
    it(`finds a difference where there is none in at most the level of 10,000 rollouts: ${name}`, () => {
      const next = seededNumbers(20261123);
      let wrong = 0;
      for (let rollout = 0; rollout < 10_000; rollout++) {
        const devices = Array.from({ length: 12 }, () =>
          comparedOf(Array.from({ length: 40 }, () => draw(next))),
        );
        if (isCalledWorse(devices) !== undefined) wrong++;
      }
      assert.ok(wrong <= 10_000 * level, `${wrong} of 10,000`);
    });

  it("finds a version that is worse by five points of a hundred on the first devices", () => {
    const next = seededNumbers(7);
    const draw = (): number => (next() < 0.85 ? 0 : next() < 2 / 3 ? 1 : -1);
    const found = Array.from({ length: 200 }, () =>
      isCalledWorse(Array.from({ length: 10 }, () => comparedOf(Array.from({ length: 200 }, draw)))),
    ).filter((worse) => worse !== undefined);
    assert.ok(found.length > 180, `${found.length} of 200`);
  });

  it("finds one that is clearly worse on a single device, also late", () => {
    const same = comparedOf([...Array<number>(49).fill(0), 1, -1]);
    const worse = comparedOf([...Array<number>(30).fill(1), ...Array<number>(70).fill(0)]);
    assert.equal(isCalledWorse([...Array<ComparedLosses>(30).fill(same), worse]), "device");
  });

  it("allows a difference up to the margin", () => {
    const worse = comparedOf([...Array<number>(30).fill(1), ...Array<number>(70).fill(0)]);
    assert.equal(isCalledWorse([worse], 0.3), undefined);
    assert.equal(isCalledWorse([worse], 0.1), "device");
  });

  it("says nothing of no differences, and of few samples", () => {
    assert.equal(evidenceOnFleet([], 0), 0);
    for (const compared of [comparedOf([0, 0, 0]), { samples: 1, meanDifference: 1, standardError: 0 }])
      assert.ok(evidenceOnDevice(compared, 0) < deviceThreshold(level, 1));
  });

  it("counts one device in the evidence of several for at most 5 standard errors, in either direction", () => {
    const of = (z: number): ComparedLosses => ({ samples: 1e9, meanDifference: z, standardError: 1 });
    const same = of(0);
    assert.ok(evidenceOnFleet([of(4.9), same], 0) < evidenceOnFleet([of(4.99), same], 0));
    for (const z of [5, 5.5, 8, 1e6])
      for (const sign of [1, -1])
        assert.ok(
          Math.abs(evidenceOnFleet([of(sign * z), same], 0) - evidenceOnFleet([of(sign * 5), same], 0)) <
            1e-6,
          `${sign * z}`,
        );
  });

  it("lets no device that lies outweigh the others, or make the evidence no number", () => {
    const worse = comparedOf([...Array<number>(30).fill(1), ...Array<number>(70).fill(0)]);
    for (const lie of [
      { samples: 1e15, meanDifference: -1e308, standardError: 0 },
      { samples: 1e15, meanDifference: -1e308, standardError: 1e308 },
      { samples: 1e15, meanDifference: -1e-320, standardError: 1e308 },
      { samples: 1, meanDifference: -1e-320, standardError: 0 },
    ]) {
      const evidence = evidenceOnFleet([lie, ...Array<ComparedLosses>(4).fill(worse)], 0);
      assert.ok(evidence >= fleetThreshold(level), `${evidence}`);
    }
    assert.ok(evidenceOnDevice({ samples: 1e15, meanDifference: 1e308, standardError: 0 }, 0) > 1000);
  });
});
