/** The two ways to a certificate, an invitation and a renewal, as commands use them. */
import { X509Certificate } from "node:crypto";
import { StemmaError } from "../../shared/errors.js";
import type { CertificateRequest } from "../../shared/trust/certificates/certificate-exchange.js";
import { loadInvitation, type Invitation } from "../../shared/trust/certificates/invitation.js";
import { verifyChain } from "../../shared/trust/certificates/verify-chain.js";
import { loadEnrolment, type Enrolment } from "../../shared/trust/enrolment.js";
import { Credentials, type CredentialsParts } from "./credentials.js";
import { requestEnrolment, takeEnrolment, type InvitedParts } from "./enrol-invited.js";
import { postRequest } from "./post-request.js";
import { openVerifiedSocket } from "./verified-socket.js";

export interface CertificateExchange {
  request(): Promise<CertificateRequest>;
  send(request: object): Promise<unknown>;
  take(answer: unknown): Promise<Enrolment>;
}

const connectMs = 30_000;

/** @throws ENROLMENT_INVALID, FILE_MISSING */
export async function invitedExchange(parts: InvitedParts, file: string): Promise<CertificateExchange> {
  const invitation = await loadInvitation(parts.files, file);
  return {
    request: () => requestEnrolment(parts, invitation),
    send: (request) => sendInvited(invitation, request as CertificateRequest),
    take: (answer) => takeEnrolment(parts, invitation, answer),
  };
}

/** @throws ENROLMENT_INVALID, FILE_MISSING */
export async function renewalExchange(
  parts: Omit<CredentialsParts, "enrolment">,
): Promise<CertificateExchange> {
  const enrolment = await loadEnrolment(parts.files, parts.path);
  const credentials = new Credentials({ ...parts, enrolment });
  return {
    request: () => credentials.request(),
    send: (request) => credentials.send(request as CertificateRequest),
    take: (answer) => credentials.take(answer),
  };
}

async function sendInvited(
  { http, authorities, issuedAtMs, device }: Invitation,
  request: CertificateRequest,
): Promise<unknown> {
  if (http?.startsWith("https:") !== true)
    throw new StemmaError(
      "NOT_ALLOWED",
      `The invitation of ${device} names no HTTPS address of its server. Enrol by files: \`stemma agent enroll INVITATION --request FILE\`.`,
    );
  const base = new URL(http);
  const socket = await openVerifiedSocket({
    host: base.hostname.replace(/^\[(.*)\]$/, "$1"),
    port: base.port === "" ? 443 : Number(base.port),
    // The server signed that it was this time when it invited the device.
    judge: (chain) =>
      verifyChain(chain, {
        authorities: authorities.map((pem) => new X509Certificate(pem)),
        atMs: issuedAtMs,
        purpose: "server",
      }),
    timeoutMs: connectMs,
  });
  return postRequest(base, socket, request);
}
