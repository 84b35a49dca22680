/** A want that is split because its list is longer than a message. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { WantParts } from "../../../../agent/session/want-parts.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Want } from "../../../../shared/wire/messages.js";

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
