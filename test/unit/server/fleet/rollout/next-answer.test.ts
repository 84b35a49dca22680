/** What a judgement adds to the journal, and which of its questions a device is asked. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { RolloutState } from "../../../../../server/storage/repository/state/rollout-state.js";
import { isOnTrial } from "../../../../../server/fleet/rollout/live-trial.js";
import { factsOf, judgementOf, nextAnswer } from "../../../../../server/fleet/rollout/next-answer.js";
import { policyOf } from "../../../../../server/fleet/rollout/policy.js";
import type { Fact } from "../../../../../shared/journal/fact.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";

const [before, next] = [sha256("before"), sha256("next")];
const live = { inputs: 10, minutes: 60, maxFailed: 0 };
const rolloutOf = (hasTrial: boolean, measured?: object) =>
  ({
    name: "r",
    line: "a",
    versionId: next,
    policy: policyOf(hasTrial ? { live } : {}),
    comparisons: 0,
    members: new Map([["car", { device: "car", measured }]]),
  }) as unknown as RolloutState;

describe("the facts of a judgement", () => {
  const types = (facts: readonly Fact[]) => facts.map(({ type }) => type);
  const of = (verdict: string, { assigned, hasTrial = false, ...more }: FactsCase = {}) =>
    factsOf(
      rolloutOf(hasTrial),
      "car",
      { verdict, before, because: "x", ...more } as Parameters<typeof factsOf>[2],
      { atMs: 7, assigned },
    );
  interface FactsCase {
    readonly assigned?: typeof next;
    readonly hasTrial?: boolean;
    readonly isMeasured?: true;
    readonly before?: null;
  }

  it("give the version to a device on which it passed, and to no other", () => {
    assert.deepEqual(of("passed"), [
      { type: "judged", atMs: 7, rollout: "r", device: "car", verdict: "passed", before, because: "x" },
      { type: "assigned", atMs: 7, device: "car", line: "a", versionId: next, rollout: "r" },
    ]);
    for (const verdict of ["worse", "failed", "kept", "left", "unknown"])
      assert.deepEqual(types(of(verdict)), ["judged"], verdict);
  });

  it("do not assign what is assigned already, but what another assignment replaced", () => {
    assert.deepEqual(types(of("passed", { assigned: next })), ["judged"]);
    assert.deepEqual(types(of("passed", { assigned: before })), ["judged", "assigned"]);
  });

  it("only say what it measured where its live inputs come next: it does not switch yet", () => {
    const onTrial = { hasTrial: true, isMeasured: true } as const;
    assert.deepEqual(of("passed", onTrial), [
      { type: "measured", atMs: 7, rollout: "r", device: "car", before, because: "x" },
    ]);
    assert.deepEqual(types(of("failed", onTrial)), ["measured"]);
    assert.deepEqual(types(of("passed", { isMeasured: true })), ["judged", "assigned"]);
    assert.deepEqual(types(of("passed", { hasTrial: true })), ["judged", "assigned"]);
    // There is nothing to run the version beside.
    assert.deepEqual(types(of("passed", { ...onTrial, before: null })), ["judged", "assigned"]);
  });
});

describe("a device of a rollout with a trial", () => {
  const repositoryOf = (runs?: typeof next) =>
    ({
      fleet: "f",
      device: () => ({
        state: "enrolled",
        lines: ["a"],
        active: runs === undefined ? {} : { a: { versionId: runs } },
      }),
      get: (versionId: string) => ({ versionId, record: { device: "server" } }),
    }) as unknown as Parameters<typeof nextAnswer>[1];

  it("is on trial once it has measured against what it runs", () => {
    assert.equal(isOnTrial(repositoryOf(before), rolloutOf(true, { before }), "car"), true);
    assert.equal(isOnTrial(repositoryOf(before), rolloutOf(true), "car"), false);
    assert.equal(isOnTrial(repositoryOf(before), rolloutOf(false, { before }), "car"), false);
    assert.equal(isOnTrial(repositoryOf(sha256("since")), rolloutOf(true, { before }), "car"), false);
    assert.equal(isOnTrial(repositoryOf(before), rolloutOf(true, { before }), "van"), false);
  });

  it("is asked for its samples first, then for its trial of that version", async () => {
    const asked: unknown[] = [];
    const ask = (measured?: object) =>
      nextAnswer(
        {
          operations: {
            evaluateOnDevice: ((question: object) => {
              asked.push(question);
              return Promise.resolve({ paired: null, versions: [], change: null });
            }) as never,
          },
          live: {
            command: (device, command) => {
              asked.push([device, command]);
              return Promise.resolve({ code: "USAGE", result: {} });
            },
          },
        },
        repositoryOf(before),
        rolloutOf(true, measured),
        "car",
      );
    await ask();
    await ask({ before });
    assert.deepEqual(asked, [
      { fleet: "f", device: "car", line: "a", models: [next, before] },
      [
        "car",
        {
          name: "trial",
          body: { line: "a", rollout: "r", versionId: next, before, inputs: 10, minutes: 60 },
        },
      ],
    ]);
  });

  it("is judged by what it told, samples and live inputs each", () => {
    const losses = { samples: 100, meanDifference: 0.6, standardError: 0.1 };
    const compared = { before, isOwn: false, losses, trial: {} };
    assert.equal(judgementOf(rolloutOf(true), "car", { compared }).verdict, "worse");
    const answer = {
      ...{ absent: "", isComplete: true, isOver: false, inputs: 10, failed: { version: 0, before: 0 } },
      losses: { inputs: 10, meanDifference: -1, standardDeviation: 0.1 },
      change: null,
      slowdown: null,
    };
    const told = { before, isOwn: false, answer };
    assert.equal(judgementOf(rolloutOf(true), "car", { told }).verdict, "passed");
    const left = { verdict: "left", before, because: "x" } as const;
    assert.equal(judgementOf(rolloutOf(true), "car", left), left);
  });
});
