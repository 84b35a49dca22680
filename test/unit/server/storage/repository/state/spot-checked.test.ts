/** The fact of a spot check changes what is said of a version, and nothing that decides what becomes of it. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { applyFact } from "../../../../../../server/storage/repository/state/apply-fact.js";
import { emptyState, type FleetState } from "../../../../../../server/storage/repository/state/state.js";
import { stateName } from "../../../../../../server/storage/repository/state/version-table.js";
import type { SpotCheck } from "../../../../../../shared/journal/facts/version-facts.js";
import { sha256 } from "../../../../../../shared/tensor/hash.js";
import { repositoryRoot } from "../../../../../helpers/markdown.js";

const versionId = sha256("version");
const engineId = sha256("engine");

function recorded(): FleetState {
  const state = emptyState();
  applyFact(state, 0, {
    ...{ type: "recorded", atMs: 1, versionId, name: "soh", version: 1, generation: 1 },
    ...{ tensorBytes: 100, ownBytes: 100 },
  });
  return state;
}

function check(state: FleetState, outcome: SpotCheck["outcome"], segments: readonly number[] = [1, 4]): void {
  const because = outcome;
  applyFact(state, state.length, {
    type: "spot-checked",
    atMs: 2,
    versionId,
    outcome,
    segments,
    of: 9,
    engineId,
    because,
  });
}

describe("a spot check in a fleet's state", () => {
  it("that passes leaves everything else of the version as it was", () => {
    const state = recorded();
    const { spotCheck: none, ...before } = state.versions.get(versionId)!;
    assert.equal(none, undefined);
    check(state, "passed");
    const { spotCheck, ...after } = state.versions.get(versionId)!;
    assert.deepEqual(spotCheck, {
      atMs: 2,
      outcome: "passed",
      segments: [1, 4],
      of: 9,
      engineId,
      because: "passed",
    });
    assert.deepEqual(after, before);
    assert.equal(stateName(state.versions.get(versionId)!), "recorded");
    assert.deepEqual([[...state.replayed.values()], [...state.dropped]], [[], []]);
    assert.deepEqual([...state.unsettled.values()], [0]);
  });

  it("that refutes stays, whatever the device answers later", () => {
    const state = recorded();
    check(state, "asked");
    check(state, "refuted");
    check(state, "not-available");
    check(state, "passed");
    assert.equal(state.versions.get(versionId)?.spotCheck?.outcome, "refuted");
  });

  it("is read by nothing that releases, retires, drops or collects", () => {
    const deciding = [
      "server/storage/repository/retention",
      "server/storage/repository/versions",
      "server/storage/archive",
      "server/fleet",
    ];
    let files = 0;
    for (const room of deciding)
      for (const name of readdirSync(join(repositoryRoot, room), { recursive: true, encoding: "utf8" })) {
        if (!name.endsWith(".ts")) continue;
        files++;
        assert.doesNotMatch(
          readFileSync(join(repositoryRoot, room, name), "utf8"),
          /spotCheck|spot-check/,
          name,
        );
      }
    assert.ok(files > 50);
  });
});
