/** Which version was active when: certain where the facts determine it, unknown elsewhere (MM12). */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import "../../../../../helpers/property-seed.js";
import { fleetAsOf } from "../../../../../../server/storage/repository/state/as-of.js";
import { activeOn } from "../../../../../../server/storage/repository/state/device-state.js";
import { applyFact } from "../../../../../../server/storage/repository/state/apply-fact.js";
import { emptyState, type FleetState } from "../../../../../../server/storage/repository/state/state.js";
import type { Fact } from "../../../../../../shared/journal/fact.js";
import type { Hash } from "../../../../../../shared/tensor/tensor.js";

const id = (n: number): Hash => n.toString(16).padStart(64, "0") as Hash;
const enrolled: Fact = {
  type: "enrolled",
  atMs: 0,
  device: "car",
  publicKey: "k",
  tokenHash: "t",
  profile: "generic",
  lines: ["pack"],
};
const activated = (
  version: number,
  deviceAtMs: number,
  errorMs: number | null,
  { atMs, session = 1 }: { readonly atMs: number; readonly session?: number },
): Fact => ({
  type: "activated",
  versionId: id(version),
  device: "car",
  line: "pack",
  deviceAtMs,
  deviceClockErrorMs: errorMs,
  session,
  atMs,
});

function stateOf(...facts: readonly Fact[]): FleetState {
  const state = emptyState();
  facts.forEach((fact, position) => {
    applyFact(state, position, fact);
  });
  return state;
}
const ranAt = (atMs: number, ...facts: readonly Fact[]) =>
  fleetAsOf(stateOf(enrolled, ...facts), atMs, 1e9)[0]!;

test("an exact clock decides to the millisecond, and the answer states since when", () => {
  const facts = [activated(1, 100, 0, { atMs: 110 }), activated(2, 200, 0, { atMs: 215 })];
  assert.equal(ranAt(99, ...facts).versionId, "unknown");
  assert.match(ranAt(99, ...facts).why, /activation is later/);
  assert.equal(ranAt(100, ...facts).versionId, id(1));
  assert.equal(ranAt(199, ...facts).versionId, id(1));
  assert.deepEqual([ranAt(200, ...facts).versionId, ranAt(200, ...facts).sinceMs], [id(2), 200]);
  assert.equal(ranAt(1e8, ...facts).versionId, id(2));
});

test("inside a clock's error the answer is unknown, outside it is not", () => {
  const facts = [activated(1, 100, 10, { atMs: 500 }), activated(2, 200, 10, { atMs: 500 })];
  assert.equal(ranAt(95, ...facts).versionId, "unknown");
  assert.equal(ranAt(111, ...facts).versionId, id(1));
  assert.equal(ranAt(189, ...facts).versionId, id(1));
  assert.match(ranAt(195, ...facts).why, /too close/);
  assert.equal(ranAt(195, ...facts).versionId, "unknown");
  assert.equal(ranAt(210, ...facts).versionId, id(2));
});

test("the same version activated twice within the clock's error leaves no doubt", () => {
  assert.equal(
    ranAt(105, activated(1, 50, 1, { atMs: 60 }), activated(1, 100, 30, { atMs: 200 })).versionId,
    id(1),
  );
});

test("with an unknown clock error everything before the server received it is unknown, unless the order decides", () => {
  const facts = [activated(1, 7, null, { atMs: 100 }), activated(2, 8, null, { atMs: 300 })];
  assert.equal(ranAt(50, ...facts).versionId, "unknown");
  assert.equal(ranAt(200, ...facts).versionId, "unknown", "2 may have started any time after 1");
  assert.equal(ranAt(300, ...facts).versionId, id(2));
  assert.equal(ranAt(200, ...facts).uncertainMs, null);
});

test("the server's time of receipt bounds a device clock that is ahead", () => {
  assert.equal(ranAt(150, activated(1, 1_000_000, 10, { atMs: 100 })).versionId, id(1));
});

test("a higher session is later whatever the clocks say", () => {
  const facts = [
    activated(1, 900, 100, { atMs: 1000, session: 1 }),
    activated(2, 850, 100, { atMs: 1200, session: 2 }),
  ];
  assert.equal(ranAt(1001, ...facts).versionId, id(2));
  assert.equal(
    activeOn(stateOf(enrolled, ...facts.toReversed()).devices.get("car")!, "pack")?.versionId,
    id(2),
  );
});

test("what a device ran before it was enrolled again is not what its successor runs", () => {
  const again: Fact = { ...enrolled, atMs: 500 };
  const before = activated(1, 100, 0, { atMs: 110, session: 40 });
  assert.equal(ranAt(400, before, again).versionId, id(1), "before, the first machine ran it");
  assert.equal(ranAt(600, before, again).versionId, "unknown");
  assert.match(ranAt(600, before, again).why, /generation 2/);
  const device = stateOf(enrolled, before, again).devices.get("car")!;
  assert.equal(activeOn(device, "pack"), undefined);
  // The successor's sessions begin at 1 and still are the later ones.
  const after = activated(2, 700, 0, { atMs: 710 });
  assert.equal(ranAt(800, before, again, after).versionId, id(2));
  assert.equal(
    activeOn(stateOf(enrolled, before, again, after).devices.get("car")!, "pack")?.versionId,
    id(2),
  );
  assert.equal(ranAt(400, before, again, after).versionId, id(1), "history stays as it was");
});

test("a late repetition of an old activation leaves no doubt if clocks are exact", () => {
  const facts = [
    activated(1, 100, 5, { atMs: 110 }),
    activated(2, 200, 5, { atMs: 210 }),
    activated(1, 100, 5, { atMs: 260 }),
    activated(1, 100, 5, { atMs: 261 }),
  ];
  assert.deepEqual(
    [150, 230, 300].map((atMs) => ranAt(atMs, ...facts).versionId),
    [id(1), id(2), id(2)],
  );
});

test("a clock that was set back gives an old time to a new activation: unknown, not the old answer", () => {
  const facts = [
    activated(4, 98, null, { atMs: 100 }),
    activated(1, 106, null, { atMs: 106 }),
    activated(4, 98, null, { atMs: 112 }),
    activated(1, 148, null, { atMs: 148 }),
  ];
  assert.equal(ranAt(147, ...facts).versionId, "unknown");
});

test("a long history gives the answers of a short one", () => {
  const facts = Array.from({ length: 3000 }, (_, n) =>
    activated(n % 7, 1000 * n, 100, { atMs: 1000 * n + 300, session: Math.floor(n / 10) }),
  );
  const state = stateOf(enrolled, ...facts);
  for (const n of [0, 1, 499, 500, 1500, 2998, 2999]) {
    assert.equal(fleetAsOf(state, 1000 * n + 500, 1e9)[0]!.versionId, id(n % 7));
    if (n > 0) assert.equal(fleetAsOf(state, 1000 * n, 1e9)[0]!.versionId, "unknown");
  }
  assert.equal(fleetAsOf(state, -500, 1e9).length, 0, "not enrolled yet");
});

test("the version is unknown for the future, for silent lines, and for devices not enrolled yet", () => {
  const state = stateOf(enrolled, activated(1, 10, 0, { atMs: 10 }));
  assert.match(fleetAsOf(state, 101, 100)[0]!.why, /in the future/);
  assert.match(fleetAsOf(stateOf(enrolled), 5, 100)[0]!.why, /no activation/);
  assert.deepEqual(fleetAsOf(stateOf({ ...enrolled, atMs: 50 }), 20, 100), []);
});

test("never a wrong version: against a simulated device with a bounded clock error", () => {
  const steps = fc.array(
    fc.record({
      gap: fc.integer({ min: 0, max: 50 }),
      offset: fc.integer({ min: -20, max: 20 }),
      slack: fc.integer({ min: 0, max: 20 }),
      delay: fc.integer({ min: 0, max: 60 }),
      newSession: fc.boolean(),
      known: fc.boolean(),
      version: fc.integer({ min: 1, max: 4 }),
    }),
    { minLength: 1, maxLength: 12 },
  );
  let decided = 0;
  fc.assert(
    fc.property(steps, fc.infiniteStream(fc.integer({ min: 0, max: 900 })), (drawn, moments) => {
      let now = 100;
      let session = 1;
      let serverNow = 0;
      const truth: { atMs: number; version: number }[] = [];
      const facts = drawn.map(({ gap, offset, slack, delay, newSession, known, version }) => {
        now += gap;
        if (newSession) session++;
        truth.push({ atMs: now, version });
        serverNow = Math.max(serverNow, now + delay);
        return activated(version, now + offset, known ? Math.abs(offset) + slack : null, {
          atMs: serverNow,
          session,
        });
      });
      const state = stateOf(enrolled, ...facts);
      for (const atMs of moments.take(20)) {
        const actual = truth.filter((event) => event.atMs <= atMs).at(-1)?.version;
        const answer = fleetAsOf(state, atMs, 1e9)[0]?.versionId;
        if (answer === "unknown") continue;
        decided++;
        assert.equal(answer, actual === undefined ? "nothing ran" : id(actual), `at ${atMs}`);
      }
    }),
    { numRuns: process.env["STEMMA_TEST_FULL"] === "1" ? 20_000 : 250 },
  );
  assert.ok(decided > 500, "a property that never decides proves nothing");
});
