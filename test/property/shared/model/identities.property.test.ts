/** Properties of trees, diffs, owner maps and canonical JSON over generated models. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { isStemmaError } from "../../../../shared/errors.js";
import {
  decodeCanonical,
  encodeCanonical,
  type CanonicalValue,
} from "../../../../shared/model/canonical-json.js";
import type { Leaf, LeafTable } from "../../../../shared/model/model.js";
import { decodeOwnerMap, encodeOwnerMap, ownerMapOf, ownerOf } from "../../../../shared/model/owner-map.js";
import { diffTrees } from "../../../../shared/model/tree-diff.js";
import { decodeTree, encodeTree } from "../../../../shared/model/tree-object.js";
import { compareNames, emptyRoot, leafHash, nodeHash, treeRoot } from "../../../../shared/model/tree.js";
import { planSave } from "../../../../shared/save/plan-save.js";
import { sha256, zeroHash } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { sortLeaves } from "../../../helpers/sort-leaves.js";

const runs = { numRuns: process.env["STEMMA_TEST_FULL"] === "1" ? 5_000 : 60 };

const path = fc.oneof(
  fc.constantFrom("a", "b", "c.weight", "c.bias", "z"),
  fc.string({ unit: "grapheme", maxLength: 6 }),
);
const leaf = fc.record({ content: fc.integer({ min: 0, max: 12 }), shape: fc.constantFrom([2], [1, 2], []) });
const table = fc.dictionary(path, leaf, { maxKeys: 24, noNullPrototype: true }).map((entries): LeafTable =>
  sortLeaves(
    "opaque",
    Object.entries(entries).map(([name, { content, shape }]): Leaf => ({
      path: name,
      dtype: "F32",
      shape,
      tensor: sha256(`${content} of ${shape.join()}`),
    })),
  ),
);

/** RFC 6962, section 2.1, implemented by the recursive definition. */
function rootByDefinition(hashes: readonly Hash[]): Hash {
  if (hashes.length === 0) return emptyRoot;
  if (hashes.length === 1) return hashes[0] as Hash;
  const k = 2 ** Math.ceil(Math.log2(hashes.length) - 1);
  return nodeHash(rootByDefinition(hashes.slice(0, k)), rootByDefinition(hashes.slice(k)));
}

describe("trees", () => {
  test("the root is that of RFC 6962, and the stored table is read back", () => {
    fc.assert(
      fc.property(table, (leaves) => {
        assert.equal(
          treeRoot(leaves),
          rootByDefinition(leaves.map((entry) => leafHash(entry.path, entry.tensor))),
        );
        assert.deepEqual(decodeTree(encodeTree("opaque", leaves)), { kind: "opaque", leaves });
      }),
      runs,
    );
  });

  test("a diff accounts for every leaf of both sides exactly once, and is empty only for equal roots", () => {
    fc.assert(
      fc.property(table, table, (a, b) => {
        const {
          changes,
          unchangedLeaves: kept,
          comparisons,
        } = diffTrees({ leaves: a, architecture: zeroHash }, { leaves: b, architecture: zeroHash });
        assert.equal(changes.length === 0, treeRoot(a) === treeRoot(b));
        assert.ok(comparisons <= 2 * Math.max(a.length, b.length, 1));
        // Applying the changes to a gives b.
        const result = new Map(a.map((entry) => [entry.path, entry]));
        for (const change of changes)
          if (change.a !== undefined)
            assert.ok(result.delete(change.a.path), "a leaf of a is in one change only");
        for (const change of changes)
          if (change.b !== undefined) {
            assert.ok(!result.has(change.b.path));
            result.set(change.b.path, change.b);
          }
        assert.deepEqual(sortLeaves("opaque", [...result.values()]), b);
        kept.forEach((from, i) => {
          if (from !== undefined) assert.equal(a[from]?.tensor, b[i]?.tensor);
        });
        const origins = kept.filter((from) => from !== undefined);
        assert.equal(new Set(origins).size, origins.length);
        for (const { kind, a: before, b: after } of changes)
          if (kind === "renamed" || kind === "moved") assert.equal(before?.tensor, after?.tensor);
          else if (kind === "changed" || kind === "reshaped") assert.notEqual(before?.tensor, after?.tensor);
      }),
      runs,
    );
  });

  test("along a chain an owner map names the version that first held each tensor in its place since", () => {
    fc.assert(
      fc.property(fc.array(table, { minLength: 1, maxLength: 6 }), (chain) => {
        let base: Parameters<typeof planSave>[1];
        chain.forEach((leaves, i) => {
          const versionId = sha256(`version ${i}`);
          const plan = planSave({ architecture: zeroHash, leaves }, base);
          const ownerMap = decodeOwnerMap(encodeOwnerMap(plan.ownerMap), leaves.length);
          leaves.forEach((entry, at) => {
            const own = ownerOf(ownerMap, at, versionId) === versionId;
            assert.equal(own, plan.changed.includes(at));
            if (!own) assert.ok(base?.leaves.some(({ tensor }) => tensor === entry.tensor));
          });
          base = { versionId, architecture: zeroHash, leaves, ownerMap };
        });
      }),
      runs,
    );
  });
});

describe("owner maps", () => {
  test("are decoded from their bytes", () => {
    fc.assert(
      fc.property(
        fc.array(fc.option(fc.integer({ min: 0, max: 5 }), { nil: undefined }), { maxLength: 400 }),
        (owners) => {
          const map = ownerMapOf(
            owners.map((owner) => (owner === undefined ? undefined : sha256(`${owner}`))),
          );
          assert.deepEqual(decodeOwnerMap(encodeOwnerMap(map), owners.length), map);
        },
      ),
      runs,
    );
  });
  test("accepted bytes are the only encoding of their content", () => {
    const hostile = fc
      .tuple(fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 6 }), fc.uint8Array({ maxLength: 90 }))
      .map(([head, rest]) => Uint8Array.of(1, ...head, ...rest));
    fc.assert(
      fc.property(hostile, fc.integer({ min: 0, max: 8 }), (bytes, leaves) => {
        try {
          assert.deepEqual(encodeOwnerMap(decodeOwnerMap(bytes, leaves)), bytes);
        } catch (error) {
          if (!isStemmaError(error, "OWNER_MAP_INVALID")) throw error;
        }
      }),
      runs,
    );
  });
});

describe("canonical JSON", () => {
  const { value } = fc.letrec<{ value: CanonicalValue }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 5 },
      fc.constant(null),
      fc.boolean(),
      fc.double(),
      fc.integer(),
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n }),
      fc.string({ unit: "binary" }),
      fc.array(tie("value"), { maxLength: 4 }),
      fc.dictionary(
        fc.oneof(fc.string(), fc.constantFrom("$f64", "$$x", "__proto__", "toJSON", "constructor")),
        tie("value"),
        { maxKeys: 4, noNullPrototype: true },
      ),
    ),
  }));
  test("values are decoded with their bits and kinds, from one form only", () => {
    fc.assert(
      fc.property(value, (given) => {
        const bytes = encodeCanonical(given);
        const again = decodeCanonical(bytes);
        assert.deepEqual(again, given);
        assert.deepEqual(encodeCanonical(again), bytes);
        assert.doesNotThrow(() => JSON.parse(new TextDecoder().decode(bytes)) as unknown);
      }),
      runs,
    );
  });
  test("text that is accepted is canonical", () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        const bytes = new TextEncoder().encode(text);
        try {
          assert.deepEqual(encodeCanonical(decodeCanonical(bytes)), bytes);
        } catch (error) {
          if (!isStemmaError(error, "CANONICAL_JSON_INVALID")) throw error;
        }
      }),
      runs,
    );
  });
});

test("names are ordered by their UTF-8 bytes", () => {
  const name = fc.string({
    unit: fc.oneof(
      fc.constantFrom("a", "\ud7ff", "\ue000", "\uffff", "\u{10000}", "\u{1f600}"),
      fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
    ),
    maxLength: 5,
  });
  fc.assert(
    fc.property(name, name, (a, b) => {
      assert.equal(Math.sign(compareNames(a, b)), Buffer.compare(Buffer.from(a), Buffer.from(b)));
    }),
    runs,
  );
});
