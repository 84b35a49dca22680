/** Which devices the undo of a rollout returns to what they ran, and in which order it is written down. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { RolloutState } from "../../../../../server/storage/repository/state/rollout-state.js";
import { returnsOf, undo } from "../../../../../server/fleet/rollout/undo.js";
import type { Fact } from "../../../../../shared/journal/fact.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";

const [before, next] = [sha256("before"), sha256("next")];
type Repository = Parameters<typeof undo>[0];

interface Case {
  readonly state?: string;
  readonly verdict?: string | undefined;
  readonly before?: typeof before | null;
  readonly assigned?: { readonly versionId: string; readonly rollout?: string };
}

/** A rollout of these devices, of which each passed, is enrolled and has what the rollout gave it, unless told. */
function rolloutOf(devices: Readonly<Record<string, Case>>, phase = "running") {
  const appended: (readonly Fact[])[] = [];
  const repository = {
    device: (name: string) => {
      const { state = "enrolled", assigned = { versionId: next, rollout: "r" } } = devices[name] ?? {};
      return { state, assigned: { a: assigned } };
    },
    append: (...facts: readonly Fact[]) => {
      appended.push(facts);
      return Promise.resolve([]);
    },
  } as unknown as Repository;
  const members = Object.entries(devices).map(([device, one]) => {
    const verdict = "verdict" in one ? one.verdict : "passed";
    const judged = { verdict, before: one.before === undefined ? before : one.before };
    return [device, { device, judged: verdict === undefined ? undefined : judged }] as const;
  });
  const rollout = { name: "r", line: "a", versionId: next, phase, members: new Map(members) };
  return { repository, rollout: rollout as unknown as RolloutState, appended };
}

describe("the undo of a rollout", () => {
  it("returns who runs what the rollout assigned, and nobody else", () => {
    const { repository, rollout } = rolloutOf({
      passed: {},
      first: { before: null },
      worse: { verdict: "worse" },
      kept: { verdict: "kept" },
      silent: { verdict: undefined },
      revoked: { state: "revoked" },
      quarantined: { state: "quarantined" },
      since: { assigned: { versionId: sha256("since"), rollout: "r" } },
      another: { assigned: { versionId: next, rollout: "other" } },
      person: { assigned: { versionId: next } },
    });
    assert.deepEqual(returnsOf(repository, rollout), [
      { device: "passed", to: before },
      { device: "first", to: null },
    ]);
  });

  it("is undone first, then assigns what each ran; who ran nothing keeps what it has", async () => {
    const { repository, rollout, appended } = rolloutOf({ passed: {}, first: { before: null } });
    const returns = await undo(repository, rollout, { atMs: 9, because: "x" });
    assert.deepEqual(
      returns.map(({ device }) => device),
      ["passed", "first"],
    );
    assert.deepEqual(appended, [
      [{ type: "rollout-phase", atMs: 9, rollout: "r", phase: "undone", because: "x" }],
      [{ type: "assigned", atMs: 9, device: "passed", line: "a", versionId: before, rollout: "r" }],
    ]);
  });

  it("goes on where a server was killed during it, and appends each assignment once", async () => {
    const names = Array.from({ length: 1001 }, (_, index) => `d${index}`);
    const { repository, rollout, appended } = rolloutOf(
      Object.fromEntries(names.map((name) => [name, {}])),
      "undone",
    );
    await undo(repository, rollout, { atMs: 9, because: "x" });
    assert.deepEqual(
      appended.flat().map((fact) => fact.type === "assigned" && fact.device),
      names,
    );
    assert.ok(appended.every((facts) => facts.length <= 500));
  });
});
