/** A device's refusal of a version counts in the rollout that gave it this version, and in no other way. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { noteSwitchRefused } from "../../../../../server/fleet/rollout/switch-refused.js";
import type { Fact } from "../../../../../shared/journal/fact.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const [given, earlier, before] = ["a", "b", "c"].map((digit) => digit.repeat(64) as Hash) as [
  Hash,
  Hash,
  Hash,
];

type Repository = Parameters<typeof noteSwitchRefused>[0];

interface Case {
  readonly judged?: { readonly verdict: string; readonly before: Hash | null };
  readonly phase?: string;
  readonly assigned?: { readonly versionId: Hash; readonly rollout?: string };
  readonly isAnswered?: boolean;
}

/** A rollout has given van-1 a version, and it was judged to be good enough. */
function repositoryOf(
  facts: Fact[],
  {
    judged = { verdict: "passed", before },
    phase = "running",
    assigned = { versionId: given, rollout: "spring" },
    isAnswered = false,
  }: Case = {},
): Repository {
  const rollout = { name: "spring", versionId: given, phase, members: new Map([["van-1", { judged }]]) };
  return {
    device: () => ({ assigned: { cam: assigned } }),
    rollouts: () => [rollout],
    isAssignmentAnswered: () => isAnswered,
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

for (const [what, change] of [
  ["the device runs what it was assigned", { isAnswered: true }],
  ["no rollout assigned it", { assigned: { versionId: given } }],
  ["another rollout assigned it", { assigned: { versionId: given, rollout: "autumn" } }],
  ["it is assigned another version", { assigned: { versionId: earlier, rollout: "spring" } }],
  ["the rollout is paused", { phase: "paused" }],
  ["the rollout is undone", { phase: "undone" }],
  ["the device failed already", { judged: { verdict: "failed", before } }],
] as const)
  it(`does not count a refusal where ${what}`, async () => {
    const facts: Fact[] = [];
    const refused = { ...refusal, versionId: undefined };
    assert.equal(await noteSwitchRefused(repositoryOf(facts, change), refused), undefined);
    assert.deepEqual(facts, []);
  });

it("counts a refusal after the end of the rollout, and leaves a device that ran nothing as it is", async () => {
  const facts: Fact[] = [];
  const judged = { verdict: "passed", before: null };
  const refused = { ...refusal, because: "x".repeat(501) };
  assert.equal(await noteSwitchRefused(repositoryOf(facts, { phase: "done", judged }), refused), "spring");
  assert.deepEqual(
    facts.map((fact) => [fact.type, (fact as { readonly because?: string }).because?.length]),
    [["switch-failed", 500]],
  );
});
