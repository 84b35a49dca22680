/**
 * Defines what a device sends for a certificate and what it gets. Both are files that can be carried by hand
 * as well as bodies of a request: the proofs are in them, not in the connection.
 *
 * A first certificate is asked for with an invitation; a renewal with the present certificate, whose key signs the new
 * request. An expired certificate may be renewed, and is good for nothing else.
 */
import { createPrivateKey, sign, verify, X509Certificate } from "node:crypto";
import * as z from "zod";
import { StemmaError } from "../../errors.js";
import { sha256 } from "../../tensor/hash.js";
import { name } from "../enrolment-fields.js";
import { followKeyChanges, keyChangesSchema, type FollowedKey } from "../key-change.js";
import type { Signer } from "../keys.js";
import { batchUseSchema } from "./batch-invitation.js";
import { invitationSchema, pem } from "./invitation.js";
import { isStatementSigned, signStatement } from "./statement.js";

const base64 = z.string().max(8192);

export const certificateRequestSchema = z.strictObject({
  kind: z.literal("stemma-certificate-request"),
  format: z.literal(1),
  /** PKCS #10, DER in base64. */
  request: base64,
  /** The invitation for a first certificate. */
  invitation: invitationSchema.optional(),
  /** The proof for the first certificate of a device that has its batch's invitation. */
  batch: batchUseSchema.optional(),
  /**
   * The certificate that the device has from an authority of its owner, with those between, PEM: it enrols with that
   * one and gets none of the server.
   */
  owned: pem.optional(),
  /** The proof for a renewal. */
  renewal: z
    .strictObject({
      fleet: name,
      device: name,
      generation: z.number().int().min(1).max(0xffff_ffff),
      /** The present certificate; where it is of the owner's authority, with those between. */
      certificate: pem,
      /** The signature of the request, by the present connection key: ECDSA with SHA-256, base64. */
      signature: base64,
    })
    .optional(),
});
export type CertificateRequest = z.infer<typeof certificateRequestSchema>;

export const certificateAnswerSchema = z.strictObject({
  kind: z.literal("stemma-certificate"),
  format: z.literal(1),
  /** SHA-256 of the request that it answers. */
  request: z.string().regex(/^[0-9a-f]{64}$/),
  /** The new one; where the device has one of its owner's authority, that. */
  certificate: pem,
  /** The generation that the enrolment started, where the device did not know it. */
  generation: z.number().int().min(1).max(0xffff_ffff).optional(),
  authorities: z.array(pem).min(1).max(4),
  /** The changes of the server's key, oldest first; absent: there are none. */
  keyChanges: keyChangesSchema.optional(),
  /** The server's time. */
  issuedAtMs: z.number().int().min(0),
  signature: z.string().regex(/^[0-9a-f]{128}$/),
});
export type CertificateAnswer = z.infer<typeof certificateAnswerSchema>;

/** @throws ENROLMENT_INVALID */
export function parseCertificateRequest(value: unknown): CertificateRequest {
  const parsed = certificateRequestSchema.safeParse(value);
  const { invitation, batch, renewal, owned } = parsed.data ?? {};
  const proofs = [invitation, batch, renewal].filter((proof) => proof !== undefined);
  const isOwnedFirst = owned === undefined || renewal === undefined;
  if (parsed.success && proofs.length === 1 && isOwnedFirst) return parsed.data;
  throw new StemmaError(
    "ENROLMENT_INVALID",
    "This is not a request for a certificate. Make one on the device with `stemma agent enroll INVITATION --request FILE`.",
    { cause: parsed.error },
  );
}

export function renewalSignature(request: string, connectionKey: string): string {
  return sign("sha256", Buffer.from(request), createPrivateKey(connectionKey)).toString("base64");
}

/** True if the key of a certificate signed this request. */
export function isRenewalSigned(request: string, certificate: string, signature: string): boolean {
  try {
    const { publicKey } = new X509Certificate(certificate);
    return verify("sha256", Buffer.from(request), publicKey, Buffer.from(signature, "base64"));
  } catch {
    return false;
  }
}

export function signAnswer(
  signer: Signer,
  request: string,
  members: Omit<CertificateAnswer, "kind" | "format" | "request" | "signature">,
): CertificateAnswer {
  const answer = {
    kind: "stemma-certificate",
    format: 1,
    request: sha256("stemma-certificate-request-1\0", request),
    ...members,
  } as const;
  return { ...answer, signature: signStatement(signer, "certificate", answer) };
}

/** An answer, and the server's key that made it: the one that is trusted, or one that it leads to. */
export type VerifiedAnswer = CertificateAnswer & { readonly serverKey: FollowedKey };

/** @throws ENROLMENT_INVALID where it is not the server's answer to this request */
export function parseAnswer(value: unknown, serverPublicKey: string, request: string): VerifiedAnswer {
  const invalid = (why: string, cause?: unknown): StemmaError =>
    new StemmaError(
      "ENROLMENT_INVALID",
      `The answer with the certificate is not valid: ${why}. Send the request again; the same keys get the same certificate.`,
      { cause },
    );
  const parsed = certificateAnswerSchema.safeParse(value);
  if (!parsed.success) throw invalid("it is malformed", parsed.error);
  const { signature, ...members } = parsed.data;
  const serverKey = followKeyChanges(serverPublicKey, members.keyChanges ?? []);
  if (!isStatementSigned(serverKey.publicKey, "certificate", members, signature))
    throw invalid(
      "the server that this device trusts did not sign it, or it was changed on its way. If the server's key was replaced and the one before withdrawn, this device has to be enrolled again (`stemma device enroll` at the server)",
    );
  if (members.request !== sha256("stemma-certificate-request-1\0", request))
    throw invalid("it answers another request");
  return { ...parsed.data, serverKey };
}
