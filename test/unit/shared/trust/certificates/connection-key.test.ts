/** Keys of connections: which key follows from which bytes, and what a key is named by. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { it } from "node:test";
import {
  connectionKeyHash,
  connectionKeyOf,
  generateConnectionKey,
  publicKeyInfo,
} from "../../../../../shared/trust/certificates/connection-key.js";

const scalarOf = (bytes: Uint8Array): bigint => {
  const { d = "" } = connectionKeyOf(bytes).export({ format: "jwk" });
  return BigInt(`0x${Buffer.from(d, "base64url").toString("hex")}`);
};
const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
const bytesOf = (number: bigint): Uint8Array => Buffer.from(number.toString(16).padStart(80, "0"), "hex");

it("a key follows from random bytes as FIPS 186-5, A.2.1 says: from 1 to the order less 1", () => {
  for (const [number, scalar] of [
    [0n, 1n],
    [6n, 7n],
    [order - 2n, order - 1n],
    [order - 1n, 1n],
    [order * 3n, 4n],
  ] as const)
    assert.equal(scalarOf(bytesOf(number)), scalar, `${number}`);
  assert.throws(() => connectionKeyOf(new Uint8Array(39)), { code: "INTERNAL" });
  // The base point, whose scalar is 1 (SP 800-186).
  const { x = "" } = connectionKeyOf(new Uint8Array(40)).export({ format: "jwk" });
  assert.equal(
    Buffer.from(x, "base64url").toString("hex"),
    "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296",
  );
});

it("a key is named by a hash of its public half in a domain of its own", () => {
  const info = publicKeyInfo(generateConnectionKey());
  const hash = createHash("sha256").update("stemma-connection-key-1\0").update(info).digest("hex");
  assert.equal(connectionKeyHash(info), hash);
  assert.notEqual(connectionKeyHash(publicKeyInfo(generateConnectionKey())), hash);
});
