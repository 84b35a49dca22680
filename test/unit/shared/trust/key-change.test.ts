// Changes of a server's key lead from a key that is trusted to the present one, and nobody else's do.
import assert from "node:assert/strict";
import { test } from "node:test";
import { followKeyChanges, isKeyChangeSigned, signKeyChange } from "../../../../shared/trust/key-change.js";
import { generateKey } from "../../../../shared/trust/keys.js";
import { seededRandom } from "../../../helpers/manual-clock.js";

const random = seededRandom("keys");
const [a, b, c, thief] = [0, 1, 2, 3].map(() => generateKey(random)) as [
  ReturnType<typeof generateKey>,
  ReturnType<typeof generateKey>,
  ReturnType<typeof generateKey>,
  ReturnType<typeof generateKey>,
];
const first = signKeyChange(a, b, { atMs: 1 });
const second = signKeyChange(b, c, { atMs: 2 });

test("each earlier key leads to the newest", () => {
  assert.deepEqual(followKeyChanges(a.publicKey, [first, second]), {
    publicKey: c.publicKey,
    before: [a.publicKey, b.publicKey],
  });
  assert.equal(followKeyChanges(b.publicKey, [first, second]).publicKey, c.publicKey);
  assert.deepEqual(followKeyChanges(c.publicKey, [first, second]), {
    publicKey: c.publicKey,
    before: [],
  });
});

test("a gap, another order and a foreign change lead nowhere", () => {
  assert.equal(followKeyChanges(a.publicKey, [second]).publicKey, a.publicKey);
  assert.equal(followKeyChanges(a.publicKey, [second, first]).publicKey, b.publicKey);
  const foreign = signKeyChange(thief, thief, { atMs: 1 });
  assert.equal(
    followKeyChanges(a.publicKey, [foreign, { ...foreign, from: a.publicKey }]).publicKey,
    a.publicKey,
  );
});

test("every member is signed, by both keys", () => {
  assert.ok(isKeyChangeSigned(first));
  for (const changed of [
    { ...first, atMs: 2 },
    { ...first, to: thief.publicKey },
    { ...first, from: thief.publicKey },
    { ...first, signature: second.signature },
    // A key that is not the signer's: its owner has not agreed.
    { ...first, proof: signKeyChange(a, thief, { atMs: 1 }).proof },
    { ...first, signature: first.proof },
  ])
    assert.ok(!isKeyChangeSigned(changed));
});
