/** A fleet's metadata of releases in parts: it counts once all are there, and only as what was announced. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { partsOf, SetCollector } from "../../../../../shared/trust/releases/release-set.js";
import { maxRoots, type MetadataSet } from "../../../../../shared/trust/releases/trusted-releases.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import { maxReleaseParts, releasePartBytes } from "../../../../../shared/wire/limits.js";
import type { ReleasePart } from "../../../../../shared/wire/messages.js";

const setOf = (bytes: number): MetadataSet => ({
  roots: ["r"],
  timestamp: "t",
  snapshot: "s",
  targets: "x".repeat(bytes),
});
const invalid = { code: "RELEASE_METADATA_INVALID" };

describe("a set in parts", () => {
  it("is there once all its parts are, in whatever order, and not once more", () => {
    const set = setOf(3 * releasePartBytes);
    const [first, ...others] = partsOf(set).toReversed() as [ReleasePart, ...ReleasePart[]];
    assert.ok(others.length > 2);
    assert.equal(first.type, "releasePart");
    const collector = new SetCollector();
    assert.equal(collector.take(first), undefined);
    assert.equal(collector.take(first), undefined, "the same part twice");
    for (const part of others.slice(0, -1)) assert.equal(collector.take(part), undefined);
    assert.deepEqual(collector.take(others.at(-1)!), { id: first.set, set });
    for (const part of [first, ...others.slice(0, -1)])
      assert.equal(collector.take(part), undefined, "it begins anew");
    assert.deepEqual(collector.take(others.at(-1)!)?.set, set);
  });

  it("begins anew with a part of another set, and after a connection", () => {
    const [one, two] = partsOf(setOf(releasePartBytes)) as [ReleasePart, ReleasePart];
    const [other] = partsOf(setOf(releasePartBytes + 1)) as [ReleasePart];
    const collector = new SetCollector();
    collector.take(one);
    collector.take(other);
    assert.equal(collector.take(two), undefined);
    collector.clear();
    assert.equal(collector.take(one), undefined);
    assert.ok(collector.take(two) !== undefined);
  });

  it("is refused where it is not what was announced, and nothing of it is kept", () => {
    const [one, two] = partsOf(setOf(releasePartBytes)) as [ReleasePart, ReleasePart];
    const collector = new SetCollector();
    collector.take(one);
    const changed = { ...two, data: two.data.map((byte) => byte ^ 1) };
    assert.throws(() => collector.take(changed), invalid);
    assert.equal(collector.take(two), undefined);
    // A whole set under the name of another one.
    const [whole] = partsOf(setOf(1)) as [ReleasePart];
    assert.throws(() => collector.take({ ...whole, set: one.set }), invalid);
    const data = Buffer.from("{}");
    assert.throws(
      () => collector.take({ type: "releasePart", set: sha256(data), part: 0, parts: 1, data }),
      invalid,
    );
  });

  it("has at most as many parts as are taken, and no roots that nobody follows", () => {
    const part = { ...(partsOf(setOf(1)) as [ReleasePart])[0] };
    const collector = new SetCollector();
    assert.equal(collector.take({ ...part, part: maxReleaseParts - 1, parts: maxReleaseParts }), undefined);
    for (const [at, parts] of [
      [0, 0],
      [1, 1],
      [0, maxReleaseParts + 1],
    ] as const)
      assert.throws(() => collector.take({ ...part, part: at, parts }), invalid);
    const overhead = JSON.stringify(setOf(0)).length;
    const most = maxReleaseParts * releasePartBytes - overhead;
    assert.equal(partsOf(setOf(most)).length, maxReleaseParts);
    assert.throws(() => partsOf(setOf(most + 1)), invalid);
    const roots = Array.from({ length: maxRoots + 2 }, (_, at) => `root ${at}`);
    const [only] = partsOf({ ...setOf(1), roots }) as [ReleasePart];
    assert.deepEqual(collector.take(only)?.set.roots, roots.slice(2));
  });
});
