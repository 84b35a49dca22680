/**
 * Provides the certificate of an enrolment: the server's own authority issues it, or the device has one of an
 * authority of the fleet's owner. Which of both is said by who invited the device, and never by the device.
 */
import { X509Certificate } from "node:crypto";
import type { RequestedIdentity } from "../../../shared/trust/certificates/certificate-request.js";
import { certificatesOfPem } from "../../../shared/trust/certificates/pem-chain.js";
import type { DeviceSubject } from "../../../shared/trust/certificates/verify-chain.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { IssuedCertificate } from "../../access/identity/authority.js";
import { certificateJudge, type CertificateJudge } from "../../access/identity/judge-certificate.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { AuthorityState } from "../../storage/repository/state/authority-state.js";
import { authorityUnknown } from "../../storage/repository/state/state-errors.js";
import { notEnrolled, showsNone, showsOwned } from "./device-errors.js";
import { authorityOf } from "./own-authority.js";

/** @param when now, or a certificate that these keys have already */
export type CertificateSource = (
  subject: DeviceSubject,
  when: { readonly atMs: number } | Pick<IssuedCertificate, "serial" | "notAfterMs">,
) => Promise<IssuedCertificate>;

export interface CertificateWanted {
  readonly device: string;
  readonly asked: RequestedIdentity;
  /** PEM of the certificate that the device has, with those between. */
  readonly owned: string | undefined;
  /** The authority that has to have issued it; undefined: the server's own issues it. */
  readonly authority: string | undefined;
}

/** The judge of devices' certificates, for an operation. */
export async function judgeOf(context: OperationsContext): Promise<CertificateJudge> {
  const { keyChanges, ports } = context.home;
  return certificateJudge({ authority: await authorityOf(context), keyChanges, clock: ports.clock });
}

/** @throws NOT_FOUND where the fleet has no such authority */
export function requireFleetAuthority(
  repository: Pick<FleetRepository, "authority">,
  name: string,
): AuthorityState {
  const known = repository.authority(name);
  if (known === undefined) throw authorityUnknown(name);
  return known;
}

/** @throws CERTIFICATE_REFUSED */
export async function certificateSource(
  context: OperationsContext,
  repository: FleetRepository,
  { device, asked, owned, authority }: CertificateWanted,
): Promise<CertificateSource> {
  if (authority === undefined) {
    if (owned !== undefined) throw showsOwned(device);
    const own = await authorityOf(context);
    return (subject, when) => own.issueForDevice(subject, asked.connectionKey, when);
  }
  if (owned === undefined) throw showsNone(device, authority);
  const trusted = requireFleetAuthority(repository, authority);
  const chain = certificatesOfPem(owned);
  const judged = (await judgeOf(context)).ofEnrolment(chain, trusted, device, repository);
  if (judged.why !== undefined)
    throw notEnrolled(device, `its certificate of ${authority} is not accepted: ${judged.why}`);
  const { serial, notAfterMs, issuer = "", keyHash } = judged.certificate;
  if (keyHash !== asked.keyHash)
    throw notEnrolled(device, "the request is of another key than its certificate");
  const certificate = new X509Certificate(chain[0] as Uint8Array).toString();
  return () => Promise.resolve({ certificate, serial, notAfterMs, authority, issuer });
}
