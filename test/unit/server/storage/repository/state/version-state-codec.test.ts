/** A version's state is read from the index as it was written, whatever it has. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { versionStateCodec } from "../../../../../../server/storage/repository/state/version-state-codec.js";
import type { VersionState } from "../../../../../../server/storage/repository/state/version-state.js";
import { sha256 } from "../../../../../../shared/tensor/hash.js";
import { testSeed } from "../../../../../helpers/crash-states.js";

const count = fc.oneof(fc.nat(300), fc.maxSafeNat());
const text = fc.oneof(fc.string({ unit: "grapheme" }), fc.string({ unit: "binary" }));
const time = fc.oneof(
  fc.integer({ min: 1_790_000_000_000, max: 1_800_000_000_000 }),
  fc.double({ min: -8.64e15, max: 8.64e15, noNaN: true }).map((ms) => ms + 0),
);
const hash = fc.string().map((seed) => sha256(seed));
const plain = { noNullPrototype: true } as const;
const ended = fc.record({ atMs: time, because: text, by: text }, plain);
const state = fc.record(
  {
    versionId: hash,
    name: text,
    version: count,
    position: count,
    recordedAtMs: time,
    tensorBytes: count,
    ownBytes: count,
    generation: fc.option(count, { nil: undefined }),
    tags: fc.array(text).map((tags) => new Set(tags)),
    storedBytes: count,
    received: fc.constant(true),
    by: text,
    storedAtMs: time,
    released: fc.record({ atMs: time, because: text }, plain),
    retired: ended,
    hold: ended,
    dataDropped: ended,
    provedBy: fc.array(hash).map((ids) => new Set(ids)),
    evaluations: fc.array(fc.record({ object: hash, atMs: time }, plain)),
    claim: fc.record({ recordedAtMs: time, position: count, isProved: fc.boolean() }, plain),
  },
  {
    ...plain,
    requiredKeys: [
      ...(["versionId", "name", "version", "position", "recordedAtMs"] as const),
      ...(["tensorBytes", "ownBytes", "generation", "tags"] as const),
    ],
  },
) as fc.Arbitrary<VersionState>;

test("what was encoded is decoded", () => {
  fc.assert(
    fc.property(state, (version) => {
      assert.deepEqual(versionStateCodec.decode(versionStateCodec.encode(version)), version);
    }),
    { seed: testSeed() },
  );
});

test("a version that was released takes few bytes beside its id, its name and the reason", () => {
  const released: VersionState = {
    versionId: sha256("version"),
    name: "driving",
    version: 200,
    position: 30_000,
    recordedAtMs: 1_796_123_304_505,
    tensorBytes: 640_000,
    ownBytes: 640_000,
    generation: 1,
    tags: new Set(),
    storedAtMs: 1_796_123_304_700,
    released: { atMs: 1_796_123_305_000, because: "backed up" },
  };
  assert.ok(versionStateCodec.encode(released).length <= 32 + 7 + 9 + 32);
});
