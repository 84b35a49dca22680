/** Signatures of relatives have much in common, those of strangers nothing; a look-up does not grow with the index. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { contentCandidates, contentLimits } from "../../../../server/archive/content-candidates.js";
import type { ArchiveVersion, CandidateReference } from "../../../../server/archive/candidate-references.js";
import type { ArchiveTensor } from "../../../../server/archive/read-versions.js";
import {
  isSigned,
  SignatureBuilder,
  SignatureIndex,
  type Signature,
} from "../../../../server/archive/tensor-signature.js";
import { derive, type Derivation } from "../../../../shared/delta/derived/derivation.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash, Tensor } from "../../../../shared/tensor/tensor.js";
import { floatsOf, groups, inBytes, symmetric } from "../../../helpers/quantised-tensors.js";
import { fineTuned, weights } from "../../../helpers/related-tensors.js";
import { TreeTable } from "../../../../server/archive/tree-leaves.js";

const table = new TreeTable();
const leavesOf = table.leavesOf.bind(table);

function sign(tensor: Tensor, chunkBytes = tensor.bytes.length): Signature {
  const builder = new SignatureBuilder(tensor);
  for (let at = 0; at < tensor.bytes.length; at += chunkBytes)
    builder.update(tensor.bytes.subarray(at, at + chunkBytes));
  return builder.finish();
}

const base = weights([200, 80], 1);
const own = sign(base);
const child = (how: Partial<Derivation>): Tensor => derive([base], { averaged: 1, dtype: "F32", ...how });
const inCommon = (tensor: Tensor): number => sign(tensor).filter((hash) => own.includes(hash)).length;

test("relatives have many hashes in common, strangers none", () => {
  const rows = Array.from({ length: 60 }, (_, row) => ({ from: (row * 7) % 200, length: 1 }));
  const { codes } = symmetric(floatsOf(base), groups.rows(80), { divisor: 127, min: -127, max: 127 });
  const relatives: readonly (readonly [string, Tensor, number])[] = [
    ["a cast", child({ dtype: "BF16" }), 32],
    ["transposed", child({ axes: [1, 0] }), 32],
    ["scaled", child({ octaves: 3 }), 32],
    ["60 of 200 rows in another order", child({ taken: { axis: 0, runs: rows } }), 2],
    ["int8", inBytes("I8", [200, 80], codes), 8],
    ["fine-tuned", fineTuned(base, 1e-4, 2), 16],
  ];
  for (const [name, tensor, least] of relatives)
    assert.ok(inCommon(tensor) >= least, `${name}: ${inCommon(tensor)} in common`);
  for (let seed = 2; seed < 20; seed++) assert.equal(inCommon(weights([200, 80], seed)), 0);
  assert.deepEqual(inCommon({ ...base, bytes: base.bytes.map(() => 0) }), 0, "zeros are like nothing");
});

test("a signature does not depend on how the tensor is cut into chunks", () => {
  for (const chunkBytes of [1, 3, 320, 1000]) assert.deepEqual(sign(base, chunkBytes), own);
  assert.ok(!isSigned({ dtype: "F32", shape: [200] }) && !isSigned({ dtype: "F4", shape: [64, 64] }));
});

test("a look-up among 20,000 tensors takes no more steps than hashes and listed tensors", () => {
  const index = new SignatureIndex<number>();
  for (let id = 0; id < 20_000; id++)
    index.add(
      id,
      Array.from({ length: 8 }, (_, i) => (id % 10 === 0 ? i : 1000 + 8 * id + i)),
    );
  index.find(
    -1,
    Array.from({ length: 32 }, (_, i) => i),
    2,
  );
  assert.ok(index.steps <= 32 * 8, `${index.steps} steps`);
});

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
