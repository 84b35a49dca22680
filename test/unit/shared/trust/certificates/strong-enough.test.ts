/** Which keys and signatures certificates may have. */
import assert from "node:assert/strict";
import { createHash, generateKeyPairSync } from "node:crypto";
import { it } from "node:test";
import {
  signatureHashes,
  whyWeakKey,
  whyWeakSignature,
} from "../../../../../shared/trust/certificates/strong-enough.js";

it("takes the three NIST curves and RSA from 2048 bits on", () => {
  const ofCurve = (namedCurve: string) => generateKeyPairSync("ec", { namedCurve }).publicKey;
  const ofBits = (modulusLength: number) => generateKeyPairSync("rsa", { modulusLength }).publicKey;
  for (const curve of ["prime256v1", "secp384r1", "secp521r1"])
    assert.equal(whyWeakKey(ofCurve(curve)), undefined, curve);
  for (const curve of ["secp256k1", "secp224r1"])
    assert.notEqual(whyWeakKey(ofCurve(curve)), undefined, curve);
  assert.notEqual(whyWeakKey(generateKeyPairSync("ed25519").publicKey), undefined);
  assert.equal(whyWeakKey(ofBits(2048)), undefined);
  assert.notEqual(whyWeakKey(ofBits(2040)), undefined);
});

it("takes ECDSA and RSA with SHA-256, SHA-384 and SHA-512, each by its own hash", () => {
  const bits = (id: string) => 8 * createHash(signatureHashes.get(id) ?? "").digest().length;
  for (const [id, expected] of [
    ["1.2.840.10045.4.3.2", 256],
    ["1.2.840.10045.4.3.3", 384],
    ["1.2.840.10045.4.3.4", 512],
    ["1.2.840.113549.1.1.11", 256],
    ["1.2.840.113549.1.1.12", 384],
    ["1.2.840.113549.1.1.13", 512],
  ] as const) {
    assert.equal(whyWeakSignature(id), undefined, id);
    assert.equal(bits(id), expected, id);
  }
  // ECDSA and RSA with SHA-1, RSA with MD5, RSASSA-PSS.
  for (const id of [
    "1.2.840.10045.4.1",
    "1.2.840.113549.1.1.5",
    "1.2.840.113549.1.1.4",
    "1.2.840.113549.1.1.10",
  ])
    assert.notEqual(whyWeakSignature(id), undefined, id);
});
