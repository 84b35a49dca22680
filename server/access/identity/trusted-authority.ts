/** An authority of a fleet's owner, as the judge of certificates needs it. Types, and the name of a certificate. */
import type { EndedListPolicy } from "../../../shared/journal/facts/authority-facts.js";
import type { CertificateNumber } from "../../../shared/trust/certificates/verify-chain.js";

/** The newest revocation list of one issuer. */
export interface RevocationList {
  /** Decimal. */
  readonly number: string;
  readonly thisUpdateMs: number;
  readonly nextUpdateMs: number;
}

export interface TrustedAuthority {
  /** The authority's name in the fleet. */
  readonly authority: string;
  /** PEM. */
  readonly certificates: readonly string[];
  /** The form in which its certificates name a device (name-form.ts). */
  readonly nameForm: string;
  readonly onEndedList: EndedListPolicy;
  /** Issuer → serial numbers that its lists revoke. */
  readonly revoked: ReadonlyMap<string, ReadonlySet<string>>;
  /** Issuer → its newest list. */
  readonly lists: ReadonlyMap<string, RevocationList>;
}

/** The certificates that a fleet's journal states. */
export interface FleetCertificates {
  readonly fleet: string;
  /** Returns the authority; undefined where there is none of this name, or it was removed. */
  authority(name: string): TrustedAuthority | undefined;
  /** True if the certificate was of a device that was revoked. */
  isEndedCertificate(certificate: CertificateNumber): boolean;
}

/** Returns a certificate's key for sets and maps. */
export function numberKey({ issuer, serial }: CertificateNumber): string {
  return `${issuer}:${serial}`;
}
