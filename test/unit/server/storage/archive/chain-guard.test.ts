/** The guard that keeps decoding chains short and free of cycles while a plan is applied. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ChainGuard } from "../../../../../server/storage/archive/chain-guard.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const h = (text: string): Hash => text as Hash;
function guardOf(
  maxDepth: number,
  forms: Readonly<Record<string, readonly [base?: string, previous?: string]>>,
): ChainGuard {
  const guard = new ChainGuard(maxDepth);
  for (const [id, [base, previous]] of Object.entries(forms))
    guard.set(h(id), { base: base as Hash | undefined, previous: previous as Hash | undefined });
  return guard;
}

describe("a chain's guard", () => {
  it("counts the decoding steps below a tensor and above it", () => {
    const guard = guardOf(9, { a: [], b: ["a"], c: ["b", "a"], d: ["c"], x: ["a"] });
    assert.deepEqual(
      ["a", "b", "c", "d", "x"].map((id) => guard.depth(h(id))),
      [0, 1, 2, 3, 1],
    );
    assert.deepEqual(
      ["a", "b", "c", "d", "x"].map((id) => guard.height(h(id))),
      [3, 2, 1, 0, 0],
    );
  });
  it("admits no cycle, not even through a `previous` tensor", () => {
    const guard = guardOf(9, { a: [], b: ["a"], c: ["b"], p: [], q: ["p", "c"] });
    assert.equal(guard.admits(h("a"), { base: h("c") }), false);
    assert.equal(guard.admits(h("a"), { base: h("p"), previous: h("q") }), false);
    assert.equal(guard.admits(h("a"), { base: h("p") }), true);
    assert.equal(guard.admits(h("c"), { base: h("a") }), true);
  });
  it("includes the tensors coded against one that gets deeper", () => {
    const guard = guardOf(3, { a: [], b: ["a"], c: ["b"], r: [], s: ["r"] });
    assert.equal(guard.admits(h("a"), { base: h("r") }), true);
    assert.equal(guard.admits(h("a"), { base: h("s") }), false, "c would be four deep");
    guard.set(h("c"), {});
    assert.equal(guard.admits(h("a"), { base: h("s") }), true);
    guard.set(h("c"), { base: h("b") });
    assert.equal(guard.admits(h("a"), { base: h("s") }), false);
  });
  it("does not follow an existing cycle for ever", () => {
    const guard = guardOf(5, { a: ["b"], b: ["a"] });
    assert.equal(guard.depth(h("a")), Number.POSITIVE_INFINITY);
    assert.equal(guard.admits(h("x"), { base: h("a") }), false);
  });
});
