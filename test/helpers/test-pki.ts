/** A PKI as the owner of a fleet has one: authorities below each other, certificates of devices, revocation lists. */
import { generateKeyPairSync, randomBytes, type webcrypto } from "node:crypto";
import type { Extension } from "@peculiar/x509";
import { importPair, signingAlgorithm } from "../../shared/trust/certificates/certificate-request.js";
import { generateConnectionKey } from "../../shared/trust/certificates/connection-key.js";
import { loadX509 } from "../../shared/trust/certificates/x509-library.js";

const dayMs = 86_400_000;
const rsa = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" } as const;

export interface TestAuthority {
  readonly name: string;
  /** PEM. */
  readonly certificate: string;
  readonly keys: webcrypto.CryptoKeyPair;
  readonly algorithm: typeof signingAlgorithm | typeof rsa;
}

export interface TestCertificate {
  /** PEM, with those between it and the root where it has some. */
  readonly certificate: string;
  readonly key: string;
  readonly serial: string;
}

interface Validity {
  readonly fromMs?: number;
  readonly untilMs?: number;
}

export interface AuthorityOptions extends Validity {
  readonly pathLength?: number;
  /** 0: none. */
  readonly keyUsage?: number;
  readonly extendedKeyUsage?: readonly string[];
  readonly isAuthority?: boolean;
  readonly more?: readonly Extension[];
  readonly rsaBits?: number;
  /** Another certificate of this authority's key. */
  readonly sameKeyAs?: TestAuthority;
}

export const clientAuth = "1.3.6.1.5.5.7.3.2";
export const serverAuth = "1.3.6.1.5.5.7.3.1";

/** A positive serial number without a leading zero. */
export function newSerial(): string {
  return `5${randomBytes(8).toString("hex").slice(1)}`;
}

function keyOf(rsaBits: number | undefined): string {
  if (rsaBits === undefined) return generateConnectionKey();
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: rsaBits });
  return privateKey.export({ type: "pkcs8", format: "pem" }) as string;
}

/** @param issuer undefined: it is a root */
export async function makeAuthority(
  cn: string,
  issuer?: TestAuthority,
  options: AuthorityOptions = {},
): Promise<TestAuthority> {
  const x509 = await loadX509();
  const { rsaBits, sameKeyAs, more = [], extendedKeyUsage } = options;
  const algorithm = sameKeyAs?.algorithm ?? (rsaBits === undefined ? signingAlgorithm : rsa);
  const keys = sameKeyAs?.keys ?? (await importPair(keyOf(rsaBits), algorithm));
  const name = `O=Oem, CN=${cn}`;
  const usage = options.keyUsage ?? x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign;
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: newSerial(),
    subject: name,
    issuer: issuer?.name ?? name,
    notBefore: new Date(options.fromMs ?? Date.now() - dayMs),
    notAfter: new Date(options.untilMs ?? Date.now() + 3650 * dayMs),
    publicKey: keys.publicKey,
    signingKey: (issuer?.keys ?? keys).privateKey,
    signingAlgorithm: issuer?.algorithm ?? algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(options.isAuthority ?? true, options.pathLength, true),
      ...(usage === 0 ? [] : [new x509.KeyUsagesExtension(usage, true)]),
      ...(extendedKeyUsage === undefined ? [] : [new x509.ExtendedKeyUsageExtension([...extendedKeyUsage])]),
      ...more,
    ],
  });
  return { name, certificate: certificate.toString("pem"), keys, algorithm };
}

export interface DeviceOptions extends Validity {
  /** Whole subject, such as "CN=van-7". */
  readonly subject?: string;
  readonly uris?: readonly string[];
  readonly serial?: string;
  readonly usage?: readonly string[];
  readonly keyUsage?: number;
  readonly more?: readonly Extension[];
  /** A key that it has already. */
  readonly key?: string;
  readonly rsaBits?: number;
  /** Authorities that are shown with it: those between the issuer and the root, the issuer first. */
  readonly between?: readonly TestAuthority[];
}

export async function makeDeviceCertificate(
  issuer: TestAuthority,
  device: string,
  options: DeviceOptions = {},
): Promise<TestCertificate> {
  const x509 = await loadX509();
  const key = options.key ?? keyOf(options.rsaBits);
  const { publicKey } = await importPair(key, options.rsaBits === undefined ? signingAlgorithm : rsa);
  const serial = options.serial ?? newSerial();
  const { uris = [], between = [], more = [] } = options;
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serial,
    subject: options.subject ?? `CN=${device}`,
    issuer: issuer.name,
    notBefore: new Date(options.fromMs ?? Date.now() - dayMs),
    notAfter: new Date(options.untilMs ?? Date.now() + 365 * dayMs),
    publicKey,
    signingKey: issuer.keys.privateKey,
    signingAlgorithm: issuer.algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(options.keyUsage ?? x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([...(options.usage ?? [clientAuth])]),
      ...(uris.length === 0
        ? []
        : [new x509.SubjectAlternativeNameExtension(uris.map((value) => ({ type: "url" as const, value })))]),
      ...more,
    ],
  });
  const chain = [certificate.toString("pem"), ...between.map((each) => each.certificate)];
  return { certificate: `${chain.join("\n")}\n`, key, serial };
}

export interface ListOptions {
  readonly number?: number;
  readonly serials?: readonly string[];
  readonly fromMs?: number;
  readonly untilMs?: number;
  /** Signs in place of the issuer. */
  readonly signer?: TestAuthority;
  readonly more?: readonly Extension[];
}

/** PEM. */
export async function makeRevocationList(
  issuer: TestAuthority,
  { number = 1, serials = [], fromMs, untilMs, signer = issuer, more = [] }: ListOptions = {},
): Promise<string> {
  const x509 = await loadX509();
  const thisUpdate = new Date(fromMs ?? Date.now() - 60_000);
  const list = await x509.X509CrlGenerator.create({
    issuer: issuer.name,
    thisUpdate,
    nextUpdate: new Date(untilMs ?? Date.now() + 7 * dayMs),
    entries: serials.map((serialNumber) => ({ serialNumber, revocationDate: thisUpdate })),
    extensions: [
      // CRLNumber: an INTEGER of four bytes, the first of which is 0.
      new x509.Extension(
        "2.5.29.20",
        false,
        Buffer.from([2, 4, 0, number >> 16, (number >> 8) & 255, number & 255]),
      ),
      ...more,
    ],
    signingKey: signer.keys.privateKey,
    signingAlgorithm: signer.algorithm,
  });
  const lines = Buffer.from(list.rawData)
    .toString("base64")
    .replace(/(.{64})/g, "$1\n");
  return `-----BEGIN X509 CRL-----\n${lines}\n-----END X509 CRL-----\n`;
}
