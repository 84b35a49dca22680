/** Errors of devices and their enrolment that operations throw, sorted by what they are about. */
import { messageOf } from "../../../shared/error-text.js";
import { errorOf, StemmaError } from "../../../shared/errors.js";
import { quoted } from "../../../shared/missing-errors.js";

const notAllowed = errorOf("NOT_ALLOWED");
const invalidConfig = errorOf("CONFIG_INVALID");
const invalidEnrolment = errorOf("ENROLMENT_INVALID");
const unreachable = errorOf("SERVER_UNREACHABLE");
const misused = errorOf("USAGE");
const invalidName = errorOf("NAME_INVALID");

// Devices that are not there, or do not answer.
export const noSuchDevice = (fleet: string, device: string, removedAtMs: number | undefined): StemmaError =>
  new StemmaError(
    "DEVICE_UNKNOWN",
    removedAtMs === undefined
      ? `The fleet ${fleet} has no device ${quoted(device)}. \`stemma device list\` lists those that there are; \`stemma device enroll\` enrols one.`
      : `The device ${device} was removed from the fleet ${fleet} at ${new Date(removedAtMs).toISOString()}. Its models are still there: \`stemma model list --device ${device}\`.`,
    { device },
  );
/** @param what "Devices are reached" */
export const noServerRuns = (what: string): StemmaError =>
  unreachable(
    `${what} through a running server only, and none runs on this home. Start one with \`stemma server\`.`,
  );
export const deviceOffline = (device: string): StemmaError =>
  unreachable(
    `The device ${device} is not connected now. Ask again when \`stemma device list\` shows it online.`,
    { device },
  );
export const answerMalformed = (
  device: string,
  what: string,
  issue: { readonly path: readonly PropertyKey[]; readonly message: string } | undefined,
): StemmaError =>
  new StemmaError(
    "ENVELOPE_MALFORMED",
    `The device ${device} answered with something that is not ${what} (${issue?.path.join(".") ?? ""}: ${issue?.message ?? ""}). Update its agent.`,
    { device },
  );
export const otherCount = (named: readonly string[], count: number | undefined): StemmaError =>
  misused(
    `The selection means ${named.length} ${named.length === 1 ? "device" : "devices"}${count === undefined ? "" : `, not ${count}`}, and nothing was erased. Look at them with --dry-run, then repeat it with --count ${named.length}.`,
    { devices: named.slice(0, 100) },
  );

// Lines and the models on them.
export const noSuchLine = (device: string, lines: readonly string[], line: string): StemmaError =>
  new StemmaError(
    "LINE_UNKNOWN",
    `The device ${device} has no line "${line}" (it has ${lines.join(", ")}). Enrol it again with this line, or name one of those.`,
    { line },
  );
export const noLine = (): StemmaError =>
  invalidEnrolment("A device needs at least one line of models. Name it: --line pack-soh.");
export const neverRan = (device: string, line: string, model: string): StemmaError =>
  notAllowed(
    `${device} neither made nor ran ${model} on ${line}. To give it another model: stemma device assign ${device} ${line} ${model}`,
    { device, line },
  );
export const ranNoOther = (device: string, line: string): StemmaError =>
  new StemmaError(
    "MODEL_NOT_FOUND",
    `${line} of ${device} ran no other model that is known here. Name one with --to, or assign one: stemma device assign ${device} ${line} MODEL`,
    { device, line },
  );

// Enrolments that this server does not make.
export const enrolledAndConnected = (device: string): StemmaError =>
  invalidEnrolment(
    `The device ${device} is enrolled and connected now; a new enrolment would cut it off. Revoke it first, or choose another name.`,
    { device },
  );
export const givesNoCertificates = (device: string): StemmaError =>
  invalidConfig(
    `This server gives no certificates: it was told to use plain ports, certificate files, or an external broker that asks for none. Enrol ${device} with a token (\`stemma device enroll ${device} --token --line …\`), or start the server without those options; at an external broker, set broker.deviceCertificates in server.json (docs/reference/server-json.md).`,
  );
export const takesNoTokens = (device: string, note: string): StemmaError =>
  notAllowed(
    `${device} gets no token: this server gives devices certificates for keys that they make themselves. Invite it with \`stemma device enroll ${device} --line …\`, without --token. Where a device must have a token, start the server with \`--device-tokens\`, or set listen.deviceTokens in server.json.${note}`,
    { device },
  );
export const cannotJudge = (authority: string): StemmaError =>
  invalidConfig(
    `Devices connect to an external broker, where this server cannot judge certificates of ${authority}. Leave --authority out: the server's own authority then gives them certificates.`,
    { authority },
  );
export const profileUnreadable = (path: string, cause: unknown): StemmaError =>
  new StemmaError(
    "PROFILE_INVALID",
    `The profile ${path} cannot be read: ${messageOf(cause)}. It needs a list training.backends; firmware-profiles/schema.json describes it.`,
    { cause, field: "training.backends" },
  );
export const replacesOnlyNamed = (): StemmaError =>
  misused(
    "Devices of a batch may replace others only where the batch says which names they may have: --names or --name-pattern.",
  );
export const waitsForNothing = (device: string, state: string): StemmaError =>
  notAllowed(`${device} does not wait to be accepted; it is ${state}. Nothing was changed.`, { device });

// Certificates and the owner's authorities.
export const notEnrolled = (device: string, why: string): StemmaError =>
  new StemmaError("CERTIFICATE_REFUSED", `${device} is not enrolled: ${why}.`, { device });
export const showsOwned = (device: string): StemmaError =>
  notEnrolled(
    device,
    "it shows a certificate of its owner, and its invitation is for one of this server. Invite it with --authority NAME, or leave `certificate` out of agent.json",
  );
export const showsNone = (device: string, authority: string): StemmaError =>
  notEnrolled(
    device,
    `it is invited with a certificate of ${authority} and shows none. Name its files as \`certificate\` in agent.json`,
  );
export const hasTokenOnly = (device: string): StemmaError =>
  notAllowed(
    `The device ${device} has a token and no certificate. Enrol it again (\`stemma device enroll ${device} --line …\`) to give it one.`,
    { device },
  );
export const renewedByOwner = (device: string, authority: string): StemmaError =>
  notAllowed(
    `The certificate of ${device} is of its owner's authority ${authority}, which alone can renew it: put the new one where agent.json of the device says, and its agent takes it with its next connection.`,
    { device },
  );
export const renewedJustNow = (device: string, sinceMs: number, minRenewalMs: number): StemmaError =>
  new StemmaError(
    "QUOTA_EXCEEDED",
    `${device} renewed its certificate ${Math.round(sinceMs / 1000)} s ago. It may again after ${minRenewalMs / 60_000} minutes.`,
    { device },
  );
export const authorityExists = (authority: string): StemmaError =>
  invalidName(
    `The fleet has an authority ${authority} already. Choose another name, or replace it with --replace; \`stemma authority list\` shows it.`,
    { authority },
  );
export const certificateOfAnother = (authority: string, other: string): StemmaError =>
  invalidName(
    `A certificate in the file is of the authority ${other} already. Remove that one first, or replace it under its name.`,
    { authority },
  );
/** @param why ends with the next step */
export const certificateRefused = (device: string, why: string): StemmaError =>
  new StemmaError("CERTIFICATE_REFUSED", `${device} gets no certificate: ${why}`, { device });

// Labels, settings and standings.
export const noLabelNamed = (): StemmaError =>
  misused("No label is named. Name one: region=eu, or region- to remove it.");
export const noSettingNamed = (): StemmaError =>
  misused("No setting is named. Name one: log.level=debug, or log.level- to return to the device's own.");
export const standsAlready = (device: string, state: string): StemmaError =>
  notAllowed(
    `${device} is ${state} already. Nothing was changed; \`stemma device show ${device}\` shows it.`,
    { device },
  );
