/** What the server requests next for an announced version: bases, small objects, then missing tensors. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { needsOf, reliedOn, type NeedsView } from "../../../../server/ingest/needs.js";
import { smallObjectsOf } from "../../../../shared/model/record-objects.js";
import type { Leaf, SaveRecord } from "../../../../shared/model/model.js";
import { zeroHash } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

const hash = (digit: string): Hash => digit.repeat(64) as Hash;
const record = (bases: readonly Hash[] = []): SaveRecord => ({
  format: 1,
  name: "m",
  fleet: "f",
  device: "d",
  line: "l",
  sequence: 1,
  bases,
  kind: "opaque",
  contentId: hash("0"),
  architecture: zeroHash,
  root: hash("0"),
  approach: "snapshot",
  savedAtMs: 0,
  clockErrorMs: null,
  objects: {
    tree: hash("1"),
    names: hash("2"),
    ownerMap: hash("3"),
    environment: hash("4"),
    attachments: [
      { name: "a", hash: hash("5") },
      { name: "b", hash: hash("5") },
    ],
  },
});
const leaf = (path: string, tensor: Hash, elements = 4): Leaf => ({
  path,
  dtype: "F32",
  shape: [elements],
  tensor,
});
const limits = { maxModelBytes: 1000, maxTensors: 10 };
const view = (more: Partial<NeedsView> = {}): NeedsView => ({
  record: record(),
  isProven: () => false,
  isHeld: () => true,
  base: () => "known",
  leaves: [leaf("a", hash("a")), leaf("b", hash("b"))],
  withoutBase: false,
  ...more,
});

describe("what the server needs next", () => {
  it("is an unknown base first, unless no device has it", () => {
    const child = view({
      record: record([hash("d"), hash("e")]),
      base: (id) => (id === hash("e") ? "unknown" : "known"),
      isHeld: () => false,
      leaves: undefined,
    });
    assert.deepEqual(needsOf(child, 32, limits), { step: "bases", bases: [hash("e")] });
    assert.equal(needsOf({ ...child, withoutBase: true }, 32, limits).step, "objects");
  });

  it("is the small objects that are neither in memory nor provably had, each once, sizes unknown", () => {
    const needs = needsOf(
      view({ isHeld: (id) => id === hash("1"), isProven: (id) => id === hash("2"), leaves: undefined }),
      32,
      limits,
    );
    assert.equal(needs.step, "objects");
    assert.deepEqual(
      needs.step === "objects" && needs.objects.map(({ kind, id, byteLength }) => [kind, id, byteLength]),
      [
        ["owner-map", hash("3"), 0],
        ["environment", hash("4"), 0],
        ["attachment", hash("5"), 0],
      ],
    );
  });

  it("is only the missing tensors, each once, by their first position in the tree", () => {
    const leaves = [
      leaf("a", hash("a")),
      leaf("b", hash("b")),
      leaf("c", hash("a")),
      leaf("d", hash("c"), 2),
    ];
    const needs = needsOf(view({ leaves, isProven: (id) => id === hash("b") }), 56, limits);
    assert.deepEqual(needs, {
      step: "tensors",
      reason: "tensors",
      indices: [0, 3],
      bytes: 24,
      objects: [
        { kind: "tensor", id: hash("a"), byteLength: 16 },
        { kind: "tensor", id: hash("c"), byteLength: 8 },
      ],
    });
  });

  it("is raw tensors if a base is retired or unknown", () => {
    for (const state of ["retired", "unknown"] as const) {
      const needs = needsOf(
        view({ record: record([hash("e")]), base: () => state, withoutBase: true }),
        32,
        limits,
      );
      assert.equal(needs.step === "tensors" && needs.reason, "raw");
    }
  });

  it("is nothing if everything is stored", () => {
    assert.deepEqual(needsOf(view({ isProven: () => true }), 32, limits), { step: "commit" });
  });

  it("is a refusal if the tree is unreadable, too large, has too many tensors, or differs from the declaration", () => {
    const code = (needs: ReturnType<typeof needsOf>): string =>
      needs.step === "refuse" ? needs.code : needs.step;
    assert.equal(code(needsOf(view({ leaves: undefined }), 32, limits)), "ANNOUNCE_INVALID");
    assert.equal(
      code(needsOf(view({ leaves: [leaf("a", hash("a"), 251)] }), 1004, limits)),
      "SIZE_OVER_LIMIT",
    );
    assert.equal(
      code(
        needsOf(
          view({ leaves: Array.from({ length: 11 }, (_, at) => leaf(String(at), hash("a"), 1)) }),
          44,
          limits,
        ),
      ),
      "SIZE_OVER_LIMIT",
    );
    assert.equal(code(needsOf(view(), 31, limits)), "ANNOUNCE_INVALID");
  });

  it("depends on every small object and every tensor of the version", () => {
    assert.deepEqual(
      smallObjectsOf(record()).map(({ kind }) => kind),
      ["tree", "names", "owner-map", "environment", "attachment"],
    );
    assert.deepEqual(reliedOn(record(), [leaf("a", hash("a"))]), [
      hash("1"),
      hash("2"),
      hash("3"),
      hash("4"),
      hash("5"),
      hash("a"),
    ]);
  });
});
