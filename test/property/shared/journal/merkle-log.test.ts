/**
 * The RFC 6962 tree: every leaf of every log has a proof, which holds only for that leaf at that position. The
 * vectors are from the reference tests of certificate-transparency.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import {
  MerkleLog,
  inclusionProof,
  logLeaf,
  verifyInclusion,
} from "../../../../shared/journal/merkle-log.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

it("has the roots of certificate-transparency's test vectors", () => {
  const entries = [
    "",
    "00",
    "10",
    "2021",
    "3031",
    "40414243",
    "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
  ].map((hex) => Buffer.from(hex, "hex"));
  const roots = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
  ];
  const log = new MerkleLog();
  assert.equal(log.root(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  entries.forEach((entry, i) => {
    log.append(logLeaf(entry));
    assert.equal(log.root(), roots[i]);
  });
});

it("proves exactly the leaves that are there", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 70 }),
      fc.nat(),
      fc.nat(),
      fc.nat(),
      (length, at, elsewhere, change) => {
        const leaves = Array.from({ length }, (_, i) => logLeaf(new Uint8Array([i])));
        const log = new MerkleLog();
        for (const leaf of leaves) log.append(leaf);
        const position = at % length;
        const leaf = leaves[position] as Uint8Array;
        const proof = inclusionProof(leaves, position);
        assert.ok(proof.length <= Math.ceil(Math.log2(length)));
        const inclusion = { leaf, position, length, proof, root: log.root() };
        assert.ok(verifyInclusion(inclusion));
        if (elsewhere % length !== position)
          assert.ok(!verifyInclusion({ ...inclusion, position: elsewhere % length }));
        const tooLong = [...proof, Buffer.from(leaf).toString("hex") as Hash];
        assert.ok(!verifyInclusion({ ...inclusion, proof: tooLong }));
        if (proof.length === 0) return;
        assert.ok(!verifyInclusion({ ...inclusion, proof: proof.slice(1) }));
        const changed = [...proof];
        changed[change % proof.length] = "0".repeat(64) as Hash;
        assert.ok(!verifyInclusion({ ...inclusion, proof: changed }));
      },
    ),
  );
});
