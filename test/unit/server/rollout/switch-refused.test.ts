/** A device's refusal of a version counts in the rollout that gave it this version, and in no other way. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { noteSwitchRefused } from "../../../../server/rollout/switch-refused.js";
import type { Fact } from "../../../../shared/journal/fact.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

const [given, earlier, before] = ["a", "b", "c"].map((digit) => digit.repeat(64) as Hash) as [
  Hash,
  Hash,
  Hash,
];

type Repository = Parameters<typeof noteSwitchRefused>[0];

/** A rollout has given van-1 a version, and it was judged to be good enough. */
function repositoryOf(facts: Fact[]): Repository {
  const judged = { verdict: "passed", before };
  const rollout = {
    name: "spring",
    versionId: given,
    phase: "running",
    members: new Map([["van-1", { judged }]]),
  };
  return {
    device: () => ({ assigned: { cam: { versionId: given, rollout: "spring" } } }),
    rollouts: () => [rollout],
    isAssignmentAnswered: () => false,
    append: (...appended: readonly Fact[]) => {
      facts.push(...appended);
      return Promise.resolve([]);
    },
  } as unknown as Repository;
}

const refusal = { device: "van-1", line: "cam", because: "the hook said no", atMs: 5 };

for (const versionId of [given, undefined])
  it(`counts a refusal ${versionId === undefined ? "that names no version" : "of its version"}`, async () => {
    const facts: Fact[] = [];
    assert.equal(await noteSwitchRefused(repositoryOf(facts), { ...refusal, versionId }), "spring");
    assert.deepEqual(
      facts.map((fact) => [fact.type, (fact as { readonly versionId?: Hash }).versionId]),
      [
        ["switch-failed", undefined],
        ["assigned", before],
      ],
    );
  });

it("does not count that the device refuses an earlier version again", async () => {
  const facts: Fact[] = [];
  assert.equal(await noteSwitchRefused(repositoryOf(facts), { ...refusal, versionId: earlier }), undefined);
  assert.deepEqual(facts, []);
});
