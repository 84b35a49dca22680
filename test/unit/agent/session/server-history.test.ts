/** Whether a server's history is the one that this device has seen (docs/design.md, "Backup"). */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { judgeHistory } from "../../../../agent/session/server-history.js";
import { WantParts } from "../../../../agent/session/want-parts.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Want, WireHead } from "../../../../shared/wire/messages.js";

const head = (length: number, chain = "a"): WireHead => ({
  length,
  chain: sha256(chain),
  root: sha256("r"),
  publicKey: "",
  signature: "",
});
const seen = (length: number, chain = "a", restoredAt: readonly number[] = []) => ({
  seen: { length, chain: sha256(chain) },
  restoredAt,
});
const welcome = (length: number, chain = "a", restored = -1) => ({
  head: head(length, chain),
  restored: restored >= 0,
  restoredPosition: Math.max(0, restored),
});

describe("the server's history", () => {
  it("may grow, and may be new to this device", () => {
    assert.equal(judgeHistory(seen(5), welcome(9, "b")).verdict, "grown");
    assert.equal(judgeHistory(seen(5), welcome(5)).verdict, "grown");
    assert.equal(judgeHistory({ seen: undefined, restoredAt: [] }, welcome(1)).verdict, "grown");
  });
  it("is rejected if it is shorter or different without an announced restore", () => {
    assert.equal(judgeHistory(seen(5), welcome(4)).verdict, "rewritten");
    assert.equal(judgeHistory(seen(5), welcome(5, "b")).verdict, "rewritten");
  });
  it("is accepted from the restored position: once, and again after another restore", () => {
    assert.deepEqual(judgeHistory(seen(9), welcome(6, "b", 5)), { verdict: "restored", position: 5 });
    assert.deepEqual(judgeHistory(seen(9), welcome(20, "b", 5)), { verdict: "restored", position: 5 });
    assert.equal(judgeHistory(seen(20, "b", [5]), welcome(22, "c", 5)).verdict, "grown");
    assert.deepEqual(judgeHistory(seen(22, "c", [5]), welcome(7, "d", 5)), {
      verdict: "restored",
      position: 5,
    });
  });
});

describe("a want in parts", () => {
  const want = (part: number, parts: number): Want => ({
    type: "want",
    reason: "tensors",
    versionId: sha256("v"),
    transfer: "0".repeat(16),
    objects: [],
    bases: [],
    blockBytes: 0,
    part,
    parts,
    more: part + 1 < parts,
    tensorIndices: [part * 10, part * 10 + 1],
  });
  it("is complete when all parts are there, in any order and with repetitions", () => {
    const parts = new WantParts();
    assert.equal(parts.join(want(2, 3)), undefined);
    assert.equal(parts.join(want(0, 3)), undefined);
    assert.equal(parts.join(want(0, 3)), undefined);
    assert.deepEqual(parts.join(want(1, 3))?.tensorIndices, [0, 1, 10, 11, 20, 21]);
    assert.deepEqual(parts.join(want(0, 1))?.tensorIndices, [0, 1]);
  });
  it("refuses impossible parts", () => {
    for (const bad of [want(3, 3), want(0, 100_000)])
      assert.throws(
        () => new WantParts().join(bad),
        (error) => isStemmaError(error, "ENVELOPE_MALFORMED"),
      );
  });
});
