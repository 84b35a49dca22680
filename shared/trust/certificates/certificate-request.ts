/**
 * A device's request for a certificate (PKCS #10, RFC 2986): signed with its connection key, with the Ed25519 key of
 * its announcements in an extension. That key has signed which connection key belongs to it, and for which enrolment,
 * so that nobody can put another device's key into a request.
 */
import { createPrivateKey, createPublicKey, webcrypto } from "node:crypto";
import { StemmaError } from "../../errors.js";
import type { CanonicalValue } from "../../model/canonical-json.js";
import type { DeviceKey } from "../keys.js";
import { connectionKeyHash, publicKeyInfo } from "./connection-key.js";
import { isStatementSigned, signDeviceStatement } from "./statement.js";
import type { DeviceSubject } from "./verify-chain.js";
import { loadX509 } from "./x509-library.js";

/**
 * Of the device's key, 32 bytes, and its signature, 64 bytes. Below 2.25 (ITU-T X.667), by a random number of
 * 31 bits: the library does not write the 128 bits of a UUID.
 */
const deviceKeyExtension = "2.25.1743892065";
const keyBytes = 32;
const signatureBytes = 64;
/** A request of this form has about 500 bytes. */
const maxRequestBytes = 4096;

export const curveAlgorithm = { name: "ECDSA", namedCurve: "P-256" } as const;
export const signingAlgorithm = { ...curveAlgorithm, hash: "SHA-256" } as const;

/** What a device asks a certificate for. */
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
 * @param connectionKey PKCS #8, PEM
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
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    name: `CN=${subject.device}`,
    keys: await importPair(connectionKey),
    signingAlgorithm,
    extensions: [new x509.Extension(deviceKeyExtension, false, Buffer.from(device.publicKey + proof, "hex"))],
  });
  return Buffer.from(request.rawData).toString("base64");
}

/** A P-256 key for the X.509 library. */
export async function importPair(privateKey: string): Promise<webcrypto.CryptoKeyPair> {
  const { subtle } = webcrypto;
  const pkcs8 = createPrivateKey(privateKey).export({ type: "pkcs8", format: "der" });
  return {
    privateKey: await subtle.importKey("pkcs8", pkcs8, curveAlgorithm, true, ["sign"]),
    publicKey: await subtle.importKey("spki", publicKeyInfo(privateKey), curveAlgorithm, true, ["verify"]),
  };
}

/**
 * Reads a request and checks both proofs in it: of the connection key, and of the device's key for this subject.
 * @throws CERTIFICATE_REFUSED
 */
export async function readRequest(request: string, subject: DeviceSubject): Promise<RequestedIdentity> {
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
    const { asymmetricKeyDetails } = createPublicKey({ key: connectionKey, format: "der", type: "spki" });
    if (asymmetricKeyDetails?.namedCurve !== "prime256v1") throw refused("its key is not of P-256");
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
