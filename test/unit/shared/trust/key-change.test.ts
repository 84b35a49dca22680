// Changes of a server's key lead from a key that is trusted to the present one, and nobody else's do.
import assert from "node:assert/strict";
import { test } from "node:test";
import { pinnedKeys } from "../../../../shared/trust/enrolment.js";
import {
  followKeyChanges,
  isKeyChangeSigned,
  keyChangesSchema,
  maxKeyChanges,
  signKeyChange,
} from "../../../../shared/trust/key-change.js";
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

test("changes are read as they were signed, at any time since 1970, and at most 64", () => {
  const changes = [signKeyChange(a, b, { atMs: 0 }), signKeyChange(b, c, { atMs: Date.UTC(2030, 0, 1) })];
  assert.deepEqual(keyChangesSchema.parse(changes), changes);
  const many = (count: number) => Array.from({ length: count }, () => first);
  assert.ok(keyChangesSchema.safeParse(many(maxKeyChanges)).success);
  assert.ok(!keyChangesSchema.safeParse(many(maxKeyChanges + 1)).success);
  for (const changed of [{ atMs: -1 }, { atMs: 0.5 }, { to: "x" }, { signature: "" }, { more: 1 }])
    assert.ok(!keyChangesSchema.safeParse([{ ...first, ...changed }]).success, JSON.stringify(changed));
});

test("a device keeps the newest key and each former one once; without former ones no list of them", () => {
  assert.deepEqual(pinnedKeys(followKeyChanges(a.publicKey, [])), { serverPublicKey: a.publicKey });
  assert.deepEqual(pinnedKeys(followKeyChanges(b.publicKey, [first, second]), [a.publicKey, b.publicKey]), {
    serverPublicKey: c.publicKey,
    formerServerKeys: [a.publicKey, b.publicKey],
  });
});
