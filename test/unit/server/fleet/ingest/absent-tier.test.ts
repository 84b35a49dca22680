/** Devices report while a storage tier is absent: nothing new depends on it, and nobody is refused for good. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { keyframeDepth } from "../../../../../server/fleet/ingest/uploads/coded-tensors.js";
import { depthAgainst } from "../../../../../server/fleet/ingest/uploads/earlier-tensors.js";
import { refusalOf } from "../../../../../server/fleet/ingest/uploads/incoming-upload-end.js";
import type { TensorEncoding } from "../../../../../shared/objects/object-store.js";
import { tierUnreachable } from "../../../../../shared/objects/tiers/tier-files.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const near = "0".repeat(64) as Hash;
const moved = "1".repeat(64) as Hash;

it("stores a tensor decoded that is coded against one in a tier", () => {
  const plain: TensorEncoding = { code: 3, depth: 0, storedBytes: 10 };
  const objects = {
    encodingOf: (id: Hash): TensorEncoding => (id === moved ? { ...plain, needsLowFile: true } : plain),
  };
  assert.equal(depthAgainst(objects, [near]), 1);
  assert.ok(depthAgainst(objects, [near, moved]) > keyframeDepth);
});

it("asks for raw tensors, or again later, where a tier would have to be read", () => {
  const error = tierUnreachable("cold", "is not mounted");
  for (const isUselessCoding of [true, false]) {
    const end = refusalOf(error, isUselessCoding);
    assert.ok(end.end === "refused" && (end.retryAfterMs ?? 0) > 0 && end.uselessCoding === isUselessCoding);
  }
});
