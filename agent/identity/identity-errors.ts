/** Errors of a device's keys and certificates and of what it asks its server for, sorted by what they are about. */
import { messageOf } from "../../shared/error-text.js";
import { errorOf, StemmaError } from "../../shared/errors.js";
import { quoted } from "../../shared/missing-errors.js";
import { urlHost } from "../../shared/url-host.js";
import { nameRule } from "../../shared/wire/topics.js";
import { isUntimely, type ChainVerdict } from "../../shared/trust/certificates/verify-chain.js";

const refused = errorOf("CERTIFICATE_REFUSED");
const notEnrolled = errorOf("ENROLMENT_INVALID");
const notAllowed = errorOf("NOT_ALLOWED");

const renewByFiles =
  "carry files: `stemma agent renew --request FILE`, `stemma device sign FILE` at the server, `stemma agent renew --response FILE`.";
const dayOf = (atMs: number): string => new Date(atMs).toISOString();

// The certificate and the key that agent.json names are not those that the device was invited or enrolled with.
/** @param authority the owner's authority that has to have issued the certificate; undefined: the server gives one */
export function certificateNotAsAgreed(
  agreement: "invitation" | "enrolment",
  device: string,
  authority: string | undefined,
): StemmaError {
  return new StemmaError(
    agreement === "invitation" ? "ENROLMENT_INVALID" : "CONFIG_INVALID",
    authority === undefined
      ? `agent.json names a certificate of ${device}, and its ${agreement} is for one that the server gives. Leave \`certificate\` out of agent.json, or invite the device with --authority NAME (\`stemma device enroll\` at the server) and run \`stemma agent enroll\`.`
      : `The ${agreement} of ${device} is for a certificate of ${authority}, and agent.json does not name its files. Name them: "certificate": {"file": …, "key": …}.`,
  );
}

/**
 * @param named the public key of the program that agent.json names
 * @param isInFile whether the enrolment file has the private part
 */
export function keyNotAsEnrolled(
  { device, devicePublicKey }: { readonly device: string; readonly devicePublicKey: string },
  named: string | undefined,
  isInFile: boolean,
): StemmaError {
  const enrolled = `${device} is enrolled with the key ${devicePublicKey.slice(0, 16)}…`;
  const nameIt = "Name the program that has it as deviceKey of agent.json";
  const why =
    named === undefined
      ? `${enrolled}, which is not in its enrolment file. ${nameIt}`
      : `deviceKey of agent.json is the key ${named.slice(0, 16)}…, and ${enrolled}${isInFile ? ", whose private part is in its enrolment file. Leave deviceKey out" : `. ${nameIt}`}`;
  return new StemmaError(
    "CONFIG_INVALID",
    `${why}; or invite it again (\`stemma device enroll ${device}\` at the server) and run \`stemma agent enroll\`.`,
  );
}

// Enrolments and renewals that cannot begin, or have begun otherwise.
export const notADeviceName = (device: string): StemmaError =>
  new StemmaError(
    "USAGE",
    `${quoted(device)} is not a valid name of a device: ${nameRule}. Give --name NAME; without it the name of this machine is taken.`,
  );

/** @param whose "This device", "The invitation of DEVICE" */
export const noHttpsAddress = (whose: string, todo: "Enrol" | "Renew"): StemmaError =>
  notAllowed(
    `${whose} knows no HTTPS address of its server. ${todo} by files: \`stemma agent ${todo === "Enrol" ? "enroll INVITATION" : "renew"} --request FILE\`.`,
  );
export const hasToken = (): StemmaError =>
  notAllowed(
    "This device has a token and no certificate. Invite it with `stemma device enroll` at its server to give it one.",
  );
export const noKeysWait = (): StemmaError =>
  notEnrolled(
    "No keys wait here for this invitation's certificate. Make the request on this device first: `stemma agent enroll INVITATION --request FILE`.",
  );
export const noRenewalWaits = (): StemmaError =>
  notEnrolled(
    "No renewal waits for an answer on this device. Make the request first: `stemma agent renew --request FILE`.",
  );
export const enrolledAlready = (device: string, path: string): StemmaError =>
  notEnrolled(
    `${device} is enrolled already: its enrolment is ${path}. Start it with \`stemma agent run\`; to enrol it again, invite it again.`,
    { path },
  );
export const enrolledAsAnother = (enrolled: string, invited: string, path: string): StemmaError =>
  notEnrolled(
    `${path} is the enrolment of ${enrolled}, and the invitation is for ${invited}. Each device has a home of its own: name another folder with --home.`,
    { path },
  );

// The server that invited this device is not where the invitation says.
/** @param http the address in the invitation */
export function inviterNotReached(device: string, http: string, cause: StemmaError): StemmaError {
  return new StemmaError(
    cause.code,
    `${cause.message} ${http} is the address in the invitation, which is still good: run the same command again when the server answers there. An invitation cannot be edited; where the address is wrong, start the server with --public-url and invite ${device} again. Without a network, carry files (--request FILE).`,
    { cause, ...cause.details },
  );
}
export const notTheInviter = (device: string, http: string, cause: StemmaError): StemmaError =>
  refused(
    `What answers at ${http} is not the server that invited ${device}: its certificate is of another authority. Nothing was sent to it. Look which server listens there, or what on the way ends TLS; if the server was set up again, invite ${device} again there.`,
    { cause, ...cause.details },
  );

// The device's own certificate ended, cannot be used, or was not given.
/** @param remedy how a certificate that is valid comes here */
const certificateEnded = (notAfterMs: number, remedy: string): StemmaError =>
  new StemmaError(
    "CERTIFICATE_ENDED",
    `The certificate of this device ended on ${dayOf(notAfterMs)}, so its server refuses it; ${remedy}`,
    { notAfterMs },
  );
export const issuedEnded = (notAfterMs: number, whyNotRenewed: string): StemmaError =>
  certificateEnded(
    notAfterMs,
    `it could not be renewed (${whyNotRenewed}). It is tried again; else ${renewByFiles}`,
  );
export const ownedEnded = (notAfterMs: number, file: string): StemmaError =>
  certificateEnded(notAfterMs, `the authority of its owner has to issue a new one: put it into ${file}.`);
export const ownedUnusable = (file: string, keyFile: string, why: string, cause?: unknown): StemmaError =>
  refused(
    `The certificate of this device in ${file} cannot be used: ${why}. Put the certificate there, then those between it and its authority, and its key into ${keyFile}, both as PEM.`,
    { cause },
  );

/** @param from "https://HOST", "The server, asked over MQTT," */
export const noCertificateFrom = (from: string, why: string, cause?: unknown): StemmaError =>
  new StemmaError("SERVER_UNREACHABLE", `${from} gave no certificate: ${why}. Try again later.`, { cause });
export const refusedOverMqtt = (device: string, cause: unknown): StemmaError =>
  refused(
    `${device} gets no certificate over MQTT: it was revoked, enrolled again or quarantined, its certificate was replaced, or it renewed a moment ago. Ask who runs the server, or enrol it again with \`stemma device enroll\`.`,
    { cause },
  );

// The server's key and certificate.
export const keyChangedWithToken = (device: string): StemmaError =>
  refused(
    `The server's key has changed, and this device has a token, so it cannot follow by itself. Write its file again at the server, and start the agent with that: \`stemma device enroll ${device} --readdress FILE\`.`,
  );
export const keyChangedUnfollowed = (cause: unknown): StemmaError =>
  refused(
    `The server's key has changed, and the new one could not be asked for (${messageOf(cause)}). It is tried again with the next connection; else ${renewByFiles}`,
    { cause },
  );
export const serverSilent = (host: string, port: number, timeoutMs: number): StemmaError =>
  new StemmaError(
    "TIMED_OUT",
    `The server at ${urlHost(host)}:${port} did not answer within ${timeoutMs / 1000} s. Wait until the network is up, or check the address and the firewalls on the way.`,
  );

const whyRefused = (found: ChainVerdict): string =>
  found.verdict === "refused"
    ? found.why
    : found.verdict === "expired"
      ? `it ended on ${dayOf(found.certificate.chainEndsMs)}`
      : `it is ${found.verdict}`;

/** The details say so where the certificate is good but for the time that this device believes. */
export function serverRefused(found: ChainVerdict, host: string, port: number): StemmaError {
  const certificate = `The certificate of the server at ${host}:${port}`;
  if (isUntimely(found))
    return refused(
      `${certificate} is not valid at the time that this device learned (${whyRefused(found)}); nothing was sent to it but the question what the fleet's owner says of the time. If the clock of the server was ahead once, or is behind now, set it right, start the server again, and let the owner state the time (\`stemma release time\`); without releases, enrol the device again (\`stemma device enroll\` at the server).`,
      { host, port, isUntimely: true },
    );
  return refused(
    `${certificate} is not trusted (${whyRefused(found)}); nothing was sent to it. It may be another server, or the address leads through something that ends TLS. If the server's key was replaced more than once while this device was away, or longer ago than both keys were good, renew by files (\`stemma agent renew --request FILE\`); if the one before was withdrawn, enrol it again (\`stemma device enroll\` at the server).`,
    { host, port },
  );
}
