/** Relatives by content are looked for where lineage leads nowhere, in a bounded number of tensors. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  contentCandidates,
  contentLimits,
} from "../../../../../server/storage/archive/content-candidates.js";
import type {
  ArchiveVersion,
  CandidateReference,
} from "../../../../../server/storage/archive/candidate-references.js";
import type { ArchiveTensor } from "../../../../../server/storage/archive/read-versions.js";
import { TreeTable } from "../../../../../server/storage/archive/tree-leaves.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { weights } from "../../../../helpers/related-tensors.js";

const table = new TreeTable();
const leavesOf = table.leavesOf.bind(table);
const base = weights([200, 80], 1);

test("of 20,000 versions none is read where lineage is enough, and a bounded number where it is not", async () => {
  const id = (name: string): Hash => sha256(name);
  const versions: ArchiveVersion[] = [];
  const tensors = new Map<Hash, ArchiveTensor>();
  const candidates = new Map<Hash, readonly CandidateReference[]>();
  const header = { dtype: base.dtype, shape: base.shape };
  const current = { code: 0, depth: 0, storedBytes: base.bytes.length };
  for (let v = 0; v < 20_000; v++) {
    const tensor = id(`t${v}`);
    tensors.set(tensor, { id: tensor, header, byteLength: base.bytes.length, current });
    candidates.set(tensor, [
      { to: tensor, from: id(`t${v ^ 1}`), relation: v === 0 ? "descendant" : "ancestor" },
    ]);
    versions.push({
      versionId: id(`v${v}`),
      label: `m:${v}`,
      bases: [],
      series: `line ${v % 100}`,
      position: v,
      architecture: id("a"),
      leaves: leavesOf([{ path: "w", name: "w", tensor }]),
    });
  }
  let read = 0;
  const open = (): never =>
    ({
      ...header,
      byteLength: base.bytes.length,
      async *chunks() {
        read++;
        yield await Promise.resolve(base.bytes);
      },
    }) as never;
  const search = { versions, tensors, candidates, open, shouldYield: () => false };
  assert.equal((await contentCandidates(search)).size, 0);
  assert.equal(read, 0);
  candidates.delete(id("t19999"));
  const found = await contentCandidates(search);
  assert.equal(read, 101, "the newest of each line, and the first of all");
  assert.equal(found.size, 1);
  assert.ok(found.get(id("t19999"))!.length <= 8);
  read = 0;
  await contentCandidates({
    ...search,
    limits: { ...contentLimits, tensors: 10 },
  });
  assert.equal(read, 10);
});
