/**
 * The RFC 6962 tree: every leaf of every log has a proof, and every log has one that it starts each longer one;
 * both hold for nothing else. The vectors are from the reference tests of certificate-transparency; the naive
 * tree follows the definitions of RFC 6962 sections 2.1 to 2.1.2 word by word.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import {
  emptyRoot,
  logLeaf,
  logNode,
  verifyConsistency,
  verifyInclusion,
} from "../../../../shared/journal/merkle-log.js";
import { MerkleTree, Subtree } from "../../../../shared/journal/merkle-tree.js";
import { wholeTree } from "../../../helpers/whole-tree.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

const vectorEntries = [
  "",
  "00",
  "10",
  "2021",
  "3031",
  "40414243",
  "5051525354555657",
  "606162636465666768696a6b6c6d6e6f",
].map((hex) => Buffer.from(hex, "hex"));
const vectorRoots = [
  "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
  "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
  "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
  "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
  "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
  "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
  "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
  "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
] as Hash[];
const leaf0 = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d";
const leaf1 = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7";
const leaf4 = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b";
const leaf5 = "4271a26be0d8a84f0bd54c8c302e7cb3a3b5d1fa6780a40bcce2873477dab658";
const node01 = vectorRoots[1] as Hash;
const node23 = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e";
const node45 = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a";
const node67 = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0";
const node0123 = vectorRoots[3] as Hash;
const node4567 = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4";

const toHash = (bytes: Uint8Array): Hash => Buffer.from(bytes).toString("hex") as Hash;
const zeros = "0".repeat(64) as Hash;

const treeOf = (leaves: readonly Uint8Array[]): MerkleTree => wholeTree(leaves);
const leavesOf = (length: number, salt = 0): Uint8Array[] =>
  Array.from({ length }, (_, i) => logLeaf(new Uint8Array([i & 255, i >> 8, salt])));

/** The definitions of RFC 6962. */
const naive = {
  split(n: number): number {
    let k = 1;
    while (k * 2 < n) k *= 2;
    return k;
  },
  root(d: readonly Uint8Array[]): Uint8Array {
    if (d.length === 1) return d[0] as Uint8Array;
    const k = naive.split(d.length);
    return logNode(naive.root(d.slice(0, k)), naive.root(d.slice(k)));
  },
  path(m: number, d: readonly Uint8Array[]): Uint8Array[] {
    if (d.length === 1) return [];
    const k = naive.split(d.length);
    return m < k
      ? [...naive.path(m, d.slice(0, k)), naive.root(d.slice(k))]
      : [...naive.path(m - k, d.slice(k)), naive.root(d.slice(0, k))];
  },
  subproof(m: number, d: readonly Uint8Array[], isComplete: boolean): Uint8Array[] {
    if (m === d.length) return isComplete ? [] : [naive.root(d)];
    const k = naive.split(d.length);
    return m <= k
      ? [...naive.subproof(m, d.slice(0, k), isComplete), naive.root(d.slice(k))]
      : [...naive.subproof(m - k, d.slice(k), false), naive.root(d.slice(0, k))];
  },
};

describe("certificate-transparency's test vectors", () => {
  const tree = treeOf(vectorEntries.map(logLeaf));

  it("have these roots", () => {
    assert.equal(emptyRoot, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert.equal(tree.root(0), emptyRoot);
    vectorRoots.forEach((root, i) => {
      assert.equal(tree.root(i + 1), root);
    });
  });
  it("have these inclusion proofs", () => {
    const vectors: readonly (readonly [position: number, length: number, proof: readonly string[]])[] = [
      [0, 1, []],
      [0, 8, [leaf1, node23, node4567]],
      [5, 8, [leaf4, node67, node0123]],
      [2, 3, [node01]],
      [1, 5, [leaf0, node23, leaf4]],
    ];
    for (const [position, length, proof] of vectors) {
      assert.deepEqual(tree.inclusionProof(position, length), proof);
      const leaf = logLeaf(vectorEntries[position] as Uint8Array);
      const root = vectorRoots[length - 1] as Hash;
      assert.ok(verifyInclusion({ leaf, position, length, proof: proof as Hash[], root }));
    }
  });
  it("have these consistency proofs", () => {
    const vectors: readonly (readonly [from: number, to: number, proof: readonly string[]])[] = [
      [1, 1, []],
      [1, 8, [leaf1, node23, node4567]],
      [6, 8, [node45, node67, node0123]],
      [2, 5, [node23, leaf4]],
      [6, 7, [node45, toHash(logLeaf(vectorEntries[6] as Uint8Array)), node0123]],
      [5, 6, [leaf4, leaf5, node0123]],
    ];
    for (const [from, to, proof] of vectors) {
      assert.deepEqual(tree.consistencyProof(from, to), proof);
      assert.ok(
        verifyConsistency({
          from: { length: from, root: vectorRoots[from - 1] as Hash },
          to: { length: to, root: vectorRoots[to - 1] as Hash },
          proof: proof as Hash[],
        }),
      );
    }
  });
});

it("proves exactly the leaves that are there", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 140 }),
      fc.nat(),
      fc.nat(),
      fc.nat(),
      (length, at, elsewhere, change) => {
        const leaves = leavesOf(length);
        const position = at % length;
        const leaf = leaves[position] as Uint8Array;
        const tree = treeOf([...leaves, ...leavesOf(elsewhere % 40, 1)]);
        const proof = tree.inclusionProof(position, length);
        assert.deepEqual(proof, naive.path(position, leaves).map(toHash));
        assert.equal(tree.root(length), toHash(naive.root(leaves)));
        const inclusion = { leaf, position, length, proof, root: tree.root(length) };
        assert.ok(verifyInclusion(inclusion));
        if (elsewhere % length !== position)
          assert.ok(!verifyInclusion({ ...inclusion, position: elsewhere % length }));
        assert.ok(!verifyInclusion({ ...inclusion, proof: [...proof, toHash(leaf)] }));
        if (proof.length === 0) return;
        assert.ok(!verifyInclusion({ ...inclusion, proof: proof.slice(1) }));
        assert.ok(!verifyInclusion({ ...inclusion, proof: proof.with(change % proof.length, zeros) }));
      },
    ),
  );
});

it("proves that a log starts each longer one, and no other", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 140 }), fc.nat(), fc.nat(), (length, start, change) => {
      const leaves = leavesOf(length);
      const tree = treeOf(leaves);
      const from = start % (length + 1);
      const proof = tree.consistencyProof(from);
      if (from > 0) assert.deepEqual(proof, naive.subproof(from, leaves, true).map(toHash));
      const consistency = {
        from: { length: from, root: tree.root(from) },
        to: { length, root: tree.root() },
        proof,
      };
      assert.ok(verifyConsistency(consistency));
      assert.ok(!verifyConsistency({ ...consistency, proof: [...proof, zeros] }), "too long");
      assert.ok(!verifyConsistency({ ...consistency, from: { length: from, root: zeros } }));
      if (from > 0) assert.ok(!verifyConsistency({ ...consistency, to: { length, root: zeros } }));
      // Another history: one of the first `from` leaves differs.
      if (from > 0) {
        const other = treeOf(leaves.with(change % from, logLeaf(new Uint8Array([9]))));
        const to = { length, root: other.root() };
        assert.ok(!verifyConsistency({ ...consistency, to, proof: other.consistencyProof(from) }));
      }
      if (proof.length === 0) return;
      assert.ok(!verifyConsistency({ ...consistency, proof: proof.slice(1) }), "too short");
      assert.ok(!verifyConsistency({ ...consistency, proof: proof.with(change % proof.length, zeros) }));
      // A proof for other sizes.
      for (const other of [from - 1, from + 1])
        if (other >= 0 && other < length)
          assert.ok(!verifyConsistency({ ...consistency, from: { length: other, root: tree.root(from) } }));
    }),
  );
});

it("refuses lengths that cannot be", () => {
  const tree = treeOf(leavesOf(5));
  const five = { length: 5, root: tree.root() };
  const refused = [-1, 1.5, NaN, 6, 2 ** 60].map((length) => ({ length, root: five.root }));
  for (const from of refused) assert.ok(!verifyConsistency({ from, to: five, proof: [] }));
  for (const to of refused) if (to.length !== 6) assert.ok(!verifyConsistency({ from: five, to, proof: [] }));
  // The only leaf of a log of one is at place 0, and has an empty proof.
  const [leaf] = leavesOf(1) as [Uint8Array];
  const one = { leaf, position: 0, length: 1, proof: [], root: toHash(leaf) };
  assert.ok(verifyInclusion(one));
  for (const position of [-1, 0.5, 1, 2, NaN, 2 ** 60]) assert.ok(!verifyInclusion({ ...one, position }));
  for (const length of [0, -1, 0.5, 1.5, NaN, Infinity, 2 ** 60])
    assert.ok(!verifyInclusion({ ...one, length }));
  for (const { length } of refused) {
    assert.throws(() => tree.consistencyProof(length), RangeError);
    assert.throws(() => tree.inclusionProof(length), RangeError);
  }
  assert.ok(!verifyConsistency({ from: { length: 0, root: zeros }, to: five, proof: [] }));
});

it("is the same where only the roots of its first subtrees were given", () => {
  const leaves = leavesOf(70);
  const expected = treeOf(leaves);
  for (const level of [1, 2, 3, 6])
    for (let given = 0; given <= 70 >> level; given++) {
      const subtreeAt = (index: number): Subtree => {
        const subtree = new Subtree(level);
        for (const leaf of leaves.slice(index << level, (index + 1) << level)) subtree.append(leaf);
        return subtree;
      };
      const tree = new MerkleTree({ level, subtreeAt });
      for (let index = 0; index < given; index++) tree.appendSubtree(subtreeAt(index).node(level, 0));
      for (const leaf of leaves.slice(given << level)) tree.append(leaf);
      for (const length of [1, 9, 64, 69, 70]) {
        assert.equal(tree.root(length), expected.root(length), `${given} of level ${level}`);
        assert.deepEqual(
          tree.inclusionProof(length - 1, length),
          expected.inclusionProof(length - 1, length),
        );
        assert.deepEqual(tree.consistencyProof(length), expected.consistencyProof(length));
      }
    }
});

it("computes few hashes for each proof, however long the log is", () => {
  let hashes = 0;
  const length = 20_011;
  const tree = wholeTree(leavesOf(length), {
    combine: (left, right) => {
      hashes++;
      return logNode(left, right);
    },
  });
  assert.ok(hashes < length, `${hashes} hashes for ${length} leaves`);
  let most = 0;
  for (let i = 0; i < 400; i++) {
    const from = (i * 7919) % length;
    const before = hashes;
    tree.consistencyProof(from);
    tree.inclusionProof(from);
    tree.root(from);
    most = Math.max(most, hashes - before);
  }
  assert.ok(most < 100, `${most} hashes for two proofs and a root`);
});
