/**
 * The server's own certificate authority. Its P-256 key follows from the server's key, so there is one secret to
 * keep, to encrypt in backups and to restore. Certificates begin at a fixed time in the past: a clock that is wrong
 * at the time of issue must not lock a device out. What ends a certificate early is its serial in the journal.
 */
import { hkdfSync, X509Certificate } from "node:crypto";
import type { KeyObject, webcrypto } from "node:crypto";
import type { Random } from "../../../shared/ports.js";
import { connectionKeyOf, generateConnectionKey } from "../../../shared/trust/certificates/connection-key.js";
import {
  curveAlgorithm,
  importPair,
  signingAlgorithm,
} from "../../../shared/trust/certificates/certificate-request.js";
import {
  authorityNamePrefix,
  certificatesBeginMs,
  subjectOf,
  type DeviceSubject,
} from "../../../shared/trust/certificates/verify-chain.js";
import { loadX509 } from "../../../shared/trust/certificates/x509-library.js";
import type { PrivateKey } from "../../../shared/trust/keys.js";

type X509Library = Awaited<ReturnType<typeof loadX509>>;

const dayMs = 86_400_000;
/** The validity of a device's certificate; it is renewed when a third of that is left. */
export const deviceCertificateMs = 365 * dayMs;
/** The validity of the server's own certificate. It is made at each start, and again long before it ends. */
export const serverCertificateMs = 90 * dayMs;

const beginning = new Date(certificatesBeginMs);
/** The end of an authority without a well-defined one (RFC 5280, 4.1.2.5): it ends with the server's key. */
const never = new Date(Date.UTC(9999, 11, 31, 23, 59, 59));

export interface IssuedCertificate {
  /** PEM. */
  readonly certificate: string;
  /** The serial number, lower-case hex. */
  readonly serial: string;
  readonly notAfterMs: number;
  /** The name of the owner's authority that issued it, and its issuer's id (issuerIdOf). */
  readonly authority?: string;
  readonly issuer?: string;
}

export interface ServerIdentity {
  /** PKCS #8, PEM. It is never written anywhere. */
  readonly key: string;
  /** PEM: the server's certificate. */
  readonly cert: string;
  readonly notAfterMs: number;
}

export interface Authority {
  /** PEM: what devices pin. */
  readonly certificate: string;
  readonly parsed: X509Certificate;
  /**
   * @param publicKey SubjectPublicKeyInfo, DER
   * @param like a certificate that is issued again, with its serial and end: its first answer was lost
   */
  issueForDevice(
    subject: DeviceSubject,
    publicKey: Uint8Array,
    when: { readonly atMs: number } | Pick<IssuedCertificate, "serial" | "notAfterMs">,
  ): Promise<IssuedCertificate>;
  /** PEM: another authority's key, certified by this one until then. What that one issues leads to this one, too. */
  issueForAuthority(other: Authority, notAfterMs: number): Promise<string>;
  /** A new key and certificate for the server's addresses. @param hosts names and IP addresses */
  issueForServer(hosts: readonly string[], atMs: number): Promise<ServerIdentity>;
}

/** The authority's key: HKDF-SHA-256 (RFC 5869) of the server key's seed. */
function authorityKey({ seed }: PrivateKey): KeyObject {
  return connectionKeyOf(
    new Uint8Array(hkdfSync("sha256", Buffer.from(seed, "hex"), "", "stemma-authority-1", 48)),
  );
}

export async function openAuthority(serverKey: PrivateKey, random: Random): Promise<Authority> {
  const issuer = await openIssuer(serverKey);
  const certificate = issuer.root.toString("pem");
  return {
    certificate,
    parsed: new X509Certificate(certificate),
    issueForDevice: async (subject, publicKey, when) => {
      const issued =
        "serial" in when
          ? when
          : { serial: newSerial(random), notAfterMs: endOf(when.atMs, deviceCertificateMs) };
      const { subtle } = (await import("node:crypto")).webcrypto;
      return {
        ...issued,
        certificate: await issue(issuer, {
          ...issued,
          subject: subjectOf(subject).replaceAll("\n", ", "),
          publicKey: await subtle.importKey("spki", publicKey, curveAlgorithm, true, ["verify"]),
          usage: "clientAuth",
        }),
      };
    },
    issueForAuthority: (other, notAfterMs) =>
      certifyAuthority(issuer, other, { serial: newSerial(random), notAfterMs }),
    issueForServer: async (hosts, atMs) => {
      const key = generateConnectionKey();
      const notAfterMs = endOf(atMs, serverCertificateMs);
      const { publicKey } = await importPair(key);
      const cert = await issue(issuer, {
        subject: "O=Stemma, CN=server",
        publicKey,
        serial: newSerial(random),
        notAfterMs,
        usage: "serverAuth",
        hosts,
      });
      return { key, cert, notAfterMs };
    },
  };
}

/** The authority's own certificate, and the key by which it issues others. */
interface Issuer {
  readonly x509: X509Library;
  readonly root: InstanceType<X509Library["X509Certificate"]>;
  readonly keys: webcrypto.CryptoKeyPair;
}

async function openIssuer(serverKey: PrivateKey): Promise<Issuer> {
  const x509 = await loadX509();
  const keys = await importPair(authorityKey(serverKey).export({ type: "pkcs8", format: "pem" }) as string);
  const name = `O=Stemma, CN=${authorityNamePrefix}${serverKey.publicKey.slice(0, 16)}`;
  const root = await x509.X509CertificateGenerator.createSelfSigned({
    // Made again at each start, always with the same key and serial.
    serialNumber: "01",
    name,
    notBefore: beginning,
    notAfter: never,
    keys,
    signingAlgorithm,
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { x509, root, keys };
}

/** The certificate of a device or of the server, PEM. */
async function issue(
  { x509, root, keys }: Issuer,
  given: {
    readonly subject: string;
    readonly publicKey: webcrypto.CryptoKey;
    readonly serial: string;
    readonly notAfterMs: number;
    readonly usage: "serverAuth" | "clientAuth";
    readonly hosts?: readonly string[];
  },
): Promise<string> {
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: given.serial,
    subject: given.subject,
    issuer: root.subject,
    notBefore: beginning,
    notAfter: new Date(given.notAfterMs),
    publicKey: given.publicKey,
    signingKey: keys.privateKey,
    signingAlgorithm,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage[given.usage]]),
      await x509.AuthorityKeyIdentifierExtension.create(keys.publicKey),
      ...(given.hosts === undefined
        ? []
        : [new x509.SubjectAlternativeNameExtension(given.hosts.map(hostName))]),
    ],
  });
  return certificate.toString("pem");
}

/** The certificate of another authority's key, PEM. */
async function certifyAuthority(
  { x509, root, keys }: Issuer,
  other: Authority,
  { serial, notAfterMs }: Pick<IssuedCertificate, "serial" | "notAfterMs">,
): Promise<string> {
  const authority = new x509.X509Certificate(other.certificate);
  const bridge = await x509.X509CertificateGenerator.create({
    serialNumber: serial,
    subject: authority.subject,
    issuer: root.subject,
    notBefore: beginning,
    notAfter: new Date(Math.floor(notAfterMs / 1000) * 1000),
    publicKey: authority.publicKey,
    signingKey: keys.privateKey,
    signingAlgorithm,
    extensions: [
      // Below it are certificates of servers and devices alone.
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
      await x509.SubjectKeyIdentifierExtension.create(authority.publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return bridge.toString("pem");
}

/** X.509 states whole seconds. */
function endOf(atMs: number, validMs: number): number {
  return Math.floor((Math.max(atMs, certificatesBeginMs) + validMs) / 1000) * 1000;
}

/** 16 random bytes, positive and without a leading zero (RFC 5280, 4.1.2.2). */
function newSerial(random: Random): string {
  const bytes = Buffer.from(random.bytes(16));
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes.toString("hex");
}

function hostName(host: string): { readonly type: "ip" | "dns"; readonly value: string } {
  return { type: /^[\d.]+$|:/.test(host) ? "ip" : "dns", value: host };
}
