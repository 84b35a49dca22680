/** Whether a certificate is the present one of a device. Pure. */
import type { DeviceCertificate } from "../../shared/journal/facts/device-facts.js";
import {
  subjectOf,
  type ChainVerdict,
  type DeviceSubject,
} from "../../shared/trust/certificates/verify-chain.js";

/** What the server knows of the device. */
export interface CertifiedDevice extends DeviceSubject {
  readonly certificates?: readonly DeviceCertificate[];
}

/**
 * Undefined where it is. A certificate of an earlier enrolment has another subject; one that was replaced, or that the
 * journal does not know, another serial.
 * @param mayBeExpired for a renewal
 */
export function whyNotCertificate(
  found: ChainVerdict,
  device: CertifiedDevice,
  { mayBeExpired = false }: { readonly mayBeExpired?: boolean } = {},
): string | undefined {
  if (found.verdict === "refused") return found.why;
  const { serial, subject, keyHash } = found.certificate;
  if (subject !== subjectOf(device)) return "it is of another device or enrolment";
  const isKnown = device.certificates?.some((each) => each.serial === serial && each.keyHash === keyHash);
  if (isKnown !== true) return "it was replaced by newer ones";
  return found.verdict === "expired" && !mayBeExpired ? "it has expired" : undefined;
}
