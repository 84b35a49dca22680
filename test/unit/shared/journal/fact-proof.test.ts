/** Which proofs of a fact count, and what is read of a fact that was proven. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { checkFactProof, type FactProof } from "../../../../shared/journal/fact-proof.js";
import { logLeaf, toHash } from "../../../../shared/journal/merkle-log.js";
import { readProvenFact } from "../../../../shared/journal/proven-fact.js";
import { shortenHash } from "../../../../shared/journal/short-hash.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { wholeTree } from "../../../helpers/whole-tree.js";

const facts = Array.from({ length: 11 }, (_, n) => `{"n":${n}}`);
const tree = wholeTree(facts.map((fact) => logLeaf(Buffer.from(fact))));
const other = sha256("other");

/** The proof of fact 3 in the first 7 of 11. */
const proof: FactProof = {
  position: 3,
  fact: facts[3]!,
  leaf: toHash(logLeaf(Buffer.from(facts[3]!))),
  log: { length: 7, root: tree.root(7) },
  inclusion: tree.inclusionProof(3, 7),
  head: { length: 11, root: tree.root(), chain: other, publicKey: "", signature: "" },
  consistency: tree.consistencyProof(7),
};
const refused = (change: Partial<FactProof>, why: RegExp) => {
  assert.throws(
    () => checkFactProof({ ...proof, ...change }),
    (error: Error & { readonly code?: string }) =>
      error.code === "JOURNAL_DIFFERS" && why.test(error.message),
    JSON.stringify(change),
  );
};

describe("the proof of a fact", () => {
  it("counts with the fact, and without one that is a secret", () => {
    checkFactProof(proof);
    checkFactProof({ ...proof, fact: null });
  });

  it("does not count for another fact, place, journal or head", () => {
    refused({ fact: facts[4]! }, /its hash is another/);
    refused({ fact: `${facts[3]!} ` }, /its hash is another/);
    refused({ fact: null, leaf: other }, /is not in the journal/);
    refused({ position: 4 }, /is not in the journal/);
    refused({ inclusion: [] }, /is not in the journal/);
    refused({ log: { ...proof.log, root: other } }, /is not in the journal/);
    refused({ head: { ...proof.head, root: other } }, /is not the start of the signed one/);
    refused({ head: { ...proof.head, length: 6 } }, /is not the start of the signed one/);
    refused({ consistency: [] }, /is not the start of the signed one/);
  });
});

describe("a proven fact", () => {
  const versionId = shortenHash(other);
  const read = (fact: unknown) => readProvenFact(Buffer.from(JSON.stringify(fact)));

  it("says which version was recorded, and whether its tensors are there", () => {
    const fact = { type: "recorded", versionId, name: "soh", version: 0 };
    const content = { type: "recorded", versionId: other, name: "soh", version: 0 };
    assert.deepEqual(read(fact), { ...content, isClaim: false });
    assert.deepEqual(read({ ...fact, claim: true }), { ...content, isClaim: true });
    assert.deepEqual(read({ ...fact, claim: "true" }), { ...content, isClaim: false });
    for (const change of [
      { versionId: "x" },
      { name: 1 },
      { version: -1 },
      { version: 0.5 },
      { type: "stored" },
    ])
      assert.equal(read({ ...fact, ...change }), undefined, JSON.stringify(change));
  });

  it("says from where on facts may be lost, also from the first", () => {
    for (const position of [0, 7])
      assert.deepEqual(read({ type: "restored", position }), { type: "restored", position });
    for (const position of [-1, 0.5, "0", null, 2 ** 53])
      assert.equal(read({ type: "restored", position }), undefined, String(position));
  });

  it("is not what other bytes are", () => {
    for (const value of [null, 7, "recorded", []]) assert.equal(read(value), undefined);
    assert.equal(readProvenFact(Buffer.from("{")), undefined);
    const text = Buffer.from(JSON.stringify({ type: "restored", position: 1, x: "?" }));
    text[text.indexOf("?")] = 0xff;
    assert.equal(readProvenFact(text), undefined, "not UTF-8");
  });
});
