/**
 * The enrolment file: everything that a device needs to connect to its server. `stemma agent enroll` makes it on the
 * device; with a token it is made by `stemma device enroll --token` and carried to the device in a way that its owner
 * trusts. It pins the server's key and contains the private keys of the device that are kept in files, so it is a
 * secret.
 */
import { createHash } from "node:crypto";
import * as z from "zod";
import { encodeCanonical } from "../model/canonical-json.js";
import type { Files } from "../ports.js";
import { connectionSchema, hexKey, name, pinnedReleasesSchema } from "./enrolment-fields.js";
import type { FollowedKey } from "./key-change.js";
import { keyOfSeed, parseJson } from "./keys.js";
import { enrolmentChanged, enrolmentContains, enrolmentInvalid, noEnrolment } from "./trust-errors.js";

const pem = z.string().max(16 * 1024);

export { releasePolicies, type ReleasePolicy } from "./enrolment-fields.js";

const enrolmentSchema = z.strictObject({
  kind: z.literal("stemma-enrolment"),
  format: z.literal(1),
  fleet: name,
  device: name,
  /** Counts the enrolments of this device name, from 1; sessions count within a generation. */
  generation: z.number().int().min(1).max(0xffff_ffff).default(1),
  lines: z.array(name).min(1).max(64),
  ...connectionSchema,
  /**
   * PEM of the server's own authorities. Where they are there, they alone decide whether the server's certificate is
   * trusted, at the time of the server (verify-chain.ts); that of an external broker is trusted by `ca`.
   */
  authorities: z.array(pem).min(1).max(4).optional(),
  /** The token; absent where the device has a certificate. */
  token: z.string().min(16).max(256).optional(),
  /** The device's certificate and the key that it made for it. */
  identity: z
    .strictObject({
      certificate: pem,
      /** The key, PKCS #8, PEM. */
      key: pem,
      /** The server's time when it issued the certificate. */
      issuedAtMs: z.number().int().min(0),
    })
    .optional(),
  /** The device has a certificate of its owner's authority: agent.json names the files that it and its key are in. */
  ownerCertificate: z
    .strictObject({
      authority: name,
      /** The server's time when it enrolled the device. */
      issuedAtMs: z.number().int().min(0),
    })
    .optional(),
  /**
   * The seed of the device's private key; absent where it is elsewhere: agent.json then names the program
   * that signs with it.
   */
  deviceSeed: hexKey.optional(),
  devicePublicKey: hexKey,
  serverPublicKey: hexKey,
  /** Keys that the same server had before, oldest first; absent: this one is the first that the device knew. */
  formerServerKeys: z.array(hexKey).max(64).optional(),
  profile: z.string().min(1).max(64),
  /** The fleet's first root of releases, which the device pins at first use, and what is asked of it. */
  releases: pinnedReleasesSchema.optional(),
  /** The checksum of all other members; a file from before it had one is read without. */
  checksum: z
    .string()
    .regex(/^[0-9a-f]{64}$/, "must be 64 lower-case hex digits")
    .optional(),
});
export type Enrolment = z.infer<typeof enrolmentSchema>;

/** Finds a file that was damaged on its way: a changed address or key would only look like a dead server. */
function checksumOf({ checksum: _checksum, ...members }: Enrolment): string {
  return createHash("sha256").update("stemma-enrolment-1\0").update(encodeCanonical(members)).digest("hex");
}

/** The content of an enrolment file. @throws ENROLMENT_INVALID naming the fields that are wrong */
export function sealEnrolment(members: object, where?: string): Enrolment {
  const enrolment = parseEnrolment({ ...members, checksum: undefined }, where);
  return { ...enrolment, checksum: checksumOf(enrolment) };
}

/** @throws ENROLMENT_INVALID naming the fields that are wrong */
export function parseEnrolment(value: unknown, where = "the enrolment"): Enrolment {
  const parsed = enrolmentSchema.safeParse(value);
  if (!parsed.success) {
    const fields = parsed.error.issues.map(
      (issue) => `${issue.path.join(".") || "the file"}: ${issue.message}`,
    );
    throw enrolmentInvalid(where, fields);
  }
  const { deviceSeed } = parsed.data;
  if (deviceSeed !== undefined && keyOfSeed(deviceSeed).publicKey !== parsed.data.devicePublicKey)
    throw enrolmentContains(where, "a public key that does not belong to its private key");
  const { checksum, token, identity, ownerCertificate, authorities } = parsed.data;
  const proofs = [token, identity, ownerCertificate].filter((each) => each !== undefined);
  if (proofs.length !== 1 || (token === undefined && authorities === undefined))
    throw enrolmentContains(
      where,
      "neither a token nor a certificate with the authorities of its server, or several",
    );
  if (checksum !== undefined && checksum !== checksumOf(parsed.data)) throw enrolmentChanged(where);
  return parsed.data;
}

/** Returns what a device keeps of its server's key. @param former keys that it had before */
export function pinnedKeys(
  { publicKey, before }: FollowedKey,
  former: readonly string[] = [],
): Pick<Enrolment, "serverPublicKey" | "formerServerKeys"> {
  const formerServerKeys = [...new Set([...former, ...before])];
  return { serverPublicKey: publicKey, ...(formerServerKeys.length === 0 ? {} : { formerServerKeys }) };
}

/** @throws ENROLMENT_INVALID, FILE_MISSING */
export async function loadEnrolment(files: Files, path: string): Promise<Enrolment> {
  if ((await files.stat(path)) === undefined) throw noEnrolment(path);
  return parseEnrolment(parseJson(await files.read(path)), path);
}
