/** `stemma authority add|list|crl|rm`: certificate authorities of the fleet's owner. */
import { resolve } from "node:path";
import { formatTime } from "../../../../shared/cli/output.js";
import { StemmaError } from "../../../../shared/errors.js";
import { regularFiles } from "../../../../shared/files/regular-files.js";
import type { CallOutput } from "../../../interface/api/server-operations.js";
import { listed, plain } from "../../plain-command.js";
import { someDevices } from "../../some-devices.js";

export const help = `
A device with a certificate of such an authority uses that one for its connection, and gets none of the server. It is
let in by an invitation that names the authority:
  stemma authority add oem-devices.pem --name oem --subject uri:urn:oem:vehicle:{device}
  stemma device enroll van-7 --line soh --authority oem
  stemma authority crl oem.crl --name oem

--subject says how certificates name a device: cn:, serialNumber:, uri: or dns:, then the exact text with {device},
and {fleet} where it is there. docs/own-authority.md says what is checked.
`;

const maxAuthorityFile = 64 * 1024;

const add = plain("addAuthority", {
  name: "add",
  about: "let certificates of an authority name devices of the fleet",
  takes: { file: "<file> PEM of the authority's certificate, without any key" },
  options: {
    authority: {
      text: "name of the authority in this fleet: letters, digits, - and _",
      flags: "--name <name>",
    },
    nameForm: {
      text: "how its certificates name a device (default cn:{device})",
      flags: "--subject <form>",
    },
    onEndedList: {
      text: "what devices get once a revocation list has ended and no newer one is there (default serve)",
      flags: "--ended-crl <policy>",
    },
    replace: "in place of the authority that has this name: a new certificate or other rules",
    dryRun: "check, change nothing",
  },
  input: async ({ file }) => {
    const certificates = Buffer.from(await regularFiles().read(resolve(file))).toString("latin1");
    if (certificates.length > maxAuthorityFile)
      throw new StemmaError("SIZE_OVER_LIMIT", `${file} is larger than ${maxAuthorityFile} bytes.`);
    return { certificates };
  },
  print: ({ certificates, nameForm }, { authority, dryRun }, { fleet }) => {
    const ends = Math.min(...certificates.map(({ notAfterMs }) => notAfterMs));
    return {
      names: [authority],
      text: `${dryRun ? "would trust" : "trusted"} in ${fleet}: ${certificates.map((each) => each.subject).join("; ")}, until ${formatTime(ends)}; its certificates name devices as ${nameForm}. Let one in with: stemma device enroll DEVICE --line LINE --authority ${authority}`,
    };
  },
});

const list = plain("authorities", {
  name: "list",
  about: "the authorities of the fleet, when they and their revocation lists end",
  print: (authorities) => ({
    ...listed(authorities, {
      nameOf: (row) => row.authority,
      columns: [
        { title: "AUTHORITY", value: (row) => row.authority },
        { title: "DEVICES", value: (row) => row.devices, align: "right" },
        { title: "NAMES", value: (row) => row.nameForm },
        {
          title: "UNTIL",
          value: (row) => formatTime(Math.min(...row.certificates.map((each) => each.notAfterMs))),
        },
        { title: "REVOCATION LISTS", value: listsText },
      ],
      empty: "no authorities of your own; the server's own gives devices their certificates",
    }),
    notes: authorities.flatMap(({ warnings }) => warnings.map((warning) => `stemma: warning: ${warning}`)),
  }),
});

function listsText({ lists, onEndedList }: CallOutput<"authorities">[number]): string {
  if (lists.length === 0) return "none";
  const all = lists.map(
    ({ number, revoked, nextUpdateMs }) =>
      `number ${number}, ${revoked} revoked, until ${formatTime(nextUpdateMs)}`,
  );
  return `${all.join("; ")} (then ${onEndedList})`;
}

const crl = plain("takeRevocationList", {
  name: "crl",
  about: "take a newer revocation list of an authority",
  takes: { file: "<file> the revocation list, PEM or DER" },
  options: {
    authority: { text: "the authority", flags: "--name <name>" },
    issuer: "<file> PEM of what signed the list, where the authority did not itself",
    dryRun: "check, change nothing",
  },
  input: async ({ file, issuer }) => {
    const files = regularFiles();
    const list = pemOfList(await files.read(resolve(file)));
    const issuers =
      issuer === undefined ? "" : Buffer.from(await files.read(resolve(issuer))).toString("latin1");
    return { list: `${list}\n${issuers}` };
  },
  print: (taken, { authority, dryRun }) => {
    const { number, revoked, added, restored, isKnown, devices, nextUpdateMs } = taken;
    const next = `give the next one before ${formatTime(nextUpdateMs)}`;
    return {
      names: devices,
      text: [
        isKnown
          ? `list ${number} of ${authority} was taken already, nothing changed: ${revoked} certificates revoked; ${next}`
          : `${dryRun ? "would take" : "took"} list ${number} of ${authority}: ${revoked} certificates revoked (${added} new, ${restored} not any more); ${next}`,
        ...(devices.length === 0 ? [] : [`devices whose certificate is on it: ${someDevices(devices)}`]),
      ].join("\n"),
    };
  },
});

/** Converts a list to PEM; authorities mostly publish their lists as DER. */
function pemOfList(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes);
  if (buffer.includes("-----BEGIN")) return buffer.toString("latin1");
  const lines = buffer.toString("base64").replace(/(.{64})/g, "$1\n");
  return `-----BEGIN X509 CRL-----\n${lines}\n-----END X509 CRL-----\n`;
}

const remove = plain("removeAuthority", {
  name: "rm",
  about: "trust an authority no more; its devices are cut off at once",
  takes: { authority: "<name>" },
  options: {
    because: "<reason> kept with the fact",
    dryRun: "show which devices would be cut off, change nothing",
  },
  print: ({ devices }, { authority, dryRun }) => ({
    data: { authority, devices },
    names: devices,
    text: `${dryRun ? "would remove" : "removed"} the authority ${authority}; ${devices.length === 0 ? "no device had its certificates" : `cut off: ${someDevices(devices)}`}`,
  }),
});

export const commands = [add, list, crl, remove];
