/** What the server requests next for an announced version: bases, small objects, then missing tensors. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { DeclaredSizes } from "../../../../../server/fleet/ingest/uploads/announcement.js";
import { needsOf, reliedOn, type NeedsView } from "../../../../../server/fleet/ingest/uploads/needs.js";
import { smallObjectsOf } from "../../../../../shared/model/record-objects.js";
import type { Leaf, SaveRecord } from "../../../../../shared/model/model.js";
import { zeroHash } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const hash = (digits: string): Hash => digits.repeat(64).slice(0, 64) as Hash;
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
const declared = (tensorBytes: number, more: Partial<DeclaredSizes> = {}): DeclaredSizes => ({
  tensorBytes,
  usesTensorBytes: 0,
  streamed: new Map(),
  ...more,
});
const view = (more: Partial<NeedsView> = {}): NeedsView => ({
  record: record(),
  isProven: () => false,
  isHeld: () => true,
  base: () => "known",
  trees: [[leaf("a", hash("a")), leaf("b", hash("b"))]],
  withoutBase: false,
  isClaim: false,
  ...more,
});

describe("what the server needs next", () => {
  it("is an unknown base first, unless no device has it", () => {
    const child = view({
      record: record([hash("d"), hash("e")]),
      base: (id) => (id === hash("e") ? "unknown" : "known"),
      isHeld: () => false,
      trees: undefined,
    });
    assert.deepEqual(needsOf(child, declared(32), limits), { step: "bases", bases: [hash("e")] });
    assert.equal(needsOf({ ...child, withoutBase: true }, declared(32), limits).step, "objects");
  });

  it("is the small objects that are neither in memory nor provably had, each once, sizes unknown", () => {
    const needs = needsOf(
      view({ isHeld: (id) => id === hash("1"), isProven: (id) => id === hash("2"), trees: undefined }),
      declared(32),
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
    const needs = needsOf(
      view({ trees: [leaves], isProven: (id) => id === hash("b") }),
      declared(56),
      limits,
    );
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
        declared(32),
        limits,
      );
      assert.equal(needs.step === "tensors" && needs.reason, "raw");
    }
  });

  it("is nothing if everything is stored", () => {
    assert.deepEqual(needsOf(view({ isProven: () => true }), declared(32), limits), { step: "commit" });
  });

  it("is a refusal if the tree is unreadable, too large, has too many tensors, or differs from the declaration", () => {
    const code = (needs: ReturnType<typeof needsOf>): string =>
      needs.step === "refuse" ? needs.code : needs.step;
    assert.equal(code(needsOf(view({ trees: undefined }), declared(32), limits)), "ANNOUNCE_INVALID");
    assert.equal(
      code(needsOf(view({ trees: [[leaf("a", hash("a"), 251)]] }), declared(1004), limits)),
      "SIZE_OVER_LIMIT",
    );
    assert.equal(
      code(
        needsOf(
          view({ trees: [Array.from({ length: 11 }, (_, at) => leaf(String(at), hash("a"), 1))] }),
          declared(44),
          limits,
        ),
      ),
      "SIZE_OVER_LIMIT",
    );
    assert.equal(code(needsOf(view(), declared(31), limits)), "ANNOUNCE_INVALID");
  });

  describe("of what a record uses", () => {
    const used: SaveRecord = {
      ...record(),
      format: 2,
      uses: {
        engine: hash("c1"),
        recipe: hash("c2"),
        data: [hash("d1"), hash("d2")],
        optimizer: hash("e9"),
        checkpoints: [
          { iteration: 10, tree: hash("e1") },
          { iteration: 20, tree: hash("e2") },
        ],
      },
    };
    const trees = [
      [leaf("w", hash("a"))],
      [leaf("w", hash("a1")), leaf("v", hash("b"))],
      [leaf("w", hash("a2")), leaf("v", hash("b"))],
      [leaf("m", hash("a9")), leaf("w", hash("a"))],
    ];
    const sizes = declared(16, {
      usesTensorBytes: 96,
      streamed: new Map([
        [hash("d1"), 3_000_000_000],
        [hash("d2"), 0],
      ]),
    });

    it("is every tree first, never its code", () => {
      const needs = needsOf(view({ record: used, isHeld: () => false, trees: undefined }), sizes, limits);
      assert.equal(needs.step, "objects");
      const kinds = needs.step === "objects" ? needs.objects.map(({ kind }) => kind) : [];
      assert.equal(kinds.filter((kind) => kind === "tree").length, 4);
      assert.ok(!kinds.includes("engine") && !kinds.includes("recipe"));
    });

    it("is the model, the checkpoints from the last to the first, the optimizer, then what streams", () => {
      const needs = needsOf(view({ record: used, trees }), sizes, limits);
      assert.equal(needs.step, "tensors");
      if (needs.step !== "tensors") return;
      assert.deepEqual(needs.indices, [0, 3, 4, 1, 5]);
      assert.deepEqual(
        needs.objects.map(({ kind, id, byteLength }) => [kind, id, byteLength]),
        [
          ["tensor", hash("a"), 16],
          ["tensor", hash("a2"), 16],
          ["tensor", hash("b"), 16],
          ["tensor", hash("a1"), 16],
          ["tensor", hash("a9"), 16],
          ["data", hash("d1"), 3_000_000_000],
          ["data", hash("d2"), 0],
        ],
      );
      assert.equal(needs.bytes, 5 * 16 + 3_000_000_000);
    });

    it("is only what is not proven, and nothing where only the engine is missing", () => {
      const isProven = (id: Hash): boolean => id !== hash("d1") && id !== hash("c1");
      const needs = needsOf(view({ record: used, trees, isProven }), sizes, limits);
      assert.deepEqual(needs.step === "tensors" && [needs.indices, needs.objects.map(({ id }) => id)], [
        [],
        [hash("d1")],
      ]);
      const others = view({ record: used, trees, isProven: (id) => id !== hash("c1") });
      assert.deepEqual(needsOf(others, sizes, limits), { step: "commit" });
    });

    it("is a refusal where trees differ from the declared bytes, or have too many tensors together", () => {
      const wrong = needsOf(view({ record: used, trees }), { ...sizes, usesTensorBytes: 95 }, limits);
      assert.equal(wrong.step === "refuse" && wrong.code, "ANNOUNCE_INVALID");
      const many = needsOf(view({ record: used, trees }), sizes, { ...limits, maxTensors: 6 });
      assert.equal(many.step === "refuse" && many.code, "SIZE_OVER_LIMIT");
    });
  });

  it("depends on every small object and every tensor of the version", () => {
    assert.deepEqual(
      smallObjectsOf(record()).map(({ kind }) => kind),
      ["tree", "names", "owner-map", "environment", "attachment"],
    );
    assert.deepEqual(reliedOn(record(), [[leaf("a", hash("a"))]]), [
      hash("1"),
      hash("2"),
      hash("3"),
      hash("4"),
      hash("5"),
      hash("a"),
    ]);
  });
});
