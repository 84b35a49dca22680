/** The diff: what it finds, and that it compares no more than necessary (MM7). */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { diffTrees, type Change, type ModelSide } from "../../../../shared/model/tree-diff.js";
import type { Leaf } from "../../../../shared/model/model.js";
import { sha256, zeroHash } from "../../../../shared/tensor/hash.js";
import { sortLeaves } from "../../../helpers/sort-leaves.js";

const leaf = (path: string, content: string, shape: readonly number[] = [4]): Leaf => ({
  path,
  dtype: "F32",
  shape,
  tensor: sha256(content, shape.join()),
});
const layers = (contents: readonly string[]): ModelSide => ({
  architecture: sha256("architecture"),
  leaves: contents.map((content, i) => leaf(`${i}/0`, content)),
});
const opaque = (contents: Readonly<Record<string, string>>): ModelSide => ({
  architecture: zeroHash,
  leaves: sortLeaves(
    "opaque",
    Object.entries(contents).map(([name, content]) => leaf(name, content)),
  ),
});
const textsOf = (changes: readonly Change[]): string[] =>
  changes.map(({ kind, path, otherPath, name, otherName }) =>
    [
      kind,
      path,
      ...(otherPath === undefined ? [] : [`→ ${otherPath}`]),
      ...(otherName === undefined ? [] : [`${name} ⇒ ${otherName}`]),
    ].join(" "),
  );

describe("cost (MM7)", () => {
  for (const [count, comparisons] of [
    [8, 7],
    [64, 13],
    [128, 15],
  ] as const) {
    test(`last two of ${count} layers changed: ${comparisons} comparisons`, () => {
      const base = Array.from({ length: count }, (_, i) => `layer ${i}`);
      const diff = diffTrees(
        layers(base),
        layers(base.map((content, i) => (i >= count - 2 ? `${content} tuned` : content))),
      );
      assert.equal(diff.comparisons, comparisons);
      assert.deepEqual(textsOf(diff.changes), [`changed ${count - 2}/0`, `changed ${count - 1}/0`]);
    });
  }
  test("equal models cost one comparison; a layer appended to 64 costs two", () => {
    const base = Array.from({ length: 64 }, (_, i) => `layer ${i}`);
    assert.equal(diffTrees(layers(base), layers(base)).comparisons, 1);
    const longer = diffTrees(layers(base), layers([...base, "new"]));
    assert.deepEqual([longer.comparisons, textsOf(longer.changes)], [2, ["added 64/0"]]);
  });
});

describe("kinds of change", () => {
  test("nothing, everything, from and to an empty model", () => {
    const empty = opaque({});
    const full = opaque({ a: "1", b: "2" });
    assert.deepEqual(textsOf(diffTrees(full, full).changes), []);
    assert.deepEqual(textsOf(diffTrees(empty, full).changes), ["added a", "added b"]);
    assert.deepEqual(textsOf(diffTrees(full, empty).changes), ["removed a", "removed b"]);
    assert.deepEqual(textsOf(diffTrees(empty, empty).changes), []);
  });
  test("without an architecture: renamed, changed, reshaped, added and removed in one diff", () => {
    const before: ModelSide = {
      architecture: zeroHash,
      leaves: [leaf("a", "1"), leaf("b", "2"), leaf("c", "3"), leaf("d", "4", [2, 3]), leaf("e", "5")],
    };
    const after: ModelSide = {
      architecture: zeroHash,
      leaves: [leaf("a", "1"), leaf("b", "2 tuned"), leaf("d", "4", [3, 2]), leaf("f", "6"), leaf("z", "3")],
    };
    const { changes, unchangedLeaves: kept } = diffTrees(before, after);
    assert.deepEqual(textsOf(changes), [
      "changed b",
      "renamed c → z c ⇒ z",
      "reshaped d",
      "removed e",
      "added f",
    ]);
    assert.deepEqual(kept, [0, undefined, undefined, undefined, 2]);
  });
  test("another dtype of the same bytes is reshaped, not changed", () => {
    const after = { ...leaf("a", "other"), dtype: "I32" as const };
    assert.deepEqual(
      textsOf(
        diffTrees(
          { architecture: zeroHash, leaves: [leaf("a", "1")] },
          { architecture: zeroHash, leaves: [after] },
        ).changes,
      ),
      ["reshaped a"],
    );
  });
  test("with an architecture: a layer put in front moves the rest; a display name alone is renamed", () => {
    const before = { ...layers(["1", "2"]), names: ["dense/kernel", "out/kernel"] };
    const after: ModelSide = {
      ...layers(["0", "1", "2"]),
      architecture: sha256("other"),
      names: ["new/kernel", "dense/kernel", "out/kernel"],
    };
    assert.deepEqual(textsOf(diffTrees(before, after).changes), [
      "moved 0/0 → 1/0",
      "moved 1/0 → 2/0",
      "added 0/0",
    ]);
    assert.deepEqual(
      textsOf(diffTrees(before, { ...before, names: ["dense_1/kernel", "out/kernel"] }).changes),
      ["renamed 0/0 dense/kernel ⇒ dense_1/kernel"],
    );
  });
  test("in the same architecture a changed tensor is matched by its position, even if its counter-based name differs", () => {
    const before = { ...layers(["1", "2"]), names: ["dense_1/kernel", "dense_2/kernel"] };
    const after = { ...layers(["1 tuned", "2 tuned"]), names: ["dense_2/kernel", "dense_3/kernel"] };
    assert.deepEqual(textsOf(diffTrees(before, after).changes), [
      "changed 0/0 dense_1/kernel ⇒ dense_2/kernel",
      "changed 1/0 dense_2/kernel ⇒ dense_3/kernel",
    ]);
  });
  test("two layers that exchange their tensors have moved them", () => {
    const names = ["a", "b", "c"];
    assert.deepEqual(
      textsOf(
        diffTrees(
          { ...layers(["1", "2", "3"]), names },
          { ...layers(["2", "1", "3"]), names: ["b", "a", "c"] },
        ).changes,
      ),
      ["moved 0/0 → 1/0", "moved 1/0 → 0/0"],
    );
  });
  test("many leaves of one tensor (zeros) are matched one to one, by name first", () => {
    const { changes } = diffTrees(
      opaque({ a: "0", b: "0", c: "0" }),
      opaque({ b: "0", c: "0", d: "0", e: "0" }),
    );
    assert.deepEqual(textsOf(changes), ["renamed a → d a ⇒ d", "added e"]);
  });
});
