/** Checks the strength of certificates' keys and signatures: 112 bits or more by NIST SP 800-57 (part 1, table 2). */
import type { KeyObject } from "node:crypto";

const curves: ReadonlySet<string> = new Set(["prime256v1", "secp384r1", "secp521r1"]);
const minRsaBits = 2048;

/** Object identifier → hash, for node:crypto (RFC 5758, 3.2; RFC 8017, A.2.4). */
export const signatureHashes: ReadonlyMap<string, string> = new Map([
  ["1.2.840.10045.4.3.2", "sha256"],
  ["1.2.840.10045.4.3.3", "sha384"],
  ["1.2.840.10045.4.3.4", "sha512"],
  ["1.2.840.113549.1.1.11", "sha256"],
  ["1.2.840.113549.1.1.12", "sha384"],
  ["1.2.840.113549.1.1.13", "sha512"],
]);

/** Returns why a key is weak; undefined where it is strong enough. */
export function whyWeakKey({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): string | undefined {
  if (asymmetricKeyType === "ec" && curves.has(asymmetricKeyDetails?.namedCurve ?? "")) return undefined;
  if (asymmetricKeyType !== "rsa") return "its key is not of P-256, P-384, P-521 or RSA";
  const bits = asymmetricKeyDetails?.modulusLength ?? 0;
  return bits < minRsaBits
    ? `its RSA key has ${bits} bits, and at least ${minRsaBits} are asked for`
    : undefined;
}

/** Returns why a signature's algorithm is weak; undefined where it is taken. @param id object identifier */
export function whyWeakSignature(id: string): string | undefined {
  return signatureHashes.has(id)
    ? undefined
    : `it is signed by an algorithm that is not taken here (${id}); ECDSA and RSA (PKCS #1) with SHA-256, SHA-384 or SHA-512 are`;
}
