/**
 * Judges the certificates of devices by the authority that each is enrolled with. So a certificate of one
 * authority never stands for a device of another. One judge is used for connections, renewals and enrolments.
 */
import { X509Certificate } from "node:crypto";
import { isStemmaError } from "../../../shared/errors.js";
import type { DeviceCertificate } from "../../../shared/journal/facts/device-facts.js";
import type { Clock } from "../../../shared/ports.js";
import {
  certificatesBeginMs,
  verifyChain,
  type VerifiedCertificate,
  subjectOf,
  type ChainVerdict,
  type DeviceSubject,
} from "../../../shared/trust/certificates/verify-chain.js";
import { dateOf } from "./authority-file.js";
import type { Authority } from "./authority.js";
import { authoritiesBefore, type KeptKeyChange } from "./key-changes.js";
import { whyNotNamed } from "./name-form.js";
import type { FleetCertificates, TrustedAuthority } from "./trusted-authority.js";

export type JudgedCertificate =
  /** `hasEnded`: all is well but the time. */
  | { readonly why: string; readonly hasEnded?: boolean }
  | {
      readonly why?: undefined;
      readonly certificate: DeviceCertificate;
      /** True for a certificate of an owner's authority that is not in the journal yet. */
      readonly isNew: boolean;
    };

/** A chain: DER, the device's own certificate first. */
export interface CertificateJudge {
  /**
   * The present certificate of an enrolled device.
   * @param mayBeExpired for a renewal of one that the server issued; an owner's must be renewed by its own authority
   */
  ofDevice(
    chain: readonly Uint8Array[],
    device: CertifiedDevice,
    fleet: FleetCertificates,
    options?: { readonly mayBeExpired?: boolean },
  ): JudgedCertificate;
  /** The certificate with which a device enrols that has one of this authority. */
  ofEnrolment(
    chain: readonly Uint8Array[],
    authority: TrustedAuthority,
    device: string,
    fleet: FleetCertificates,
  ): JudgedCertificate;
}

export interface JudgeParts {
  readonly authority: Pick<Authority, "parsed">;
  /** Changes of the server's key: certificates of its earlier authorities are renewed. */
  readonly keyChanges: readonly KeptKeyChange[];
  readonly clock: Pick<Clock, "now">;
}

export function certificateJudge({ authority, keyChanges, clock }: JudgeParts): CertificateJudge {
  const own = [authority.parsed, ...authoritiesBefore(keyChanges).map((pem) => new X509Certificate(pem))];
  const nowMs = (): number => Math.max(clock.now(), certificatesBeginMs);
  return {
    ofDevice: (chain, device, fleet, options) => {
      const known = device.certificates?.at(-1)?.authority;
      if (known === undefined) {
        const found = verifyChain(chain, { authorities: own, atMs: nowMs(), purpose: "device" });
        const why = whyNotCertificate(found, device);
        if (why !== undefined || found.verdict === "refused") return { why: why ?? "it is refused" };
        if (found.verdict === "expired" && options?.mayBeExpired !== true)
          return {
            hasEnded: true,
            why: `it ended on ${dateOf(found.certificate.notAfterMs)} and was not renewed; its agent renews it when it reaches this server over HTTPS or MQTT, else carry files (stemma agent renew --request FILE)`,
          };
        const { serial, keyHash, notAfterMs } = found.certificate;
        return { certificate: { serial, keyHash, notAfterMs }, isNew: false };
      }
      const trusted = fleet.authority(known);
      if (trusted === undefined) return { why: `its authority ${known} was removed from the fleet` };
      return judgeOwned(chain, { authority: trusted, device, fleet, atMs: nowMs(), isFirst: false });
    },
    ofEnrolment: (chain, trusted, device, fleet) =>
      judgeOwned(chain, { authority: trusted, device: { device }, fleet, atMs: nowMs(), isFirst: true }),
  };
}

interface OwnedQuestion {
  readonly authority: TrustedAuthority;
  readonly device: Pick<CertifiedDevice, "device" | "certificates">;
  readonly fleet: FleetCertificates;
  readonly atMs: number;
  /** The device is not enrolled yet. */
  readonly isFirst: boolean;
}

/** A certificate of an owner's authority: its chain, its name, whether it was revoked, and by whom. */
function judgeOwned(chain: readonly Uint8Array[], question: OwnedQuestion): JudgedCertificate {
  try {
    return judgeReadable(chain, question);
  } catch (error) {
    // Its names are read after its chain was verified: they can be in a form that is not.
    if (!isStemmaError(error, "CERTIFICATE_REFUSED")) throw error;
    return { why: error.message };
  }
}

function judgeReadable(chain: readonly Uint8Array[], question: OwnedQuestion): JudgedCertificate {
  const { authority, device, fleet, atMs } = question;
  const authorities = authority.certificates.map((pem) => new X509Certificate(pem));
  const found = verifyChain(chain, { authorities, atMs, purpose: "device" });
  if (found.verdict === "refused") return { why: found.why };
  const { certificate } = found;
  if (found.verdict === "expired")
    return {
      hasEnded: true,
      why: `it, or what issued it, expired on ${dateOf(certificate.chainEndsMs)}; ${authority.authority} has to issue a new one, which this server cannot`,
    };
  const unnamed = whyNotNamed(certificate.fields, authority.nameForm, {
    fleet: fleet.fleet,
    device: device.device,
  });
  const why = unnamed ?? whyRevoked(certificate, question);
  if (why !== undefined) return { why };
  const { serial, issuer, keyHash, notAfterMs } = certificate;
  const isKnown = device.certificates?.some((each) => each.serial === serial && each.issuer === issuer);
  return {
    certificate: { serial, keyHash, notAfterMs, authority: authority.authority, issuer },
    isNew: isKnown !== true,
  };
}

function whyRevoked(
  certificate: VerifiedCertificate,
  { authority, fleet, atMs, isFirst }: OwnedQuestion,
): string | undefined {
  if (fleet.isEndedCertificate(certificate))
    return "it was of a device that was revoked, and is not taken again; have another one issued";
  const { revoked, lists, onEndedList } = authority;
  for (const { issuer, serial } of certificate.path) {
    if (revoked.get(issuer)?.has(serial) === true)
      return `it, or what issued it (${serial}), is on the revocation list of its issuer`;
    const list = lists.get(issuer);
    const hasEnded = list !== undefined && list.nextUpdateMs <= atMs;
    if (hasEnded && (isFirst || onEndedList === "refuse"))
      return `the revocation list of its issuer ended on ${dateOf(list.nextUpdateMs)}: give the server the newest one (stemma authority crl)`;
  }
  return undefined;
}

/** The device that a certificate is for, as the server knows it. */
interface CertifiedDevice extends DeviceSubject {
  readonly certificates?: readonly DeviceCertificate[];
}

/**
 * Returns why a certificate is not the present one of a device; undefined where it is. One of an earlier enrolment
 * has another subject; one that was replaced, or that the journal does not know, another serial.
 */
function whyNotCertificate(found: ChainVerdict, device: CertifiedDevice): string | undefined {
  if (found.verdict === "refused") return found.why;
  const { serial, subject, keyHash } = found.certificate;
  if (subject !== subjectOf(device)) return "it is of another device or enrolment";
  const isKnown = device.certificates?.some((each) => each.serial === serial && each.keyHash === keyHash);
  return isKnown === true ? undefined : "it was replaced by newer ones";
}
