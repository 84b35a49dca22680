/** Which versions a device announces without their tensors. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isClaimed, type ClaimCircumstances } from "../../../../agent/outbox/claim-choice.js";
import { OutboxFold } from "../../../../agent/outbox/outbox-fold.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

const now: ClaimCircumstances = { approach: "provenance", isDiskTight: false, nowMs: 1000 };
const idOf = (sequence: number): Hash => sha256(String(sequence));
const receipt = { type: "receipt", atMs: 1000, backedUpTo: 0, name: "soh" } as const;

/** An outbox with so many versions of a line. */
function outboxOf(versions: number): OutboxFold {
  const fold = new OutboxFold();
  for (let sequence = 1; sequence <= versions; sequence++)
    fold.apply({
      type: "saved",
      atMs: 1,
      versionId: idOf(sequence),
      line: "soh",
      sequence,
      name: "soh",
      bases: [],
      tensorBytes: 8,
      metric: null,
      samples: null,
    });
  return fold;
}

test("a version is claimed where its line says so and nothing presses", () => {
  const fold = outboxOf(1);
  const choose = (circumstances: Partial<ClaimCircumstances> = {}): boolean =>
    isClaimed(fold.state, fold.state.entries.get(idOf(1))!, { ...now, ...circumstances });
  assert.deepEqual(
    [choose(), choose({ approach: "parameters" }), choose({ isDiskTight: true })],
    [true, false, false],
  );
  fold.apply({ ...receipt, kind: "recorded", versionId: idOf(1), position: 5, version: 0, claim: true });
  assert.equal(choose({ nowMs: 1000 + 3_599_999 }), true);
  assert.equal(choose({ nowMs: 1000 + 3_600_000 }), false, "an hour after the claim");
  fold.apply({ ...receipt, kind: "stored", versionId: idOf(1), position: 9, version: 1 });
  assert.equal(choose(), false);
});

test("of many unproved versions the later ones are sent", () => {
  const fold = outboxOf(9);
  for (let sequence = 1; sequence <= 8; sequence++)
    fold.apply({
      ...receipt,
      kind: "recorded",
      versionId: idOf(sequence),
      position: sequence,
      version: 0,
      claim: true,
    });
  const choices = [...fold.state.entries.values()].map((entry) => isClaimed(fold.state, entry, now));
  assert.deepEqual(choices, [...Array<boolean>(8).fill(true), false]);
});

test("a backup after a claim does not count for the tensors that came later", () => {
  const fold = outboxOf(1);
  const entry = (): { backedUp: boolean; claimedAtMs?: number | undefined } =>
    fold.state.entries.get(idOf(1))!;
  fold.apply({ ...receipt, kind: "recorded", versionId: idOf(1), position: 5, version: 0, claim: true });
  fold.apply({ ...receipt, kind: "recorded", versionId: idOf(2), position: 6, version: 1, backedUpTo: 8 });
  assert.equal(entry().backedUp, false);
  fold.apply({ ...receipt, kind: "recorded", versionId: idOf(1), position: 9, version: 1, backedUpTo: 8 });
  assert.deepEqual([entry().backedUp, entry().claimedAtMs], [false, undefined]);
  fold.apply({ ...receipt, kind: "recorded", versionId: idOf(1), position: 5, version: 0, claim: true });
  assert.equal(entry().claimedAtMs, undefined, "a late receipt of the claim");
  fold.apply({ ...receipt, kind: "released", versionId: idOf(1), position: 9, version: 1, backedUpTo: 10 });
  assert.equal(entry().backedUp, true);
});
