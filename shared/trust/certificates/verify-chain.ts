/**
 * Whether a chain of certificates (RFC 5280) is to be trusted, at a time that the caller trusts. Both sides of every
 * connection are judged here and nowhere else: TLS itself would ask the clock of the machine, which on a device may
 * show anything. Pure.
 */
import { X509Certificate } from "node:crypto";
import { messageOf } from "../../error-text.js";
import { connectionKeyHash } from "./connection-key.js";

/** What a certificate is for: one of the server's addresses, or a device's connection. */
export type Purpose = "server" | "device";

export interface ChainRules {
  /** The authorities that are trusted, whatever the peer sends. */
  readonly authorities: readonly X509Certificate[];
  /** Milliseconds since 1970. */
  readonly atMs: number;
  readonly purpose: Purpose;
}

/** The peer's own certificate, of a chain that is trusted or has only ended. */
export interface VerifiedCertificate {
  /** Lower-case hex. */
  readonly serial: string;
  /** One member a line, as subjectOf writes it. */
  readonly subject: string;
  readonly keyHash: string;
  readonly notAfterMs: number;
  /** Certificates from this one to the trusted authority, that one not counted: 1 where it issued this one itself. */
  readonly pathLength: number;
}

export type ChainVerdict =
  | { readonly verdict: "trusted"; readonly certificate: VerifiedCertificate }
  /** All is well but the time. */
  | { readonly verdict: "expired"; readonly certificate: VerifiedCertificate }
  | { readonly verdict: "refused"; readonly why: string };

/**
 * When every certificate of Stemma begins: long before it is issued, because a clock that is wrong then must not lock a
 * device out later. What ends one early is its serial. No trusted time is earlier.
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

/** @param chain DER, the peer's own certificate first */
export function verifyChain(chain: readonly Uint8Array[], rules: ChainRules): ChainVerdict {
  const refused = (why: string): ChainVerdict => ({ verdict: "refused", why });
  if (chain.length === 0) return refused("there is no certificate");
  if (chain.length > maxChainLength)
    return refused(`the chain has ${chain.length} certificates, and at most ${maxChainLength} are read`);
  if (chain.some(({ length }) => length > maxCertificateBytes))
    return refused(`a certificate is larger than ${maxCertificateBytes} bytes`);
  let certificates: readonly X509Certificate[];
  try {
    certificates = chain.map((der) => new X509Certificate(der));
  } catch (error) {
    return refused(`a certificate cannot be read (${messageOf(error)})`);
  }
  const leaf = certificates[0] as X509Certificate;
  const path = pathToAuthority(certificates, rules.authorities);
  if (path === undefined) return refused("it was not issued by an authority that is trusted here");
  const wrongUse = whyNotFor(leaf, rules.purpose);
  if (wrongUse !== undefined) return refused(wrongUse);
  if (path.some((each) => Date.parse(each.validFrom) > rules.atMs))
    return refused(`it is valid only from ${leaf.validFrom} on`);
  return {
    verdict: path.every((each) => rules.atMs < Date.parse(each.validTo)) ? "trusted" : "expired",
    certificate: {
      serial: leaf.serialNumber.toLowerCase(),
      subject: leaf.subject,
      keyHash: connectionKeyHash(leaf.publicKey.export({ type: "spki", format: "der" })),
      notAfterMs: Date.parse(leaf.validTo),
      pathLength: path.length,
    },
  };
}

function whyNotFor(leaf: X509Certificate, purpose: Purpose): string | undefined {
  if (leaf.ca) return "it is the certificate of an authority";
  // Node's name for the extended key usages.
  if (!(leaf.keyUsage as readonly string[] | undefined)?.includes(usages[purpose]))
    return `it is not for a ${purpose}`;
  if (leaf.publicKey.asymmetricKeyDetails?.namedCurve !== "prime256v1") return "its key is not of P-256";
  return undefined;
}

/** The certificates from the peer's own to the one that an authority issued; undefined: none of them leads there. */
function pathToAuthority(
  certificates: readonly X509Certificate[],
  authorities: readonly X509Certificate[],
): readonly X509Certificate[] | undefined {
  const path: X509Certificate[] = [];
  for (const certificate of certificates) {
    const below = path.at(-1);
    if (below !== undefined && !(certificate.ca && isIssuedBy(below, certificate))) return undefined;
    path.push(certificate);
    if (authorities.some((authority) => isIssuedBy(certificate, authority))) return path;
  }
  return undefined;
}

/** By name and by signature: a name alone is anybody's. */
function isIssuedBy(certificate: X509Certificate, issuer: X509Certificate): boolean {
  try {
    return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
  } catch {
    return false;
  }
}
