/** Describes one device as text. Pure. */
import { formatDuration, formatTime } from "../../shared/cli/output.js";
import { counted } from "../../shared/printable.js";
import type { CallOutput } from "../interface/api/server-operations.js";
import { describeKeyValues } from "./key-values.js";
import { describeBy, describeEnd, doubtfulMs } from "./version-text.js";

type Device = CallOutput<"device">;
type Settings = CallOutput<"setDevices">[number]["settings"];

function describeRefusals(refusals: Device["refusals"] = []): readonly string[] {
  return refusals.map(
    ({ code, message, address, count, atMs }) =>
      `NOT ADMITTED ${count === 1 ? "once" : `${count} times`} since the server was started, last ${formatTime(atMs)} from ${address}: ${message} [${code}]`,
  );
}

function describeClaims({ waiting, wanted, lost }: Device["claims"]): readonly string[] {
  return [
    ...(lost === 0
      ? []
      : [
          `LOST: ${counted(lost, "model")} that it reported and nobody has the parameters of (stemma replay list)`,
        ]),
    ...(waiting + wanted === 0
      ? []
      : [
          `claims: ${waiting} wait for their replay, the parameters of ${wanted} are wanted; only it has them`,
        ]),
  ];
}

function describeSeen({ online, seenAtMs }: Pick<Device, "online" | "seenAtMs">): string {
  if (online) return "it is now";
  return seenAtMs === undefined ? "never" : formatTime(seenAtMs);
}

/** The newest certificate that the device has shown. */
function describeCertificate(certificates: Device["certificates"] = []): readonly string[] {
  const newest = certificates.at(-1);
  if (newest === undefined) return [];
  const { authority, serial, notAfterMs } = newest;
  return [
    `certificate: of ${authority === undefined ? "this server" : `the authority ${authority}`}, number ${serial}, until ${formatTime(notAfterMs)}`,
  ];
}

/** The newest model that the device reported of a line. */
function describeHead({ line, name, version, sequence, state }: Device["heads"][number]): string {
  return `head of ${line}: ${name}:${version}, number ${sequence} of the line, ${state}`;
}

function describeClockError(ms: number | null): string {
  if (ms === null) return "(device clock error unknown)";
  return `± ${formatDuration(ms)}${ms > doubtfulMs ? " (doubtful: that clock is wrong)" : ""}`;
}

/** Describes what is known of a device, line by line; the first line is its heading. */
export function describeDevice(found: Device): readonly string[] {
  const active = Object.entries(found.active).map(([line, run]) => {
    const since = `${formatTime(run.deviceAtMs)} ${describeClockError(run.deviceClockErrorMs)}`;
    return `  ${line}: ${found.runs[line] ?? ""} ${run.versionId} since ${since}, server clock ${formatTime(run.serverAtMs)}`;
  });
  return [
    `device ${found.device}: ${found.state}, ${found.online ? "online" : "offline"}, profile ${found.profile}, generation ${found.generation}, session ${found.session}, ${counted(found.versions, "version")}`,
    ...(found.doubt === undefined
      ? []
      : [`DOUBTS this server since ${formatTime(found.doubt.sinceMs)}, in its words: ${found.doubt.text}`]),
    ...describeRefusals(found.refusals),
    ...describeClaims(found.claims),
    ...(found.labels === undefined ? [] : [`labels: ${describeKeyValues(found.labels, "none")}`]),
    `lines: ${found.lines.join(", ")}`,
    `connected last: ${describeSeen(found)}`,
    `enrolled: ${formatTime(found.enrolledAtMs)}${found.batch === undefined ? "" : ` with the batch ${found.batch}`}${describeBy(found.enrolledBy)}`,
    ...describeCertificate(found.certificates),
    ...(found.revoked === undefined ? [] : [`revoked: ${describeEnd(found.revoked)}`]),
    ...(found.quarantined === undefined ? [] : [`quarantined: ${describeEnd(found.quarantined)}`]),
    ...(found.settings === undefined ? [] : describeDeviceSettings(found.settings)),
    ...found.heads.map(describeHead),
    ...Object.entries(found.assigned ?? {}).map(
      ([line, { versionId, atMs, by }]) =>
        `given to ${line}: ${versionId} at ${formatTime(atMs)}${describeBy(by)}`,
    ),
    "active:",
    ...(active.length > 0 ? active : ["  nothing reported"]),
  ];
}

/** Describes the settings that were made, and those that the device reports. */
function describeDeviceSettings(settings: Settings): readonly string[] {
  const { desired, desiredAtMs, by, reported, reportedAtMs } = settings;
  return [
    `settings wanted: ${describeKeyValues(desired, "nothing set")}${desiredAtMs === undefined ? "" : ` since ${formatTime(desiredAtMs)}`}${by === undefined ? "" : ` by ${by}`}`,
    `settings reported: ${reported === null ? "not yet" : describeKeyValues(reported, "nothing set")}${reportedAtMs === undefined ? "" : ` at ${formatTime(reportedAtMs)}`}`,
  ];
}
