/**
 * Certificates for devices: invitations, first certificates and renewals. A request proves itself, so it may come from
 * anybody and by any way. An invitation is used up by the fact of the enrolment, which starts the generation that it
 * names; the same keys may ask again, and get the same certificate, since the answer may have been lost.
 */
import { defined } from "../../../shared/defined.js";
import {
  isRenewalSigned,
  parseCertificateRequest,
  signAnswer,
  type CertificateAnswer,
  type CertificateRequest,
} from "../../../shared/trust/certificates/certificate-exchange.js";
import {
  readRequest,
  type RequestedIdentity,
} from "../../../shared/trust/certificates/certificate-request.js";
import {
  parseInvitation,
  signInvitation,
  type Invitation,
} from "../../../shared/trust/certificates/invitation.js";
import { certificatesOfPem } from "../../../shared/trust/certificates/pem-chain.js";
import { certificatesBeginMs, verifyChain } from "../../../shared/trust/certificates/verify-chain.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import {
  deviceCertificateMs,
  type Authority,
  type IssuedCertificate,
} from "../../access/identity/authority.js";
import type { JudgedCertificate } from "../../access/identity/judge-certificate.js";
import { certificateRefused, renewedJustNow } from "./device-errors.js";
import { authorityOf } from "./own-authority.js";
import { changesToShow } from "../../access/identity/key-changes.js";
import type { DeviceSummary } from "../../storage/repository/answers/device-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { enrolOfBatch } from "./batch-enrolment.js";
import { initialModels, checkEnrolment, enrolledReleases, invitationAddresses } from "./enrol-device.js";
import {
  certificateOf,
  enrolWithCertificate,
  giveInitial,
  whyNotOfServer,
} from "../enrol-with-certificate.js";
import { checkEnrolmentProfile } from "./enrolment-profile.js";
import { refuseOpenClaims } from "../models/open-claims.js";
import { certificateSource, judgeOf, requireFleetAuthority } from "./owned-certificates.js";

const defaultValidMs = 7 * 86_400_000;
/** A device that asks more often only makes the journal longer. */
const minRenewalMs = 600_000;

/** @throws CONFIG_INVALID where the server has no authority; what an enrolment throws */
export async function invite(
  context: OperationsContext,
  input: OperationInput<"invite">,
): Promise<Invitation> {
  const { fleet, device, lines, profile = "generic", initial = {}, allowReduced = false } = input;
  const { home } = context;
  context.live?.requireClock();
  const addresses = await invitationAddresses(context, { device, authority: input.authority });
  const repository = await checkEnrolment(context, input);
  await refuseOpenClaims(context, repository, input);
  await checkEnrolmentProfile(home.ports.files, profile);
  if (input.authority !== undefined) requireFleetAuthority(repository, input.authority);
  const generation = repository.nextGeneration(device);
  const issuedAtMs = home.ports.clock.now();
  const subject: DeviceSummary = {
    device,
    generation,
    profile,
    lines,
    publicKey: "",
    tokenHash: "",
    session: 0,
    active: {},
    enrolledAtMs: issuedAtMs,
    state: "enrolled",
  };
  const given = (await initialModels(repository, subject, { initial, allowReduced, force: input.force })).map(
    ({ line, summary }) => [line, summary.versionId] as const,
  );
  return signInvitation(home.signer, {
    kind: "stemma-invitation",
    format: 1,
    fleet,
    device,
    generation,
    profile,
    lines: [...lines],
    ...addresses,
    serverPublicKey: home.signer.publicKey,
    ...(given.length === 0 ? {} : { initial: Object.fromEntries(given) }),
    ...(await enrolledReleases(repository, input.releases)),
    ...defined({ authority: input.authority }),
    issuedAtMs,
    expiresAtMs: issuedAtMs + (input.validMs ?? defaultValidMs),
    ...defined({ by: context.caller && { ...context.caller } }),
  });
}

/** @throws ENROLMENT_INVALID, CERTIFICATE_REFUSED, QUOTA_EXCEEDED */
export async function certify(context: OperationsContext, value: unknown): Promise<CertificateAnswer> {
  const request = parseCertificateRequest(value);
  context.live?.requireClock();
  const { certificate, generation } = await certificateFor(context, request);
  const { signer, keyChanges, ports } = context.home;
  const changes = changesToShow(keyChanges);
  return signAnswer(signer, request.request, {
    certificate,
    ...defined({ generation }),
    authorities: [(await authorityOf(context)).certificate],
    ...(changes.length === 0 ? {} : { keyChanges: [...changes] }),
    issuedAtMs: ports.clock.now(),
  });
}

/** `generation`: where the device does not know it. */
async function certificateFor(
  context: OperationsContext,
  request: CertificateRequest,
): Promise<IssuedCertificate & { readonly generation?: number }> {
  const { renewal, batch, invitation } = request;
  if (renewal !== undefined) return renew(context, request, renewal);
  if (batch === undefined) return enrolInvited(context, request, parseInvitation(invitation));
  return enrolOfBatch(context, request, batch);
}

async function enrolInvited(
  context: OperationsContext,
  { request, owned }: CertificateRequest,
  invitation: Invitation,
): Promise<IssuedCertificate> {
  const { fleets, home } = context;
  const { fleet, device, generation } = invitation;
  const foreign = whyNotOfServer(home, invitation.serverPublicKey);
  if (foreign !== undefined) throw certificateRefused(device, foreign);
  const ofOwner = invitation.authority !== undefined;
  const asked = await readRequest(request, invitation, { ofOwner });
  // The fleet's name was decided by the one who invited the device.
  const opened = await fleets.get(fleet, { create: true, force: true });
  // Caused by who invited the device, not by who carries its request.
  const repository = invitation.by === undefined ? opened : opened.as(defined(invitation.by));
  const repeated = certificateOf(repository.device(device), invitation, asked);
  const source = await certificateSource(context, repository, {
    device,
    asked,
    owned,
    authority: invitation.authority,
  });
  const atMs = home.ports.clock.now();
  if (repeated !== undefined) {
    await giveInitial(repository, invitation, atMs);
    return source(invitation, repeated);
  }
  if (generation !== repository.nextGeneration(device))
    throw certificateRefused(
      device,
      `its invitation was used before, or the device was enrolled again since. Invite it again with \`stemma device enroll ${device}\`.`,
    );
  if (invitation.expiresAtMs <= atMs)
    throw certificateRefused(
      device,
      `its invitation ended at ${new Date(invitation.expiresAtMs).toISOString()}. Invite it again with \`stemma device enroll ${device}\`.`,
    );
  return enrolWithCertificate(context, repository, { terms: invitation, asked, source, atMs });
}

async function renew(
  context: OperationsContext,
  { request }: CertificateRequest,
  renewal: NonNullable<CertificateRequest["renewal"]>,
): Promise<IssuedCertificate> {
  const { fleet, device, generation, certificate, signature } = renewal;
  const { fleets, home } = context;
  const repository = await fleets.get(fleet);
  const known = repository.device(device);
  const atMs = home.ports.clock.now();
  if (known?.state !== "enrolled" || known.generation !== generation)
    throw certificateRefused(
      device,
      `it is ${known === undefined ? "unknown" : known.state}, or was enrolled again. Invite it with \`stemma device enroll\``,
    );
  const judge = await judgeOf(context);
  const chain = chainOf(certificate);
  const judged = judge.ofDevice(chain, { fleet, ...known }, repository, { mayBeExpired: true });
  if (judged.why !== undefined)
    throw certificateRefused(device, `the certificate that it has is not accepted: ${judged.why}`);
  if (!isRenewalSigned(request, certificate, signature))
    throw certificateRefused(
      device,
      "the key of the certificate that it has did not sign this request. Make the request again on that device",
    );
  const ofOwner = judged.certificate.authority !== undefined;
  const asked = await readRequest(request, { fleet, device, generation }, { ofOwner });
  if (asked.devicePublicKey !== known.publicKey)
    throw certificateRefused(
      device,
      "the request is of another device's key. Make the request again on that device",
    );
  if (ofOwner) {
    await confirmOwned(repository, { device, generation, atMs, judged, asked });
    return { certificate, ...judged.certificate };
  }
  const authority = await authorityOf(context);
  const repeated = certificateOf(known, renewal, asked);
  if (repeated !== undefined) return authority.issueForDevice(renewal, asked.connectionKey, repeated);
  // A certificate of the authority before: the device has to follow the change of the server's key now.
  if (isIssuedBy(chain, authority, atMs)) refuseOftenRenewed(known, atMs);
  const issued = await authority.issueForDevice(renewal, asked.connectionKey, { atMs });
  const { serial, notAfterMs } = issued;
  await repository.append({
    type: "certified",
    atMs,
    device,
    generation,
    certificate: { serial, keyHash: asked.keyHash, notAfterMs },
  });
  return issued;
}

/**
 * A device with a certificate of its owner's authority asks what the server's keys are now. It gets no other
 * certificate: that authority renews it.
 */
async function confirmOwned(
  repository: FleetRepository,
  {
    device,
    generation,
    atMs,
    judged,
    asked,
  }: {
    readonly device: string;
    readonly generation: number;
    readonly atMs: number;
    readonly judged: Extract<JudgedCertificate, { readonly why?: undefined }>;
    readonly asked: RequestedIdentity;
  },
): Promise<void> {
  const { certificate, isNew } = judged;
  if (asked.keyHash !== certificate.keyHash)
    throw certificateRefused(
      device,
      "the request is of another key than its certificate. Put the key of the certificate beside it, and ask again",
    );
  if (isNew) await repository.append({ type: "certified", atMs, device, generation, certificate });
}

function isIssuedBy(chain: readonly Uint8Array[], authority: Authority, atMs: number): boolean {
  const rules = { authorities: [authority.parsed], atMs: Math.max(atMs, certificatesBeginMs) };
  return verifyChain(chain, { ...rules, purpose: "device" }).verdict !== "refused";
}

/** @throws QUOTA_EXCEEDED */
function refuseOftenRenewed({ device, certificates = [] }: DeviceSummary, atMs: number): void {
  const newest = certificates.at(-1);
  if (certificates.length < 2 || newest === undefined) return;
  const sinceMs = atMs - (newest.notAfterMs - deviceCertificateMs);
  if (sinceMs >= 0 && sinceMs < minRenewalMs) throw renewedJustNow(device, sinceMs, minRenewalMs);
}

/** Empty where it is not a certificate, which the chain's judge then refuses. */
function chainOf(pem: string): readonly Uint8Array[] {
  try {
    return certificatesOfPem(pem);
  } catch {
    return [];
  }
}
