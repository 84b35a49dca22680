/** Reference counts over versions: which objects a collection must keep. */
import assert from "node:assert/strict";
import { it } from "node:test";
import type { SaveRecord } from "../../../../shared/model/model.js";
import { referencesOf, type ReferringVersion } from "../../../../shared/objects/references.js";
import { smallObjectsOf } from "../../../../shared/model/record-objects.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

const hash = (name: string): Hash => sha256(name);
const objects = (more: Partial<SaveRecord["objects"]> = {}): SaveRecord["objects"] => ({
  tree: hash("tree"),
  names: hash("names"),
  ownerMap: hash("owner map"),
  environment: hash("environment"),
  ...more,
});
const kept = (
  versionId: string,
  tensors: readonly string[],
  more?: Partial<SaveRecord["objects"]>,
): ReferringVersion => ({
  state: "kept",
  versionId: hash(versionId),
  record: { objects: objects(more) },
  leaves: tensors.map((name) => ({ tensor: hash(name) })),
  dataChunks: [],
});
const base = ["tree", "names", "owner map", "environment"];

it("counts everything a record names, and every tensor of its tree", () => {
  const all = {
    architecture: hash("architecture"),
    measurements: hash("measurements"),
    checkpoints: hash("checkpoints"),
    provenance: hash("provenance"),
    metadata: hash("metadata"),
    attachments: [
      { name: "a", hash: hash("file a") },
      { name: "b", hash: hash("file b") },
    ],
  };
  const version = kept("v1", ["t1", "t2", "t1"], all);
  assert.deepEqual(
    new Set(referencesOf(version)),
    new Set(
      [
        "v1",
        "t1",
        "t2",
        ...base,
        "architecture",
        "measurements",
        "checkpoints",
        "provenance",
        "metadata",
        "file a",
        "file b",
      ].map(hash),
    ),
  );
  assert.equal(smallObjectsOf({ objects: objects(all) }).length, 11);
  assert.deepEqual(
    smallObjectsOf({ objects: objects() }).map(({ kind }) => kind),
    ["tree", "names", "owner-map", "environment"],
  );
});

it("keeps the record of a retired version, and those of its tensors that others inherit", () => {
  const versions: ReferringVersion[] = [
    { state: "retired", versionId: hash("v1") },
    kept("v2", ["inherited", "own"]),
    kept("v3", ["inherited"]),
  ];
  const needed = versions.map(referencesOf);
  assert.deepEqual(
    new Set(needed.flatMap((ids) => [...ids])),
    new Set(["v1", "v2", "v3", "inherited", "own", ...base].map(hash)),
  );
  const versionsThatNeed = (name: string): number => needed.filter((ids) => ids.has(hash(name))).length;
  assert.equal(versionsThatNeed("inherited"), 2);
  assert.equal(versionsThatNeed("own"), 1);
  assert.equal(versionsThatNeed("gone with v1"), 0);
});
