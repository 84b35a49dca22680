/**
 * Enrols this device with an invitation and writes the enrolment file. It makes the keys, which never leave
 * the device (the device's own may be in a program already), and asks for a certificate. The keys wait on the
 * disk before they are used, so that after a kill or a lost answer the same ones ask again.
 */
import { dirname } from "node:path";
import * as z from "zod";
import { defined } from "../../shared/defined.js";
import { StemmaError } from "../../shared/errors.js";
import { writeDurably } from "../../shared/files/durable-write.js";
import { makeFolderDurably } from "../../shared/files/make-folder.js";
import type { Files, Random } from "../../shared/ports.js";
import {
  parseAnswer,
  type CertificateRequest,
  type VerifiedAnswer,
} from "../../shared/trust/certificates/certificate-exchange.js";
import { makeRequest } from "../../shared/trust/certificates/certificate-request.js";
import { generateConnectionKey } from "../../shared/trust/certificates/connection-key.js";
import type { Invitation } from "../../shared/trust/certificates/invitation.js";
import type { DeviceSubject } from "../../shared/trust/certificates/verify-chain.js";
import { loadEnrolment, pinnedKeys, sealEnrolment, type Enrolment } from "../../shared/trust/enrolment.js";
import { generateKey, parseJson, type DeviceKey } from "../../shared/trust/keys.js";
import { checkCertificate, checkOwned } from "./connection-proof.js";
import { certificateNotAsAgreed, enrolledAlready, enrolledAsAnother, noKeysWait } from "./identity-errors.js";
import type { OwnedPair, OwnerCertificate } from "./owner-certificate.js";

const waitingSchema = z.strictObject({
  kind: z.literal("stemma-enrolment-keys"),
  format: z.literal(1),
  fleet: z.string(),
  device: z.string(),
  generation: z.number().int(),
  /** The seed of the device's key; absent where a program has it. */
  deviceSeed: z.string().optional(),
  devicePublicKey: z.string(),
  /** The connection key; absent where the device has a certificate of its owner's authority. */
  connectionKey: z.string().optional(),
  /** Hash of that certificate's key. */
  ownedKey: z.string().optional(),
  /** The request that these keys sent: an answer names it by its hash. */
  request: z.string(),
});
type WaitingKeys = z.infer<typeof waitingSchema>;

export interface InvitedParts {
  readonly files: Files;
  readonly random: Random;
  /** The path where the enrolment file is written. */
  readonly path: string;
  /** A key that the device has already, in a program; absent: one is made for the enrolment file. */
  readonly deviceKey?: DeviceKey | undefined;
  /** The certificate that the device has from an authority of its owner, where agent.json names it. */
  readonly ownerCertificate?: OwnerCertificate | undefined;
}

const waitingPathOf = ({ path }: InvitedParts): string => `${path}.keys`;

/** The members of an invitation that the enrolment needs; generation 0: the server's answer states it. */
export type EnrolmentTerms = Omit<
  Invitation,
  "kind" | "format" | "initial" | "expiresAtMs" | "by" | "signature"
>;

/** The request for the first certificate; its keys wait on the disk. @throws ENROLMENT_INVALID, SIGNER_FAILED */
export async function requestEnrolment(
  parts: InvitedParts,
  invitation: Invitation,
): Promise<CertificateRequest> {
  return {
    kind: "stemma-certificate-request",
    format: 1,
    ...(await requestOf(parts, invitation)),
    invitation,
  };
}

/**
 * PKCS #10 in base64, of keys that wait on the disk, and the certificate of the owner's authority where there is one.
 * @throws ENROLMENT_INVALID, CERTIFICATE_REFUSED
 */
export async function requestOf(
  parts: InvitedParts,
  terms: EnrolmentTerms,
): Promise<Pick<CertificateRequest, "request" | "owned">> {
  await refuseEnrolled(parts, terms);
  refuseOtherAuthority(parts, terms);
  const owned = await parts.ownerCertificate?.present();
  const { request } = (await waitingKeys(parts, terms, owned)) ?? (await makeKeys(parts, terms, owned));
  return { request, ...defined({ owned: owned?.certificate }) };
}

/**
 * Refuses another authority's certificate than the one that the invitation says the device has to have.
 * @throws ENROLMENT_INVALID
 */
function refuseOtherAuthority(
  { ownerCertificate }: InvitedParts,
  { device, authority }: EnrolmentTerms,
): void {
  if ((authority === undefined) === (ownerCertificate === undefined)) return;
  throw certificateNotAsAgreed("invitation", device, authority);
}

/** Writes the enrolment from the server's answer. @throws ENROLMENT_INVALID */
export async function takeEnrolment(
  parts: InvitedParts,
  invitation: EnrolmentTerms,
  value: unknown,
): Promise<Enrolment> {
  const owned = await parts.ownerCertificate?.present();
  const keys = await waitingKeys(parts, invitation, owned);
  if (keys === undefined) throw noKeysWait();
  const answer = parseAnswer(value, invitation.serverPublicKey, keys.request);
  const { fleet, device, lines, profile, mqtt, http, ca, root } = invitation;
  const generation = invitation.generation || (answer.generation ?? 0);
  const proof = proofIn(answer, keys, { owned, authority: invitation.authority, fleet, device, generation });
  const enrolment = sealEnrolment({
    kind: "stemma-enrolment",
    format: 1,
    fleet,
    device,
    generation,
    lines,
    profile,
    mqtt,
    root,
    ...pinnedKeys(answer.serverKey),
    ...defined({ http, ca, releases: invitation.releases }),
    authorities: answer.authorities,
    ...proof,
    ...defined({ deviceSeed: keys.deviceSeed }),
    devicePublicKey: keys.devicePublicKey,
  });
  await writeDurably(parts.files, parts.path, Buffer.from(`${JSON.stringify(enrolment, null, 2)}\n`));
  await parts.files.remove(waitingPathOf(parts));
  return enrolment;
}

/** Returns the proof that opens the device's connections from now on. @throws ENROLMENT_INVALID */
function proofIn(
  answer: VerifiedAnswer,
  { connectionKey }: WaitingKeys,
  given: DeviceSubject & { readonly owned: OwnedPair | undefined; readonly authority: string | undefined },
): Pick<Enrolment, "identity" | "ownerCertificate"> {
  const { certificate, issuedAtMs } = answer;
  const { owned, authority } = given;
  if (owned !== undefined && authority !== undefined) {
    checkOwned(answer, owned);
    return { ownerCertificate: { authority, issuedAtMs } };
  }
  if (connectionKey === undefined)
    throw new StemmaError("INTERNAL", "The keys of an enrolment wait without that of the connection.");
  checkCertificate(answer, connectionKey, given);
  return { identity: { certificate, key: connectionKey, issuedAtMs } };
}

/** An enrolment that is there is replaced only by a later one of the same device. @throws ENROLMENT_INVALID */
async function refuseEnrolled({ files, path }: InvitedParts, invitation: EnrolmentTerms): Promise<void> {
  if ((await files.stat(path)) === undefined) return;
  const { fleet, device, generation } = await loadEnrolment(files, path);
  const isSame = fleet === invitation.fleet && device === invitation.device;
  if (isSame && generation < invitation.generation) return;
  // Left by a kill after the enrolment was written.
  if (generation === invitation.generation) await files.remove(`${path}.keys`);
  if (isSame) throw enrolledAlready(device, path);
  throw enrolledAsAnother(`${fleet}/${device}`, `${invitation.fleet}/${invitation.device}`, path);
}

async function waitingKeys(
  parts: InvitedParts,
  invitation: EnrolmentTerms,
  owned: OwnedPair | undefined,
): Promise<WaitingKeys | undefined> {
  const path = waitingPathOf(parts);
  if ((await parts.files.stat(path)) === undefined) return undefined;
  const { success, data } = waitingSchema.safeParse(parseJson(await parts.files.read(path)));
  const isOfInvitation =
    success &&
    data.fleet === invitation.fleet &&
    data.device === invitation.device &&
    data.generation === invitation.generation &&
    data.ownedKey === owned?.keyHash &&
    (data.connectionKey === undefined) === (owned !== undefined) &&
    (parts.deviceKey === undefined
      ? data.deviceSeed !== undefined
      : data.devicePublicKey === parts.deviceKey.publicKey);
  return isOfInvitation ? data : undefined;
}

/** The key that a program has; without one, a new key with its seed. */
function keyFor({ deviceKey, random }: InvitedParts): { readonly key: DeviceKey; readonly seed?: string } {
  if (deviceKey !== undefined) return { key: deviceKey };
  const key = generateKey(random);
  return { key, seed: key.seed };
}

async function makeKeys(
  parts: InvitedParts,
  invitation: EnrolmentTerms,
  owned: OwnedPair | undefined,
): Promise<WaitingKeys> {
  const { fleet, device, generation } = invitation;
  const { key, seed } = keyFor(parts);
  const connectionKey = owned?.key ?? generateConnectionKey();
  const keys: WaitingKeys = {
    kind: "stemma-enrolment-keys",
    format: 1,
    fleet,
    device,
    generation,
    // The owner's key stays in the owner's file.
    ...(owned === undefined ? { connectionKey } : { ownedKey: owned.keyHash }),
    ...defined({ deviceSeed: seed }),
    devicePublicKey: key.publicKey,
    request: await makeRequest({ fleet, device, generation }, key, connectionKey),
  };
  await makeFolderDurably(parts.files, dirname(parts.path));
  await writeDurably(parts.files, waitingPathOf(parts), Buffer.from(`${JSON.stringify(keys)}\n`));
  return keys;
}
