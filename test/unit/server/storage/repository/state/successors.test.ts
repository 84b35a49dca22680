import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  applySucceeded,
  checkSuccessors,
  noSuccessors,
  type SuccessorFacts,
} from "../../../../../../server/storage/repository/state/successors.js";
import { sha256 } from "../../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../../shared/tensor/tensor.js";

const count = 3000;
const ids = Array.from({ length: count }, (_, i) => sha256(String(i)));

function declare(successors: SuccessorFacts, versionId: Hash, successor: Hash, removed?: true): void {
  const fact = { type: "succeeded", atMs: 1, versionId, successor, because: "" } as const;
  applySucceeded(successors, removed === undefined ? fact : { ...fact, removed });
}

/** A chain of all ids, which counts how often it is looked up. */
function chain(): { readonly successors: SuccessorFacts; readonly lookups: () => number } {
  const successors = noSuccessors();
  for (let i = 1; i < count; i++) declare(successors, ids[i - 1] as Hash, ids[i] as Hash);
  let lookups = 0;
  const after = new (class extends Map<Hash, Map<Hash, never>> {
    override get(id: Hash): Map<Hash, never> | undefined {
      lookups++;
      return super.get(id);
    }
  })([...successors.after] as never);
  return { successors: { ...successors, after: after }, lookups: () => lookups };
}

describe("declared successors", () => {
  it("are checked together, looking at each version once", () => {
    const { successors, lookups } = chain();
    checkSuccessors(successors, ids);
    assert.ok(lookups() <= count, String(lookups()));
    checkSuccessors(successors, [...ids].reverse());
    assert.ok(lookups() <= 2 * count, String(lookups()));
  });

  it("do not come after themselves, at whatever version the check begins", () => {
    for (const from of [0, count - 1, count >> 1]) {
      const { successors } = chain();
      declare(successors, ids.at(-1) as Hash, ids[1] as Hash);
      assert.throws(
        () => {
          checkSuccessors(successors, [ids[from] as Hash]);
        },
        { code: "NOT_ALLOWED" },
      );
    }
    const { successors } = chain();
    declare(successors, ids[0] as Hash, ids[0] as Hash);
    assert.throws(
      () => {
        checkSuccessors(successors, ids);
      },
      { code: "NOT_ALLOWED" },
    );
  });

  it("may be reached by two ways, and be declared again in the other order once that was removed", () => {
    const { successors } = chain();
    declare(successors, ids[0] as Hash, ids[2] as Hash);
    checkSuccessors(successors, ids);
    declare(successors, ids[8] as Hash, ids[9] as Hash, true);
    declare(successors, ids[9] as Hash, ids[8] as Hash);
    checkSuccessors(successors, ids);
  });
});
