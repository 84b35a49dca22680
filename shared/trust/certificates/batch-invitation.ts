/**
 * Defines the invitation of a batch of devices. All of them are given one file, for example in the image of
 * their disks, that is good for enrolling and nothing else. Its key signs each request, so that a request
 * that somebody reads on its way enrols nothing but what it names. How many devices may enrol, under which
 * names and until when is kept by the server (docs/certificates.md, "One file for many devices"); until it is
 * revoked, who has the file can enrol in their place.
 */
import * as z from "zod";
import { StemmaError } from "../../errors.js";
import { sha256 } from "../../tensor/hash.js";
import { connectionSchema, hexKey, name, pinnedReleasesSchema } from "../enrolment-fields.js";
import { keyOfSeed, type Signer } from "../keys.js";
import { pem } from "./invitation.js";
import { isStatementSigned, signStatement } from "./statement.js";

const signature = z.string().regex(/^[0-9a-f]{128}$/, "must be 128 lower-case hex digits");

/** The terms that the server signs; each request contains them. */
export const batchTermsSchema = z.strictObject({
  kind: z.literal("stemma-batch-invitation"),
  format: z.literal(1),
  fleet: name,
  batch: name,
  /** Ed25519: its private half is in the file alone. */
  publicKey: hexKey,
  lines: z.array(name).min(1).max(64),
  profile: z.string().min(1).max(64),
  ...connectionSchema,
  /** PEM of the authorities that the server's certificate is judged by. */
  authorities: z.array(pem).min(1).max(4),
  serverPublicKey: hexKey,
  releases: pinnedReleasesSchema.optional(),
  /** The authority of the fleet's owner whose certificate the device has to have; absent: it gets the server's. */
  authority: name.optional(),
  issuedAtMs: z.number().int().min(0),
  expiresAtMs: z.number().int().min(0),
  signature,
});
export type BatchTerms = z.infer<typeof batchTermsSchema>;

export const batchInvitationSchema = z.strictObject({
  kind: z.literal("stemma-batch-file"),
  format: z.literal(1),
  terms: batchTermsSchema,
  /** Private: 64 hex digits. */
  seed: hexKey,
});
/** The file. */
export type BatchInvitation = z.infer<typeof batchInvitationSchema>;

/** The proof with which a device of a batch asks for its certificate, beside the request itself. */
export const batchUseSchema = z.strictObject({
  terms: batchTermsSchema,
  /** The name that the device wants. */
  device: name,
  /** The signature of name and request, by the batch's key. */
  signature,
});
export type BatchUse = z.infer<typeof batchUseSchema>;

/** The server counts a device's generations and tells the device; its request is made for this one. */
export const generationOfBatch = 0;

export function signBatchTerms(server: Signer, members: Omit<BatchTerms, "signature">): BatchTerms {
  return { ...members, signature: signStatement(server, "batch", members) };
}

const useStatement = ({ fleet, batch }: BatchTerms, device: string, request: string) => ({
  fleet,
  batch,
  device,
  request: sha256("stemma-certificate-request-1\0", request),
});

/** @param request PKCS #10, DER in base64 */
export function useBatch({ terms, seed }: BatchInvitation, device: string, request: string): BatchUse {
  return {
    terms,
    device,
    signature: signStatement(keyOfSeed(seed), "batchUse", useStatement(terms, device, request)),
  };
}

/** True if the holder of the batch's file asks for this device. */
export function isBatchUse({ terms, device, signature: signed }: BatchUse, request: string): boolean {
  return isStatementSigned(terms.publicKey, "batchUse", useStatement(terms, device, request), signed);
}

/** @throws ENROLMENT_INVALID where the terms are not signed by the server that they name */
export function checkBatchTerms({ signature: signed, ...members }: BatchTerms, where = "the batch"): void {
  if (!isStatementSigned(members.serverPublicKey, "batch", members, signed))
    throw invalid(where, "it was changed after it was made");
}

function invalid(where: string, why: string, cause?: unknown): StemmaError {
  return new StemmaError(
    "ENROLMENT_INVALID",
    `${where} is not a valid invitation of a batch: ${why}. Make a new one with \`stemma device batch create\`.`,
    { cause },
  );
}

/** Parses a batch's invitation; undefined where the value is the file of something else. @throws ENROLMENT_INVALID */
export function parseBatchInvitation(value: unknown, where: string): BatchInvitation | undefined {
  if ((value as { readonly kind?: unknown } | null | undefined)?.kind !== "stemma-batch-file")
    return undefined;
  const parsed = batchInvitationSchema.safeParse(value);
  if (!parsed.success) throw invalid(where, "it is malformed", parsed.error);
  checkBatchTerms(parsed.data.terms, where);
  if (keyOfSeed(parsed.data.seed).publicKey !== parsed.data.terms.publicKey)
    throw invalid(where, "its key is another one");
  return parsed.data;
}
