/**
 * P-256 keys of TLS connections (FIPS 186-5), as PKCS #8 in PEM, and the hash by which a public key is named.
 */
import {
  createECDH,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
} from "node:crypto";
import { StemmaError } from "../../errors.js";
import { sha256 } from "../../tensor/hash.js";

const curve = "prime256v1";
/** Order of the group of P-256 (SP 800-186, 3.2.1.3). */
const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;

/** A new private key, PEM. */
export function generateConnectionKey(): string {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: curve });
  return privateKey.export({ type: "pkcs8", format: "pem" }) as string;
}

/**
 * The private key that follows from random bytes (FIPS 186-5, A.2.1: 64 bits more than the order has).
 * @param bytes 40 or more
 */
export function connectionKeyOf(bytes: Uint8Array): KeyObject {
  if (bytes.length < 40) throw new StemmaError("INTERNAL", "A P-256 key needs at least 40 random bytes.");
  const scalar = (BigInt(`0x${Buffer.from(bytes).toString("hex")}`) % (order - 1n)) + 1n;
  const d = Buffer.from(scalar.toString(16).padStart(64, "0"), "hex");
  const pair = createECDH(curve);
  pair.setPrivateKey(d);
  const point = pair.getPublicKey();
  const text = (part: Buffer): string => part.toString("base64url");
  return createPrivateKey({
    format: "jwk",
    key: { kty: "EC", crv: "P-256", d: text(d), x: text(point.subarray(1, 33)), y: text(point.subarray(33)) },
  });
}

/** SubjectPublicKeyInfo, DER, of a private key. */
export function publicKeyInfo(privateKey: KeyObject | string): Buffer {
  return createPublicKey(privateKey).export({ type: "spki", format: "der" });
}

/** H("stemma-connection-key-1\0" ‖ SubjectPublicKeyInfo), lower-case hex. */
export function connectionKeyHash(publicKey: Uint8Array): string {
  return sha256("stemma-connection-key-1\0", publicKey);
}
