/**
 * Reads what Node's X509Certificate does not tell of a certificate (RFC 5280). Those are its extensions with
 * whether they are critical, the length of the path that it allows, what its key may be used for, and its
 * names as they are written. Pure.
 */
import { derTags, derValues, objectIdOf, onlyDerValue, requireTag, type DerValue } from "./der.js";
import { StemmaError } from "../../errors.js";
import { sha256 } from "../../tensor/hash.js";

export interface Extension {
  readonly critical: boolean;
  /** DER. */
  readonly value: Uint8Array;
}

export interface CertificateFields {
  /** Names, DER. */
  readonly issuer: Uint8Array;
  readonly subject: Uint8Array;
  /** SubjectPublicKeyInfo, DER. */
  readonly publicKey: Uint8Array;
  /** Object identifier of the algorithm by which it is signed. */
  readonly signedBy: string;
  readonly extensions: ReadonlyMap<string, Extension>;
}

/** Object identifiers of extensions (RFC 5280, 4.2.1 and 5.2). */
export const extensionIds = {
  subjectKeyIdentifier: "2.5.29.14",
  keyUsage: "2.5.29.15",
  subjectAltName: "2.5.29.17",
  basicConstraints: "2.5.29.19",
  crlNumber: "2.5.29.20",
  nameConstraints: "2.5.29.30",
  certificatePolicies: "2.5.29.32",
  authorityKeyIdentifier: "2.5.29.35",
  extendedKeyUsage: "2.5.29.37",
} as const;

function unreadable(why: string): StemmaError {
  return new StemmaError(
    "CERTIFICATE_REFUSED",
    `A certificate is not of a form that is read here: ${why}. Ask its authority for another one.`,
  );
}

/** Tags of the members of a certificate that have numbers of their own (RFC 5280, 4.1). */
const numbered = { version: 0xa0, issuerId: 0x81, subjectId: 0x82, extensions: 0xa3 } as const;

/** @param der a whole certificate. @throws CERTIFICATE_REFUSED */
export function readCertificateFields(der: Uint8Array): CertificateFields {
  const [signed, algorithm] = derValues(onlyDerValue(der, derTags.sequence).content);
  const members = [...derValues(requireTag(signed, derTags.sequence).content)];
  if (members[0]?.tag === numbered.version) members.shift();
  const [, , issuer, , subject, publicKey, ...rest] = members;
  const extensions = rest.find(({ tag }) => tag === numbered.extensions);
  return {
    issuer: requireTag(issuer, derTags.sequence).bytes,
    subject: requireTag(subject, derTags.sequence).bytes,
    publicKey: requireTag(publicKey, derTags.sequence).bytes,
    signedBy: algorithmOf(algorithm),
    extensions: extensions === undefined ? new Map() : readExtensions(extensions.content),
  };
}

/** Object identifier of an AlgorithmIdentifier. @throws CERTIFICATE_REFUSED */
export function algorithmOf(value: DerValue | undefined): string {
  const [algorithm] = derValues(requireTag(value, derTags.sequence).content);
  return objectIdOf(requireTag(algorithm, derTags.objectId).content);
}

/** @param bytes SEQUENCE OF Extension, DER. @throws CERTIFICATE_REFUSED also where one is there twice */
export function readExtensions(bytes: Uint8Array): ReadonlyMap<string, Extension> {
  const found = new Map<string, Extension>();
  for (const each of derValues(onlyDerValue(bytes, derTags.sequence).content)) {
    const [id, second, third] = derValues(requireTag(each, derTags.sequence).content);
    const name = objectIdOf(requireTag(id, derTags.objectId).content);
    if (found.has(name)) throw unreadable(`the extension ${name} is there twice`);
    const isMarked = second?.tag === derTags.boolean;
    const value = requireTag(isMarked ? third : second, derTags.octetString).content;
    found.set(name, { critical: isMarked && second.content[0] !== 0, value });
  }
  return found;
}

/**
 * Returns whether it is an authority's, and how many authorities may be between it and what it leads to;
 * undefined: any.
 */
export function basicConstraintsOf({ extensions }: Pick<CertificateFields, "extensions">): {
  readonly isAuthority: boolean;
  readonly pathLength: number | undefined;
} {
  const extension = extensions.get(extensionIds.basicConstraints);
  if (extension === undefined) return { isAuthority: false, pathLength: undefined };
  const values = derValues(onlyDerValue(extension.value, derTags.sequence).content);
  const flag = values.find(({ tag }) => tag === derTags.boolean);
  const length = values.find(({ tag }) => tag === derTags.integer)?.content;
  if (length !== undefined && (length.length !== 1 || (length[0] ?? 0) > 0x7f))
    throw unreadable("the length of its path is negative or large");
  return { isAuthority: flag !== undefined && flag.content[0] !== 0, pathLength: length?.[0] };
}

/** Bits of the key usage (RFC 5280, 4.2.1.3), in the first byte. */
const usageBits = { digitalSignature: 0x80, keyCertSign: 0x04, crlSign: 0x02 } as const;

/** Returns whether its key may be used for this; undefined: the certificate does not say. */
export function mayBeUsedTo(
  { extensions }: Pick<CertificateFields, "extensions">,
  use: keyof typeof usageBits,
): boolean | undefined {
  const extension = extensions.get(extensionIds.keyUsage);
  if (extension === undefined) return undefined;
  const [, bits = 0] = onlyDerValue(extension.value, derTags.bitString).content;
  return (bits & usageBits[use]) !== 0;
}

/** Object identifiers of its extended key usages; undefined: it does not limit them. */
export function extendedUsagesOf({
  extensions,
}: Pick<CertificateFields, "extensions">): readonly string[] | undefined {
  const extension = extensions.get(extensionIds.extendedKeyUsage);
  return (
    extension &&
    derValues(onlyDerValue(extension.value, derTags.sequence).content).map((value) =>
      objectIdOf(requireTag(value, derTags.objectId).content),
    )
  );
}

/** Names an issuer whatever its certificate: the numbers of certificates count within it. Lower-case hex. */
export function issuerIdOf({ publicKey }: Pick<CertificateFields, "publicKey">): string {
  return sha256("stemma-issuer-1\0", publicKey);
}

/** Attributes of names (RFC 5280, appendix A.1) and kinds of alternative names (4.2.1.6) that can name a device. */
const attributeIds = { cn: "2.5.4.3", serialNumber: "2.5.4.5" } as const;
const alternativeTags = { dns: 0x82, uri: 0x86 } as const;
export type NameKind = keyof typeof attributeIds | keyof typeof alternativeTags;
export const nameKinds: readonly NameKind[] = ["cn", "serialNumber", "uri", "dns"];

/** All names of a kind in a certificate, as they are written. @throws CERTIFICATE_REFUSED */
export function namesOf({ subject, extensions }: CertificateFields, kind: NameKind): readonly string[] {
  if (kind === "cn" || kind === "serialNumber") return attributesOf(subject, attributeIds[kind]);
  const extension = extensions.get(extensionIds.subjectAltName);
  if (extension === undefined) return [];
  return derValues(onlyDerValue(extension.value, derTags.sequence).content)
    .filter(({ tag }) => tag === alternativeTags[kind])
    .map(({ content }) => Buffer.from(content).toString("latin1"));
}

function attributesOf(name: Uint8Array, id: string): readonly string[] {
  const texts: string[] = [];
  for (const set of derValues(onlyDerValue(name, derTags.sequence).content))
    for (const attribute of derValues(requireTag(set, derTags.set).content)) {
      const [type, value] = derValues(requireTag(attribute, derTags.sequence).content);
      if (objectIdOf(requireTag(type, derTags.objectId).content) === id) texts.push(textOf(value));
    }
  return texts;
}

function textOf(value: DerValue | undefined): string {
  const isText =
    value?.tag === derTags.utf8String ||
    value?.tag === derTags.printableString ||
    value?.tag === derTags.ia5String;
  if (!isText) throw unreadable("a name in it is of a kind of text that is not read");
  return Buffer.from(value.content).toString(value.tag === derTags.utf8String ? "utf8" : "latin1");
}
