/**
 * Derives what a fleet's owner has to do about its authorities at a time, and which devices may not stay
 * connected. Pure.
 */
import { X509Certificate } from "node:crypto";
import type { DeviceCertificate } from "../../../shared/journal/facts/device-facts.js";
import { dateOf, nameOf } from "./authority-file.js";
import type { TrustedAuthority } from "./trusted-authority.js";

/** The time before an authority's certificate ends in which it is mentioned. */
const soonMs = 60 * 86_400_000;

/** One sentence each; empty where there is nothing to see to. */
export function authorityWarnings(state: TrustedAuthority, nowMs: number): readonly string[] {
  const { authority, certificates, lists, onEndedList } = state;
  const ends = certificates.map((pem) => {
    const certificate = new X509Certificate(pem);
    return { subject: nameOf({ certificate }), endsMs: Date.parse(certificate.validTo) };
  });
  const ending = ends
    .filter(({ endsMs }) => endsMs - soonMs <= nowMs)
    .map(
      ({ subject, endsMs }) =>
        `the authority ${authority} ${endsMs <= nowMs ? "expired" : "expires"} on ${dateOf(endsMs)} (${subject})${endsMs <= nowMs ? "; its certificates open no connection" : ""}: give its new certificate with stemma authority add --replace`,
    );
  const ended = [...lists.values()]
    .filter(({ nextUpdateMs }) => nextUpdateMs <= nowMs)
    .map(
      ({ number, nextUpdateMs }) =>
        `a revocation list of the authority ${authority} (number ${number}) ended on ${dateOf(nextUpdateMs)}: ${onEndedList === "serve" ? "devices are served by it still, and no device enrols" : "devices of its issuer are refused"} until a newer one is given with stemma authority crl`,
    );
  return [...ending, ...ended];
}

/** The time before a device's certificate ends in which it is mentioned. */
const deviceSoonMs = 14 * 86_400_000;
const namedDevices = 3;

export interface CertifiedByOwner {
  readonly device: string;
  readonly certificates?: readonly DeviceCertificate[];
}

/**
 * One sentence about the devices whose newest certificate has ended or ends soon, the first of them by name.
 * @param devices those of the authority
 */
export function endingCertificates(
  { authority }: Pick<TrustedAuthority, "authority">,
  devices: readonly CertifiedByOwner[],
  nowMs: number,
): readonly string[] {
  const ending = devices
    .map(({ device, certificates }) => ({ device, endsMs: certificates?.at(-1)?.notAfterMs ?? Infinity }))
    .filter(({ endsMs }) => endsMs - deviceSoonMs <= nowMs)
    .sort((a, b) => a.endsMs - b.endsMs);
  if (ending.length === 0) return [];
  const first = ending.slice(0, namedDevices).map(({ device, endsMs }) => `${device} ${dateOf(endsMs)}`);
  const more = ending.length - first.length;
  return [
    `certificates of the authority ${authority} end, or have ended, for ${ending.length} of its devices (${first.join(", ")}${more > 0 ? `, and ${more} more` : ""}): have it issue new ones; stemma device show tells when each ends`,
  ];
}

/**
 * Returns why a device with an open connection may not stay connected; undefined if it may, or has no such certificate.
 */
export function whyCutOff(
  { certificates, state }: { readonly certificates?: readonly DeviceCertificate[]; readonly state: string },
  authorityOf: (name: string) => TrustedAuthority | undefined,
  nowMs: number,
): string | undefined {
  const newest = certificates?.at(-1);
  if (newest?.authority === undefined || newest.issuer === undefined || state !== "enrolled")
    return undefined;
  const authority = authorityOf(newest.authority);
  if (authority === undefined) return `its authority ${newest.authority} was removed`;
  if (newest.notAfterMs <= nowMs) return `its certificate expired on ${dateOf(newest.notAfterMs)}`;
  if (authority.revoked.get(newest.issuer)?.has(newest.serial) === true)
    return "its certificate is on a revocation list";
  const list = authority.lists.get(newest.issuer);
  return list !== undefined && list.nextUpdateMs <= nowMs && authority.onEndedList === "refuse"
    ? `the revocation list of its issuer ended on ${dateOf(list.nextUpdateMs)}`
    : undefined;
}
