/** Reads the file of an authority that a fleet's owner wants to be trusted, and refuses what is none. Pure. */
import { X509Certificate } from "node:crypto";
import { messageOf } from "../../../shared/error-text.js";
import { pemBlocks } from "../../../shared/trust/certificates/pem-chain.js";
import {
  isServerAuthority,
  linkOf,
  whyNotIssuer,
  type Link,
} from "../../../shared/trust/certificates/verify-chain.js";
import { notAnAuthority } from "./certificate-errors.js";

const maxAuthorityCertificates = 8;

/** @returns PEM of each certificate. @throws CERTIFICATE_REFUSED saying which is not taken and why */
export function readAuthorityFile(text: string, atMs: number): readonly string[] {
  const blocks = pemBlocks(text);
  if (blocks.some(({ label }) => label.includes("PRIVATE KEY")))
    throw notAnAuthority(
      "it contains a private key, which this server must never have. Give it the certificate alone, and consider whether the key is still a secret",
    );
  const certificates = blocks.filter(({ label }) => label === "CERTIFICATE");
  if (certificates.length === 0)
    throw notAnAuthority(
      "it contains no certificate in PEM (-----BEGIN CERTIFICATE-----). Export it in that form",
    );
  if (certificates.length > maxAuthorityCertificates)
    throw notAnAuthority(
      `it contains ${certificates.length} certificates, and at most ${maxAuthorityCertificates} are taken. Give it those of the authority alone`,
    );
  const links = certificates.map((each) => readLink(each.text));
  for (const link of links) {
    const why = whyNotAuthority(link, atMs);
    if (why !== undefined)
      throw notAnAuthority(
        `the certificate of ${nameOf(link)} is not taken: ${why}. Give the authority's own certificate`,
      );
  }
  return [...new Set(links.map(({ certificate }) => certificate.toString()))];
}

/** One line for people. */
export function nameOf({ certificate }: Pick<Link, "certificate">): string {
  return certificate.subject.replaceAll("\n", ", ");
}

function readLink(pem: string): Link {
  try {
    return linkOf(new X509Certificate(pem));
  } catch (error) {
    throw notAnAuthority(`a certificate in it cannot be read (${messageOf(error)}). Export it again`);
  }
}

function whyNotAuthority(link: Link, atMs: number): string | undefined {
  const { certificate } = link;
  if (isServerAuthority(certificate.subject))
    return "it is of a Stemma server's own authority, which names devices in another way";
  const why = whyNotIssuer(link, { below: 0, purpose: "device" });
  if (why !== undefined) return why;
  if (Date.parse(certificate.validTo) <= atMs)
    return `it expired on ${dateOf(Date.parse(certificate.validTo))}`;
  return Date.parse(certificate.validFrom) > atMs
    ? `it is valid only from ${dateOf(Date.parse(certificate.validFrom))} on`
    : undefined;
}

/** Formats a date, for example 2027-11-24 17:31:54Z. */
export function dateOf(atMs: number): string {
  return new Date(atMs)
    .toISOString()
    .replace("T", " ")
    .replace(/\.\d+Z$/, "Z");
}
