/** The two ways to a certificate, an invitation and a renewal, as commands use them. */
import { proxyOf } from "../../shared/adapters/proxy.js";
import { X509Certificate } from "node:crypto";
import { hostname } from "node:os";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import type { CertificateRequest } from "../../shared/trust/certificates/certificate-exchange.js";
import {
  generationOfBatch,
  parseBatchInvitation,
  useBatch,
  type BatchInvitation,
} from "../../shared/trust/certificates/batch-invitation.js";
import { parseInvitation } from "../../shared/trust/certificates/invitation.js";
import { verifyChain } from "../../shared/trust/certificates/verify-chain.js";
import { loadEnrolment, type Enrolment } from "../../shared/trust/enrolment.js";
import { parseJson, type DeviceKey } from "../../shared/trust/keys.js";
import { isName } from "../../shared/wire/topics.js";
import type { DeviceTime } from "./device-time.js";
import { deviceKeyOf } from "./device-key.js";
import { Credentials, type CredentialsParts } from "./credentials.js";
import { inviterNotReached, noHttpsAddress, notADeviceName, notTheInviter } from "./identity-errors.js";
import { checkOwnerCertificate } from "./owner-certificate.js";
import {
  requestEnrolment,
  requestOf,
  takeEnrolment,
  type EnrolmentTerms,
  type InvitedParts,
} from "./enrol-invited.js";
import { postRequest } from "./post-request.js";
import { openVerifiedSocket } from "./verified-socket.js";

export interface CertificateExchange {
  request(): Promise<CertificateRequest>;
  send(request: object): Promise<unknown>;
  take(answer: unknown): Promise<Enrolment>;
}

export interface RenewalParts extends Omit<CredentialsParts, "enrolment" | "deviceKey" | "time"> {
  /** The time that the device believes; absent: that of its enrolment. */
  readonly openTime?: (enrolment: Enrolment) => Promise<DeviceTime>;
}

const connectMs = 30_000;

/**
 * @param device the name that the device wants, where the invitation is of a batch
 * @throws ENROLMENT_INVALID, FILE_MISSING, USAGE
 */
export async function invitedExchange(
  parts: InvitedParts,
  file: string,
  device?: string,
): Promise<CertificateExchange> {
  const value = parseJson(await parts.files.read(file));
  const batch = parseBatchInvitation(value, file);
  if (batch !== undefined) return batchExchange(parts, batch, device);
  const invitation = parseInvitation(value, file);
  if (device !== undefined && device !== invitation.device)
    throw new StemmaError("USAGE", `This invitation is of ${invitation.device}. Leave --name out.`);
  return {
    request: () => requestEnrolment(parts, invitation),
    send: (request) => sendInvited(invitation, request as CertificateRequest),
    take: (answer) => takeEnrolment(parts, invitation, answer),
  };
}

/** @throws USAGE where the name is not one */
function batchExchange(
  parts: InvitedParts,
  invitation: BatchInvitation,
  device: string = hostname().toLowerCase(),
): CertificateExchange {
  if (!isName(device)) throw notADeviceName(device);
  const terms = { ...invitation.terms, device, generation: generationOfBatch };
  return {
    request: async () => {
      const asked = await requestOf(parts, terms);
      const batch = useBatch(invitation, device, asked.request);
      return { kind: "stemma-certificate-request", format: 1, ...asked, batch };
    },
    send: (request) => sendInvited(terms, request as CertificateRequest),
    take: (answer) => takeEnrolment(parts, terms, answer),
  };
}

/**
 * @param program the key of the program that agent.json names
 * @throws ENROLMENT_INVALID, FILE_MISSING, CONFIG_INVALID
 */
export async function renewalExchange(
  { openTime, ...parts }: RenewalParts,
  program?: DeviceKey,
): Promise<CertificateExchange> {
  const enrolment = await loadEnrolment(parts.files, parts.path);
  checkOwnerCertificate(enrolment, parts.ownerCertificate !== undefined);
  const time = await openTime?.(enrolment);
  const deviceKey = deviceKeyOf(enrolment, program);
  const credentials = new Credentials({ ...parts, time, enrolment, deviceKey });
  return {
    request: () => credentials.request(),
    send: (request) => credentials.send(request as CertificateRequest),
    take: (answer) => credentials.take(answer),
  };
}

/**
 * Asks the server that invited a device for its certificate. @throws NOT_ALLOWED; SERVER_UNREACHABLE, TIMED_OUT,
 * CERTIFICATE_REFUSED where it is not reached; what postRequest throws
 */
export async function sendInvited(
  { http, authorities, issuedAtMs, device }: EnrolmentTerms,
  request: CertificateRequest,
): Promise<unknown> {
  if (http?.startsWith("https:") !== true) throw noHttpsAddress(`The invitation of ${device}`, "Enrol");
  const base = new URL(http);
  const socket = await openVerifiedSocket({
    host: base.hostname.replace(/^\[(.*)\]$/, "$1"),
    port: base.port === "" ? 443 : Number(base.port),
    proxy: proxyOf(base),
    // The server signed that it was this time when it invited the device.
    judge: (chain) =>
      verifyChain(chain, {
        authorities: authorities.map((pem) => new X509Certificate(pem)),
        atMs: issuedAtMs,
        purpose: "server",
      }),
    timeoutMs: connectMs,
  }).catch((error: unknown) => {
    if (isStemmaError(error, "CERTIFICATE_REFUSED") && error.details["isUntimely"] !== true)
      throw notTheInviter(device, http, error);
    if (isStemmaError(error, "SERVER_UNREACHABLE") || isStemmaError(error, "TIMED_OUT"))
      throw inviterNotReached(device, http, error);
    throw error;
  });
  return postRequest(base, socket, request);
}
