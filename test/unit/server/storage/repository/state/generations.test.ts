/** Generations of devices: no number comes a second time, whatever restores lose. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  generationFloor,
  nextGeneration,
} from "../../../../../../server/storage/repository/state/device-state.js";
import { applyFact } from "../../../../../../server/storage/repository/state/apply-fact.js";
import { emptyState } from "../../../../../../server/storage/repository/state/state.js";
import type { Fact } from "../../../../../../shared/journal/fact.js";

const startMs = Date.UTC(2026, 0, 1);
const dayMs = 24 * 60 * 60_000;

/** A journal, the copies made of it, and every generation that any history has given. */
class Histories {
  facts: readonly Fact[] = [];
  nowMs = startMs;
  readonly given: number[] = [];

  /** Adds a fact a day later. */
  append(fact: (atMs: number) => Fact): void {
    this.nowMs += dayMs;
    this.facts = [...this.facts, fact(this.nowMs)];
  }
  enrol(device: string): void {
    const state = emptyState();
    this.facts.forEach((fact, position) => {
      applyFact(state, position, fact);
    });
    const generation = nextGeneration(state.devices.get(device), state.generationFloor);
    this.given.push(generation);
    this.append((atMs) => ({
      type: "enrolled",
      atMs,
      device,
      generation,
      publicKey: "k",
      tokenHash: "t",
      profile: "generic",
      lines: ["a"],
    }));
  }
  restore(facts: readonly Fact[]): void {
    this.facts = facts;
    this.append((atMs) => ({ type: "restored", atMs, position: facts.length, lostFrom: null }));
  }
}

test("generations count from 1, and no restore that loses enrolments gives one again", () => {
  const fleet = new Histories();
  const empty = fleet.facts;
  fleet.enrol("car");
  const first = fleet.facts;
  fleet.enrol("car");
  assert.deepEqual(fleet.given, [1, 2]);
  fleet.restore(first);
  fleet.enrol("car");
  const second = fleet.facts;
  fleet.enrol("car");
  // To the older backup again, which knows nothing of the first restore.
  fleet.restore(first);
  fleet.enrol("car");
  fleet.restore(second);
  fleet.enrol("car");
  // To one that does not know the device.
  fleet.restore(empty);
  fleet.enrol("car");
  assert.equal(new Set(fleet.given).size, fleet.given.length, fleet.given.join(" "));
});

test("a clock that was set back does not bring a generation back", () => {
  const fleet = new Histories();
  fleet.enrol("car");
  const backup = fleet.facts;
  fleet.enrol("car");
  fleet.nowMs = 0;
  fleet.restore(backup);
  fleet.enrol("car");
  assert.equal(new Set(fleet.given).size, fleet.given.length, fleet.given.join(" "));
});

test("a generation stays a number of 32 bits, whatever the clock shows", () => {
  assert.equal(generationFloor(0), 1);
  assert.equal(generationFloor(Date.UTC(2020, 0, 1) + 61_000), 61);
  assert.equal(generationFloor(8.64e15), 2 ** 31);
});
