/**
 * A device's request for a certificate (PKCS #10, RFC 2986): signed with its connection key, with the Ed25519 key of
 * its announcements in an extension. That key has signed which connection key belongs to it, and for which enrolment,
 * so that nobody can put another device's key into a request.
 */
import { createPrivateKey, createPublicKey, webcrypto, type KeyObject } from "node:crypto";
import { StemmaError } from "../../errors.js";
import type { CanonicalValue } from "../../model/canonical-json.js";
import type { DeviceKey } from "../keys.js";
import { connectionKeyHash, publicKeyInfo } from "./connection-key.js";
import { isStatementSigned, signDeviceStatement } from "./statement.js";
import { whyWeakKey } from "./strong-enough.js";
import type { DeviceSubject } from "./verify-chain.js";
import { loadX509 } from "./x509-library.js";

/**
 * The object identifier of the extension with the device's key, 32 bytes, and its signature, 64 bytes. Below
 * 2.25 (ITU-T X.667), by a random number of 31 bits: the library does not write the 128 bits of a UUID.
 */
const deviceKeyExtension = "2.25.1743892065";
const keyBytes = 32;
const signatureBytes = 64;
/** A request of this form has about 500 bytes, with an RSA key up to 2 KiB. */
const maxRequestBytes = 4096;

export const curveAlgorithm = { name: "ECDSA", namedCurve: "P-256" } as const;
export const signingAlgorithm = { ...curveAlgorithm, hash: "SHA-256" } as const;

/** The identity that a device asks a certificate for. */
export interface RequestedIdentity {
  /** SubjectPublicKeyInfo of the connection key, DER. */
  readonly connectionKey: Uint8Array;
  readonly keyHash: string;
  /** Ed25519, hex. */
  readonly devicePublicKey: string;
}

function keyStatement(subject: DeviceSubject, keyHash: string): CanonicalValue {
  const { fleet, device, generation } = subject;
  return { fleet, device, generation, connectionKey: keyHash };
}

/**
 * @param connectionKey PEM: of P-256 where Stemma made it; what the device's owner made may be another one
 * @returns DER in base64
 */
export async function makeRequest(
  subject: DeviceSubject,
  device: DeviceKey,
  connectionKey: string,
): Promise<string> {
  const x509 = await loadX509();
  const keyHash = connectionKeyHash(publicKeyInfo(connectionKey));
  const proof = await signDeviceStatement(device, "deviceKey", keyStatement(subject, keyHash));
  const algorithm = algorithmOfKey(createPrivateKey(connectionKey));
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    name: `CN=${subject.device}`,
    keys: await importPair(connectionKey, algorithm),
    signingAlgorithm: algorithm,
    extensions: [new x509.Extension(deviceKeyExtension, false, Buffer.from(device.publicKey + proof, "hex"))],
  });
  return Buffer.from(request.rawData).toString("base64");
}

type KeyAlgorithm = { readonly name: string; readonly hash: string; readonly namedCurve?: string };

/** Returns the algorithm by which a key signs a request. @throws CERTIFICATE_REFUSED where it is too weak */
function algorithmOfKey(key: KeyObject): KeyAlgorithm {
  const weak = whyWeakKey(key);
  if (weak !== undefined)
    throw new StemmaError("CERTIFICATE_REFUSED", `The connection's key cannot be used: ${weak}.`);
  if (key.asymmetricKeyType === "rsa") return { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
  const curve = key.asymmetricKeyDetails?.namedCurve;
  if (curve === "secp384r1") return { name: "ECDSA", namedCurve: "P-384", hash: "SHA-384" };
  if (curve === "secp521r1") return { name: "ECDSA", namedCurve: "P-521", hash: "SHA-512" };
  return signingAlgorithm;
}

/** A key for the X.509 library. @param algorithm of P-256 where none is given */
export async function importPair(
  privateKey: string,
  algorithm: KeyAlgorithm = signingAlgorithm,
): Promise<webcrypto.CryptoKeyPair> {
  const { subtle } = webcrypto;
  const pkcs8 = createPrivateKey(privateKey).export({ type: "pkcs8", format: "der" });
  return {
    privateKey: await subtle.importKey("pkcs8", pkcs8, algorithm, true, ["sign"]),
    publicKey: await subtle.importKey("spki", publicKeyInfo(privateKey), algorithm, true, ["verify"]),
  };
}

/**
 * Reads a request and checks both proofs in it: of the connection key, and of the device's key for this subject.
 * @param ofOwner the connection's key is of a certificate of the fleet's owner, and need not be of P-256
 * @throws CERTIFICATE_REFUSED
 */
export async function readRequest(
  request: string,
  subject: DeviceSubject,
  { ofOwner = false }: { readonly ofOwner?: boolean } = {},
): Promise<RequestedIdentity> {
  const refused = (why: string, cause?: unknown): StemmaError =>
    new StemmaError(
      "CERTIFICATE_REFUSED",
      `The request for a certificate of ${subject.device} is not valid: ${why}. Make a new one on the device with \`stemma agent enroll\`.`,
      { cause },
    );
  const der = Buffer.from(request, "base64");
  if (der.length === 0 || der.length > maxRequestBytes) throw refused("it is empty or too long");
  const x509 = await loadX509();
  let connectionKey: Buffer;
  let proof: Buffer;
  try {
    const parsed = new x509.Pkcs10CertificateRequest(der);
    connectionKey = Buffer.from(parsed.publicKey.rawData);
    proof = Buffer.from(parsed.getExtension(deviceKeyExtension)?.value ?? new ArrayBuffer(0));
    const key = createPublicKey({ key: connectionKey, format: "der", type: "spki" });
    const weak = whyWeakKey(key);
    if (weak !== undefined) throw refused(weak);
    if (!ofOwner && key.asymmetricKeyDetails?.namedCurve !== "prime256v1")
      throw refused("its key is not of P-256");
    if (!(await parsed.verify())) throw refused("it is not signed with its connection key");
  } catch (cause) {
    throw cause instanceof StemmaError ? cause : refused("it cannot be read", cause);
  }
  if (proof.length !== keyBytes + signatureBytes) throw refused("it does not contain the device's key");
  const devicePublicKey = proof.subarray(0, keyBytes).toString("hex");
  const keyHash = connectionKeyHash(connectionKey);
  const statement = keyStatement(subject, keyHash);
  if (!isStatementSigned(devicePublicKey, "deviceKey", statement, proof.subarray(keyBytes)))
    throw refused("the device's key in it did not sign this connection key for this device and enrolment");
  return { connectionKey, keyHash, devicePublicKey };
}
