/**
 * Reads and checks revocation lists of an owner's authority (RFC 5280, 5). They are checked against what
 * signed them, and nothing is left out that would mean less than it says. Lists of changes, of other issuers'
 * certificates or of a part are refused. Pure.
 */
import { verify, X509Certificate } from "node:crypto";
import {
  algorithmOf,
  extensionIds,
  issuerIdOf,
  mayBeUsedTo,
  readExtensions,
} from "../../../shared/trust/certificates/certificate-fields.js";
import {
  derTags,
  derTimeMs,
  derValues,
  eachDerValue,
  integerHex,
  onlyDerValue,
  requireTag,
  type DerValue,
} from "../../../shared/trust/certificates/der.js";
import { bytesOfPem, certificatesOfPem, pemBlocks } from "../../../shared/trust/certificates/pem-chain.js";
import { signatureHashes, whyWeakSignature } from "../../../shared/trust/certificates/strong-enough.js";
import { linkOf, whyNotIssuingChain, type Link } from "../../../shared/trust/certificates/verify-chain.js";
import { dateOf, nameOf } from "./authority-file.js";
import { listRefused } from "./certificate-errors.js";

/** A list that its issuer signed and that is valid now. */
export interface CheckedList {
  /** issuerIdOf what signed it. */
  readonly issuer: string;
  /** Decimal. */
  readonly number: string;
  readonly thisUpdateMs: number;
  readonly nextUpdateMs: number;
  /** The revoked serial numbers, lower-case hex. */
  readonly serials: ReadonlySet<string>;
}

const maxListBytes = 8 * 1024 * 1024;
/** Serial numbers have 20 bytes at most (RFC 5280, 4.1.2.2). */
const maxSerialBytes = 20;

interface ReadList {
  readonly signed: Uint8Array;
  readonly algorithm: string;
  readonly signature: Uint8Array;
  readonly issuerName: Uint8Array;
  readonly thisUpdateMs: number;
  readonly nextUpdateMs: number;
  readonly number: string;
  readonly serials: ReadonlySet<string>;
}

/**
 * @param text PEM: one list, and the certificates between what signed it and the authority, where that did not itself
 * @param trusted PEM of the authority
 * @throws CERTIFICATE_REFUSED saying why it is not taken
 */
export function checkRevocationList(text: string, trusted: readonly string[], atMs: number): CheckedList {
  const lists = pemBlocks(text).filter(({ label }) => label === "X509 CRL");
  const [block] = lists;
  if (block === undefined || lists.length > 1)
    throw listRefused(`the file has ${lists.length} lists, and one is taken at a time`);
  const der = bytesOfPem(block);
  if (der.length > maxListBytes)
    throw listRefused(`it has ${der.length} bytes, and at most ${maxListBytes} are read`);
  const list = readList(der);
  const weak = whyWeakSignature(list.algorithm);
  if (weak !== undefined) throw listRefused(weak);
  const signer = signerOf(list, text, { trusted, atMs });
  if (list.thisUpdateMs > atMs) throw listRefused(`it is valid only from ${dateOf(list.thisUpdateMs)} on`);
  if (list.nextUpdateMs <= atMs) throw listRefused(`it ended on ${dateOf(list.nextUpdateMs)}`);
  const { number, thisUpdateMs, nextUpdateMs, serials } = list;
  return { issuer: issuerIdOf(signer.fields), number, thisUpdateMs, nextUpdateMs, serials };
}

/**
 * Finds the signer of the list: the authority, or something that it lets issue certificates. @throws
 * CERTIFICATE_REFUSED
 */
function signerOf(
  list: ReadList,
  text: string,
  { trusted, atMs }: { readonly trusted: readonly string[]; readonly atMs: number },
): Link {
  const authorities = trusted.map((pem) => new X509Certificate(pem));
  const given = certificatesOfPem(text);
  const candidates = [...authorities.map(({ raw }) => raw), ...given].map((der) =>
    linkOf(new X509Certificate(der)),
  );
  const named = candidates.filter(({ fields }) => Buffer.compare(fields.subject, list.issuerName) === 0);
  if (named.length === 0)
    throw listRefused(
      "its issuer is neither the authority nor one of the certificates that were given with it. Name the issuer's certificate with --issuer FILE",
    );
  const hash = signatureHashes.get(list.algorithm);
  const signer = named.find(({ certificate }) => {
    try {
      return verify(hash, list.signed, certificate.publicKey, list.signature);
    } catch {
      return false;
    }
  });
  if (signer === undefined)
    throw listRefused(
      "its signature is not of its issuer's key: another authority made it, or it was changed",
    );
  if (mayBeUsedTo(signer.fields, "crlSign") !== true)
    throw listRefused(`${nameOf(signer)} may not sign revocation lists (key usage)`);
  if (authorities.some(({ raw }) => raw.equals(signer.certificate.raw))) return signer;
  const above = given.filter((der) => !signer.certificate.raw.equals(der));
  const why = whyNotIssuingChain([signer.certificate.raw, ...above], {
    authorities,
    atMs,
    purpose: "device",
  });
  if (why !== undefined)
    throw listRefused(`${nameOf(signer)}, which signed it, is not of this authority: ${why}`);
  return signer;
}

/** Tag of a list's extensions (RFC 5280, 5.1). */
const extensionsTag = 0xa0;
const understood: ReadonlySet<string> = new Set([
  extensionIds.crlNumber,
  extensionIds.authorityKeyIdentifier,
]);

/** @throws CERTIFICATE_REFUSED */
function readList(der: Uint8Array): ReadList {
  const [signed, algorithm, signature] = derValues(onlyDerValue(der, derTags.sequence).content);
  const members = [...derValues(requireTag(signed, derTags.sequence).content)];
  // Version 2 is stated; a list of version 1 has no number.
  if (members[0]?.tag === derTags.integer) members.shift();
  const [, issuerName, thisUpdate, ...rest] = members;
  const [next] = rest;
  const hasEnd = next?.tag === derTags.utcTime || next?.tag === derTags.generalizedTime;
  if (thisUpdate === undefined || !hasEnd) throw listRefused("it does not say when the next one comes");
  const entries = rest.find(({ tag }) => tag === derTags.sequence);
  const bits = requireTag(signature, derTags.bitString).content;
  return {
    signed: requireTag(signed, derTags.sequence).bytes,
    algorithm: algorithmOf(algorithm),
    signature: bits.subarray(1),
    issuerName: requireTag(issuerName, derTags.sequence).bytes,
    thisUpdateMs: derTimeMs(thisUpdate),
    nextUpdateMs: derTimeMs(next),
    number: numberOf(rest.find(({ tag }) => tag === extensionsTag)),
    serials: entries === undefined ? new Set() : serialsOf(entries),
  };
}

function numberOf(value: DerValue | undefined): string {
  const extensions = value === undefined ? new Map<string, never>() : readExtensions(value.content);
  const unknown = [...extensions].find(([id, { critical }]) => critical && !understood.has(id));
  if (unknown !== undefined)
    throw listRefused(
      `its critical extension ${unknown[0]} is not known here. Complete lists of one issuer are taken; lists of changes, of a part, or of other issuers' certificates are not`,
    );
  const number = extensions.get(extensionIds.crlNumber);
  if (number === undefined)
    throw listRefused("it has no number, so an older one could not be told from a newer one");
  const content = onlyDerValue(number.value, derTags.integer).content;
  if (content.length === 0 || content.length > maxSerialBytes || ((content[0] ?? 0) & 0x80) !== 0)
    throw listRefused("its number is negative or too large");
  return BigInt(`0x${Buffer.from(content).toString("hex")}`).toString();
}

function serialsOf(entries: DerValue): ReadonlySet<string> {
  const serials = new Set<string>();
  for (const entry of eachDerValue(entries.content)) {
    const [serial, , extensions] = derValues(requireTag(entry, derTags.sequence).content);
    const { content } = requireTag(serial, derTags.integer);
    const hex = integerHex(content);
    if (content.length === 0 || hex.length > 2 * maxSerialBytes)
      throw listRefused(`a serial number has more than ${maxSerialBytes} bytes`);
    if (
      extensions !== undefined &&
      [...readExtensions(extensions.bytes).values()].some(({ critical }) => critical)
    )
      throw listRefused("an entry has a critical extension, so it may be of another issuer's certificate");
    serials.add(hex);
  }
  return serials;
}
