/**
 * X.509 certificates of a release key (Ed25519, RFC 8410): its own, and those by which it certifies P-256 keys for
 * formats that know no Ed25519. They state keys and no names; they begin at a fixed time and have no end (RFC 5280,
 * 4.1.2.5), so the same key always has the same certificate, and no clock is needed. What is signed begins with the
 * tag of a SEQUENCE: it is never a signature of metadata, which is JSON. (docs/formats.md, "Attestations")
 */
import { createHash } from "node:crypto";
import { isSignatureValid, type Signer } from "../keys.js";
import { derTags, derValues, onlyDerValue } from "./der.js";
import { certificatesBeginMs } from "./verify-chain.js";
import { der, derObjectId } from "./write-der.js";

const { sequence, set, integer, bitString, octetString, utf8String, utcTime, generalizedTime } = derTags;
const ed25519 = der(sequence, derObjectId("1.3.101.112"));
const yes = Buffer.of(derTags.boolean, 1, 0xff);
/** Bits of a KeyUsage with the count of unused ones before them: digitalSignature, keyCertSign. */
const usages = { sign: Buffer.of(7, 0x80), certify: Buffer.of(2, 0x04) } as const;

interface Certified {
  /** SubjectPublicKeyInfo, DER. */
  readonly publicKey: Uint8Array;
  /** 64 characters at most: longest commonName (RFC 5280, A.1). */
  readonly name: string;
  readonly isAuthority: boolean;
}

/** The certificate of a release key, signed by itself, DER: the same bytes each time. @throws SIGNER_FAILED */
export function ownerCertificate(signer: Signer): Uint8Array {
  const publicKey = publicKeyInfoOf(signer.publicKey);
  return certificate(signer, { publicKey, name: signer.publicKey, isAuthority: true });
}

/**
 * Certifies a P-256 key for signatures of code, DER. Its name is the key's SHA-256.
 * @param publicKey SubjectPublicKeyInfo, DER
 * @throws SIGNER_FAILED
 */
export function certifyKey(signer: Signer, publicKey: Uint8Array): Uint8Array {
  const name = createHash("sha256").update(publicKey).digest("hex");
  return certificate(signer, { publicKey, name, isAuthority: false });
}

/** True if this release key signed the certificate, which may state anything. @throws CERTIFICATE_REFUSED */
export function isCertifiedBy(ownerKey: string, certificateDer: Uint8Array): boolean {
  const [signed, algorithm, signature] = derValues(onlyDerValue(certificateDer, sequence).content);
  if (signed === undefined || algorithm === undefined || signature?.tag !== bitString) return false;
  return (
    Buffer.from(algorithm.bytes).equals(ed25519) &&
    signature.content[0] === 0 &&
    isSignatureValid(ownerKey, signed.bytes, signature.content.subarray(1))
  );
}

/** The file of a certificate. */
export function pemOf(certificateDer: Uint8Array): string {
  const lines =
    Buffer.from(certificateDer)
      .toString("base64")
      .match(/.{1,64}/g) ?? [];
  return ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n");
}

function certificate(signer: Signer, { publicKey, name, isAuthority }: Certified): Uint8Array {
  const signed = der(
    sequence,
    der(0xa0, der(integer, Buffer.of(2))),
    der(integer, serialOf(publicKey)),
    ed25519,
    nameOf(signer.publicKey),
    der(sequence, beginning(), der(generalizedTime, Buffer.from("99991231235959Z"))),
    nameOf(name),
    publicKey,
    der(0xa3, der(sequence, ...extensionsOf(publicKey, publicKeyInfoOf(signer.publicKey), isAuthority))),
  );
  return der(sequence, signed, ed25519, der(bitString, Buffer.of(0), signer.sign(signed)));
}

/** A positive number of 16 bytes that follows from the key. */
function serialOf(publicKey: Uint8Array): Uint8Array {
  const bytes = createHash("sha256").update("stemma-certificate-serial-1\0").update(publicKey).digest();
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40;
  return bytes.subarray(0, 16);
}

function beginning(): Uint8Array {
  const digits = new Date(certificatesBeginMs).toISOString().replace(/\D/g, "").slice(2, 14);
  return der(utcTime, Buffer.from(`${digits}Z`));
}

function nameOf(commonName: string): Uint8Array {
  const value = der(utf8String, Buffer.from(commonName));
  return der(sequence, der(set, der(sequence, derObjectId("2.5.4.3"), value)));
}

function publicKeyInfoOf(ownerKey: string): Uint8Array {
  return der(sequence, ed25519, der(bitString, Buffer.of(0), Buffer.from(ownerKey, "hex")));
}

/** The name of a key: 20 bytes of the SHA-256 of its bits (RFC 7093, 2, method 1). */
function keyIdOf(publicKey: Uint8Array): Uint8Array {
  const [, bits] = derValues(onlyDerValue(publicKey, sequence).content);
  const content = bits?.content.subarray(1) ?? Buffer.alloc(0);
  return createHash("sha256").update(content).digest().subarray(0, 20);
}

function extensionsOf(
  publicKey: Uint8Array,
  issuer: Uint8Array,
  isAuthority: boolean,
): readonly Uint8Array[] {
  const basic = isAuthority ? der(sequence, yes, der(integer, Buffer.of(0))) : der(sequence);
  const usage = der(bitString, isAuthority ? usages.certify : usages.sign);
  const codeSigning = der(sequence, derObjectId("1.3.6.1.5.5.7.3.3"));
  return [
    extension("2.5.29.19", basic, yes),
    extension("2.5.29.15", usage, yes),
    ...(isAuthority ? [] : [extension("2.5.29.37", codeSigning)]),
    extension("2.5.29.14", der(octetString, keyIdOf(publicKey))),
    extension("2.5.29.35", der(sequence, der(0x80, keyIdOf(issuer)))),
  ];
}

function extension(id: string, value: Uint8Array, ...critical: readonly Uint8Array[]): Uint8Array {
  return der(sequence, derObjectId(id), ...critical, der(octetString, value));
}
