/**
 * Signs statements about identities: canonical JSON in a domain of its own for each kind. So a signature of
 * one is never valid for another (docs/formats.md, "Signatures").
 */
import { encodeCanonical, type CanonicalValue } from "../../model/canonical-json.js";
import { isSignatureValid, type DeviceKey, type Signer } from "../keys.js";

const domains = {
  /** The server invites a device. */
  invitation: "stemma-invitation-1\0",
  /** The server invites a batch of devices. */
  batch: "stemma-batch-1\0",
  /** The key of a batch states which device asks with which request. */
  batchUse: "stemma-batch-use-1\0",
  /** A device's key states which connection key belongs to it. */
  deviceKey: "stemma-device-key-1\0",
  /** The server answers a request for a certificate. */
  certificate: "stemma-certificate-1\0",
  /** A server's key states the key that follows it. */
  keyChange: "stemma-key-change-1\0",
  /** The key that follows states the same. */
  keyProof: "stemma-key-proof-1\0",
} as const;
export type StatementKind = keyof typeof domains;

function messageOf(kind: StatementKind, statement: CanonicalValue): Uint8Array {
  return Buffer.concat([Buffer.from(domains[kind]), encodeCanonical(statement)]);
}

/** Signs a statement; returns 128 hex digits. */
export function signStatement(signer: Signer, kind: StatementKind, statement: CanonicalValue): string {
  return Buffer.from(signer.sign(messageOf(kind, statement))).toString("hex");
}

/** Signs as signStatement, with a device's own key. */
export async function signDeviceStatement(
  device: DeviceKey,
  kind: StatementKind,
  statement: CanonicalValue,
): Promise<string> {
  return Buffer.from(await device.sign(messageOf(kind, statement))).toString("hex");
}

export function isStatementSigned(
  publicKey: string,
  kind: StatementKind,
  statement: CanonicalValue,
  signature: Uint8Array | string,
): boolean {
  return isSignatureValid(publicKey, messageOf(kind, statement), signature);
}
