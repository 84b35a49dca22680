/**
 * Answers a connection whose only purpose is a renewal. The CONNECT has the device's request as its password,
 * and the client gets the answer and is disconnected. A certificate that has expired opens no other
 * connection. The request proves itself, as over HTTPS; here the connection must show the certificate too, so
 * that a request which somebody read does nothing.
 */
import { isStemmaError } from "../../../../shared/errors.js";
import {
  parseCertificateRequest,
  type CertificateRequest,
} from "../../../../shared/trust/certificates/certificate-exchange.js";
import { parseJson } from "../../../../shared/trust/keys.js";
import { renewalClientIdOf } from "../../../../shared/wire/topics.js";
import type { AnswerOnly, ConnectAttempt, Refused } from "../../../access/broker/broker-port.js";
import type { CertificateJudge } from "../../../access/identity/judge-certificate.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";
import { notServed } from "./admission.js";
import { answerOnly } from "./answer-only.js";

export interface RenewalParts {
  readonly root: string;
  readonly repository: Pick<FleetRepository, "fleet" | "device" | "authority" | "isEndedCertificate">;
  readonly certificates: CertificateJudge | undefined;
  /** @throws CERTIFICATE_REFUSED, QUOTA_EXCEEDED */
  readonly certify: (request: CertificateRequest) => Promise<object>;
}

export async function answerRenewal(
  { username: device, clientId, password, chain = [], will }: ConnectAttempt,
  { root, repository, certificates, certify }: RenewalParts,
): Promise<AnswerOnly | Refused> {
  const { fleet } = repository;
  const known = repository.device(device);
  if (known === undefined || clientId !== renewalClientIdOf(fleet, device))
    return { refused: "a renewal of an unknown device", code: "DEVICE_UNKNOWN" };
  if (will !== undefined) return { refused: "a renewal with a will", code: "ENVELOPE_MALFORMED" };
  if (known.state !== "enrolled") return notServed(known.state);
  const subject = { fleet, ...known };
  const { why } = certificates?.ofDevice(chain, subject, repository, { mayBeExpired: true }) ?? {
    why: "this server gives no certificates",
  };
  if (why !== undefined)
    return {
      refused: `a renewal with a certificate that is not accepted: ${why}`,
      code: "CERTIFICATE_REFUSED",
    };
  try {
    const request = parseCertificateRequest(parseJson(password));
    const { renewal } = request;
    if (renewal?.fleet !== fleet || renewal.device !== device)
      return { refused: "it asks for something else than its renewal", code: "CERTIFICATE_REFUSED" };
    const answer = await certify(request);
    const body = { type: "command", name: "certificate", json: JSON.stringify({ answer }) } as const;
    return answerOnly({ root, fleet, device }, body);
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    return { refused: error.message, code: error.code };
  }
}
