/**
 * Decides whether a chain of certificates (RFC 5280) is to be trusted, at a time that the caller trusts. Both
 * sides of every connection are judged here and nowhere else: TLS itself would ask the clock of the machine,
 * which on a device may show anything. Pure.
 */
import { X509Certificate } from "node:crypto";
import { messageOf } from "../../error-text.js";
import {
  basicConstraintsOf,
  extendedUsagesOf,
  extensionIds,
  issuerIdOf,
  mayBeUsedTo,
  readCertificateFields,
  type CertificateFields,
} from "./certificate-fields.js";
import { connectionKeyHash } from "./connection-key.js";
import { whyWeakKey, whyWeakSignature } from "./strong-enough.js";

/** The purpose of a certificate: one of the server's addresses, or a device's connection. */
export type Purpose = "server" | "device";

export interface ChainRules {
  /** The authorities that are trusted, whatever the peer sends. */
  readonly authorities: readonly X509Certificate[];
  /** Milliseconds since 1970. */
  readonly atMs: number;
  readonly purpose: Purpose;
}

/** Names a certificate: its number counts within its issuer (issuerIdOf). Both lower-case hex. */
export interface CertificateNumber {
  readonly issuer: string;
  readonly serial: string;
}

/** The peer's own certificate, of a chain that is trusted or has only ended. */
export interface VerifiedCertificate extends CertificateNumber {
  /** One member a line, as subjectOf writes it. */
  readonly subject: string;
  readonly keyHash: string;
  readonly notAfterMs: number;
  /** The end of the first of the chain to end: this one, one between, or the authority. */
  readonly chainEndsMs: number;
  /**
   * The issued certificates upwards: this one and those between it and the authority; one where that issued it itself.
   */
  readonly path: readonly CertificateNumber[];
  /** The subject of the authority that issued this one, as `subject`. */
  readonly issuerSubject: string;
  readonly fields: CertificateFields;
}

export type ChainVerdict =
  | { readonly verdict: "trusted"; readonly certificate: VerifiedCertificate }
  /** All is well but the time. */
  | { readonly verdict: "expired"; readonly certificate: VerifiedCertificate }
  /** `isEarly`: all is well but the time, which has not come. */
  | { readonly verdict: "refused"; readonly why: string; readonly isEarly?: true };

/** True if a chain is refused for its validity alone: another time would have it trusted. */
export function isUntimely(found: ChainVerdict): boolean {
  return found.verdict === "expired" || (found.verdict === "refused" && found.isEarly === true);
}

/**
 * The time when every certificate of Stemma begins: long before it is issued, because a clock that is wrong
 * then must not lock a device out later. What ends one early is its serial. No trusted time is earlier.
 */
export const certificatesBeginMs = Date.UTC(2020, 0, 1);

/** The peer's certificate and at most three between it and an authority. */
export const maxChainLength = 4;
const maxCertificateBytes = 8 * 1024;

/** Extended key usages (RFC 5280, 4.2.1.12). */
const usages: Readonly<Record<Purpose, string>> = {
  server: "1.3.6.1.5.5.7.3.1",
  device: "1.3.6.1.5.5.7.3.2",
};

export interface DeviceSubject {
  readonly fleet: string;
  readonly device: string;
  readonly generation: number;
}

/** The subject of a device's certificate, as Node prints it. Names need no escapes (isName). */
export function subjectOf({ fleet, device, generation }: DeviceSubject): string {
  return `O=${fleet}\nOU=generation ${generation}\nCN=${device}`;
}

/** The names of servers' authorities; what they issue below each other is a change of the server's key. */
export const authorityNamePrefix = "authority ";

/** True if a subject, as Node prints it, is of a server's own authority. */
export function isServerAuthority(subject: string): boolean {
  return subject.startsWith(`O=Stemma\nCN=${authorityNamePrefix}`);
}

/** A certificate of a chain, as Node reads it and with what Node does not tell. */
export interface Link {
  readonly certificate: X509Certificate;
  readonly fields: CertificateFields;
}

/** @param chain DER, the peer's own certificate first */
export function verifyChain(chain: readonly Uint8Array[], rules: ChainRules): ChainVerdict {
  const refused = (why: string): ChainVerdict => ({ verdict: "refused", why });
  if (chain.length === 0) return refused("there is no certificate");
  if (chain.length > maxChainLength)
    return refused(`the chain has ${chain.length} certificates, and at most ${maxChainLength} are read`);
  if (chain.some(({ length }) => length > maxCertificateBytes))
    return refused(`a certificate is larger than ${maxCertificateBytes} bytes`);
  try {
    const certificates = chain.map((der) => new X509Certificate(der));
    const found = pathToAuthority(certificates, rules);
    if (found === undefined) return refused("it was not issued by an authority that is trusted here");
    const path = found.path.map(linkOf);
    return judgePath(path, linkOf(found.authority), rules);
  } catch (error) {
    return refused(`a certificate cannot be read (${messageOf(error)})`);
  }
}

/** @throws CERTIFICATE_REFUSED */
export function linkOf(certificate: X509Certificate): Link {
  return { certificate, fields: readCertificateFields(certificate.raw) };
}

function judgePath(path: readonly Link[], authority: Link, rules: ChainRules): ChainVerdict {
  const refused = (why: string): ChainVerdict => ({ verdict: "refused", why });
  const [leaf, ...between] = path as readonly [Link, ...Link[]];
  const issuers = [...between, authority];
  const wrongIssuer = issuers
    .map((issuer, below) => whyNotIssuer(issuer, { below, purpose: rules.purpose }))
    .find((why) => why !== undefined);
  if (wrongIssuer !== undefined) return refused(`of what issued it: ${wrongIssuer}`);
  const weak = path.map(({ fields }) => whyWeakSignature(fields.signedBy)).find((why) => why !== undefined);
  const wrong = weak ?? whyNotFor(leaf, rules.purpose);
  if (wrong !== undefined) return refused(wrong);
  const all = [...path, authority].map(({ certificate }) => certificate);
  if (all.some((each) => Date.parse(each.validFrom) > rules.atMs))
    return {
      verdict: "refused",
      why: `it is valid only from ${leaf.certificate.validFrom} on`,
      isEarly: true,
    };
  const chainEndsMs = Math.min(...all.map((each) => Date.parse(each.validTo)));
  const numbers = path.map(({ certificate }, index) => ({
    serial: certificate.serialNumber.toLowerCase(),
    issuer: issuerIdOf((issuers[index] as Link).fields),
  }));
  return {
    verdict: rules.atMs < chainEndsMs ? "trusted" : "expired",
    certificate: {
      ...(numbers[0] as CertificateNumber),
      subject: leaf.certificate.subject,
      keyHash: connectionKeyHash(leaf.certificate.publicKey.export({ type: "spki", format: "der" })),
      notAfterMs: Date.parse(leaf.certificate.validTo),
      chainEndsMs,
      path: numbers,
      issuerSubject: (issuers[0] as Link).certificate.subject,
      fields: leaf.fields,
    },
  };
}

/** Extensions that are understood here, or that limit nothing that is done here. */
const understood: ReadonlySet<string> = new Set([
  extensionIds.subjectKeyIdentifier,
  extensionIds.keyUsage,
  extensionIds.subjectAltName,
  extensionIds.basicConstraints,
  extensionIds.certificatePolicies,
  extensionIds.authorityKeyIdentifier,
  extensionIds.extendedKeyUsage,
]);

/**
 * Returns why its limits cannot be kept (RFC 5280, 4.2). Constraints of names are never read, so a
 * certificate that has some is refused, also where they are not marked critical.
 */
function whyNotUnderstood({ extensions }: CertificateFields): string | undefined {
  if (extensions.has(extensionIds.nameConstraints))
    return "it has constraints of names, which are not read here";
  const unknown = [...extensions].find(([id, { critical }]) => critical && !understood.has(id));
  return unknown && `its critical extension ${unknown[0]} is not known here`;
}

/**
 * Returns why what issues certificates is not of a trusted authority; undefined if it is.
 * @param chain DER, its own certificate first
 */
export function whyNotIssuingChain(chain: readonly Uint8Array[], rules: ChainRules): string | undefined {
  if (chain.length > maxChainLength) return `at most ${maxChainLength} certificates are read`;
  const certificates = chain.map((der) => new X509Certificate(der));
  const found = pathToAuthority(certificates, rules);
  if (found === undefined) return "none of the authority's certificates issued it";
  const all = [...found.path, found.authority];
  const isValid = all.every(
    ({ validFrom, validTo }) => Date.parse(validFrom) <= rules.atMs && rules.atMs < Date.parse(validTo),
  );
  if (!isValid) return "it, or what issued it, is not valid now";
  return all
    .map((each, below) => whyNotIssuer(linkOf(each), { below, purpose: rules.purpose }))
    .find((why) => why !== undefined);
}

const anyUsage = "2.5.29.37.0";

/**
 * Returns why a certificate may not issue this; undefined if it may.
 * @param below how many authorities are between it and the peer's certificate
 */
export function whyNotIssuer(
  { certificate, fields }: Link,
  { below, purpose }: { readonly below: number; readonly purpose: Purpose },
): string | undefined {
  const { isAuthority, pathLength } = basicConstraintsOf(fields);
  if (!isAuthority) return "it is not the certificate of an authority";
  if (mayBeUsedTo(fields, "keyCertSign") !== true)
    return "its key may not be used to issue certificates (key usage)";
  if (pathLength !== undefined && below > pathLength)
    return `it allows ${pathLength} authorities below it, and there are ${below}`;
  const allowed = extendedUsagesOf(fields);
  if (allowed !== undefined && !allowed.some((use) => use === usages[purpose] || use === anyUsage))
    return `it may not issue certificates for a ${purpose} (extended key usage)`;
  return whyNotUnderstood(fields) ?? whyWeakKey(certificate.publicKey);
}

function whyNotFor({ certificate, fields }: Link, purpose: Purpose): string | undefined {
  if (certificate.ca) return "it is the certificate of an authority";
  if (extendedUsagesOf(fields)?.includes(usages[purpose]) !== true)
    return `it is not for a ${purpose} (extended key usage)`;
  if (mayBeUsedTo(fields, "digitalSignature") === false)
    return "its key may not be used to sign, which a TLS connection needs (key usage)";
  return whyNotUnderstood(fields) ?? whyWeakKey(certificate.publicKey);
}

interface FoundPath {
  /** The certificates from the peer's own to the one that the authority issued. */
  readonly path: readonly X509Certificate[];
  readonly authority: X509Certificate;
}

/** Finds the path to an authority; undefined: none of the certificates leads to one. */
function pathToAuthority(
  certificates: readonly X509Certificate[],
  { authorities, atMs }: ChainRules,
): FoundPath | undefined {
  const path: X509Certificate[] = [];
  for (const certificate of certificates) {
    const below = path.at(-1);
    if (below !== undefined && !(certificate.ca && isIssuedBy(below, certificate))) return undefined;
    path.push(certificate);
    const issuers = authorities.filter((authority) => isIssuedBy(certificate, authority));
    // An authority whose certificate was renewed for the same key may be there twice.
    const authority = issuers.find((each) => atMs < Date.parse(each.validTo)) ?? issuers[0];
    if (authority !== undefined) return { path, authority };
  }
  return undefined;
}

/** True if the issuer's name and signature are on the certificate: a name alone is anybody's. */
function isIssuedBy(certificate: X509Certificate, issuer: X509Certificate): boolean {
  try {
    return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
  } catch {
    return false;
  }
}
