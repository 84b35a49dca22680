/**
 * The invitation of a device: what `stemma device enroll` writes and `stemma agent enroll` reads. It is signed by the
 * server, pins the server's key and authority, and contains no key of the device: the device makes its own. It is used
 * up by the first enrolment, because it names the generation that this enrolment starts; until then, who has it can
 * enrol in the device's place.
 */
import * as z from "zod";
import { StemmaError } from "../../errors.js";
import { callerPaths, maxCallerText } from "../../journal/caller.js";
import type { Files } from "../../ports.js";
import { connectionSchema, hexKey, name, pinnedReleasesSchema } from "../enrolment-fields.js";
import { parseJson, type Signer } from "../keys.js";
import { isStatementSigned, signStatement } from "./statement.js";

const signature = z.string().regex(/^[0-9a-f]{128}$/, "must be 128 lower-case hex digits");
export const pem = z.string().max(16 * 1024);

const callerText = z.string().min(1).max(maxCallerText);
/** The causer of something, as files state it. */
export const callerSchema = z.strictObject({
  who: callerText,
  through: z.enum(callerPaths),
  role: callerText.exactOptional(),
  claims: callerText.exactOptional(),
});

export const invitationSchema = z.strictObject({
  kind: z.literal("stemma-invitation"),
  format: z.literal(1),
  fleet: name,
  device: name,
  /** The generation that the enrolment will start. */
  generation: z.number().int().min(1).max(0xffff_ffff),
  lines: z.array(name).min(1).max(64),
  profile: z.string().min(1).max(64),
  ...connectionSchema,
  /** PEM of the authorities that the server's certificate is judged by. */
  authorities: z.array(pem).min(1).max(4),
  serverPublicKey: hexKey,
  /** Version that each line starts from. */
  initial: z.record(name, z.string().regex(/^[0-9a-f]{64}$/)).optional(),
  releases: pinnedReleasesSchema.optional(),
  /** The authority of the fleet's owner whose certificate the device has to have; absent: it gets the server's. */
  authority: name.optional(),
  issuedAtMs: z.number().int().min(0),
  expiresAtMs: z.number().int().min(0),
  /** The caller who invited the device; the fact of its enrolment names them. */
  by: callerSchema.optional(),
  signature,
});
export type Invitation = z.infer<typeof invitationSchema>;

export function signInvitation(signer: Signer, members: Omit<Invitation, "signature">): Invitation {
  return { ...members, signature: signStatement(signer, "invitation", members) };
}

/** @throws ENROLMENT_INVALID where it is malformed, or not signed by the key that it names */
export function parseInvitation(value: unknown, where = "the invitation"): Invitation {
  const invalid = (why: string, details: object = {}): StemmaError =>
    new StemmaError(
      "ENROLMENT_INVALID",
      `${where} is not a valid invitation: ${why}. Make a new one with \`stemma device enroll\`.`,
      { ...details },
    );
  const parsed = invitationSchema.safeParse(value);
  if (!parsed.success) {
    const fields = parsed.error.issues.map(
      ({ path, message }) => `${path.join(".") || "the file"}: ${message}`,
    );
    throw invalid(fields.slice(0, 5).join("; "), { fields });
  }
  const { signature: signed, ...members } = parsed.data;
  if (!isStatementSigned(members.serverPublicKey, "invitation", members, signed))
    throw invalid("it was changed after it was made");
  return parsed.data;
}

/** @throws ENROLMENT_INVALID, FILE_MISSING */
export async function loadInvitation(files: Files, path: string): Promise<Invitation> {
  return parseInvitation(parseJson(await files.read(path)), path);
}
