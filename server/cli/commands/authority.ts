/** `stemma authority add|list|crl|rm`: certificate authorities of the fleet's owner. */
import { resolve } from "node:path";
import { Option, type Command } from "commander";
import { formatTime } from "../../../shared/cli/output.js";
import { StemmaError } from "../../../shared/errors.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import { withContext, type CommandContext } from "../context.js";
import { someDevices } from "../some-devices.js";

type Authority = CallOutput<"authorities">[number];

const help = `
A device with a certificate of such an authority uses that one for its connection, and gets none of the server. It is
let in by an invitation that names the authority:
  stemma authority add oem-devices.pem --name oem --subject uri:urn:oem:vehicle:{device}
  stemma device enroll van-7 --line soh --authority oem
  stemma authority crl oem.crl --name oem

--subject says how certificates name a device: cn:, serialNumber:, uri: or dns:, then the exact text with {device},
and {fleet} where it is there. docs/own-authority.md says what is checked.
`;

interface AddChoices {
  readonly name: string;
  readonly subject?: string;
  readonly endedCrl?: "serve" | "refuse";
  readonly replace: boolean;
  readonly dryRun: boolean;
}

export function addAuthorityCommands(authority: Command): void {
  authority.addHelpText("afterAll", help);
  authority
    .command("add")
    .argument("<file>", "PEM of the authority's certificate, without any key")
    .requiredOption("--name <name>", "name of the authority in this fleet: letters, digits, - and _")
    .option("--subject <form>", "how its certificates name a device (default cn:{device})")
    .addOption(
      new Option(
        "--ended-crl <policy>",
        "what devices get once a revocation list has ended and no newer one is there (default serve)",
      ).choices(["serve", "refuse"]),
    )
    .option(
      "--replace",
      "in place of the authority that has this name: a new certificate or other rules",
      false,
    )
    .option("--dry-run", "check, change nothing", false)
    .description("let certificates of an authority name devices of the fleet")
    .action(async (file: string, choices: AddChoices, command: Command) =>
      withContext(command, (context) => addCommand(file, choices, context)),
    );
  authority
    .command("list")
    .description("the authorities of the fleet, when they and their revocation lists end")
    .action(async (_: unknown, command: Command) => withContext(command, listCommand));
  authority
    .command("crl")
    .argument("<file>", "the revocation list, PEM or DER")
    .requiredOption("--name <name>", "the authority")
    .option("--issuer <file>", "PEM of what signed the list, where the authority did not itself")
    .option("--dry-run", "check, change nothing", false)
    .description("take a newer revocation list of an authority")
    .action(async (file: string, choices: ListChoices, command: Command) =>
      withContext(command, (context) => crlCommand(file, choices, context)),
    );
  authority
    .command("rm")
    .argument("<name>")
    .option("--because <reason>", "kept with the fact")
    .option("--dry-run", "show which devices would be cut off, change nothing", false)
    .description("trust an authority no more; its devices are cut off at once")
    .action(async (name: string, choices: RemoveChoices, command: Command) =>
      withContext(command, (context) => removeCommand(name, choices, context)),
    );
}

async function addCommand(
  file: string,
  { name, subject, endedCrl, replace, dryRun }: AddChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const certificates = Buffer.from(await nodeFiles().read(resolve(file))).toString("latin1");
  if (certificates.length > maxAuthorityFile)
    throw new StemmaError("SIZE_OVER_LIMIT", `${file} is larger than ${maxAuthorityFile} bytes.`);
  const added = await (
    await operations()
  ).addAuthority({
    ...{ fleet: options.fleet, authority: name, certificates, replace, dryRun },
    ...(subject === undefined ? {} : { nameForm: subject }),
    ...(endedCrl === undefined ? {} : { onEndedList: endedCrl }),
  });
  const ends = Math.min(...added.certificates.map(({ notAfterMs }) => notAfterMs));
  output.print({
    data: added,
    names: [name],
    text: `${dryRun ? "would trust" : "trusted"} in ${options.fleet}: ${added.certificates.map((each) => each.subject).join("; ")}, until ${formatTime(ends)}; its certificates name devices as ${added.nameForm}. Let one in with: stemma device enroll DEVICE --line LINE --authority ${name}`,
  });
}

const maxAuthorityFile = 64 * 1024;

async function listCommand({ output, operations, options }: CommandContext): Promise<void> {
  const authorities = await (await operations()).authorities({ fleet: options.fleet });
  output.printRows(authorities, {
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
  });
  for (const { warnings } of authorities)
    for (const warning of warnings) output.info(`stemma: warning: ${warning}`);
}

function listsText({ lists, onEndedList }: Authority): string {
  if (lists.length === 0) return "none";
  const all = lists.map(
    ({ number, revoked, nextUpdateMs }) =>
      `number ${number}, ${revoked} revoked, until ${formatTime(nextUpdateMs)}`,
  );
  return `${all.join("; ")} (then ${onEndedList})`;
}

interface ListChoices {
  readonly name: string;
  readonly issuer?: string;
  readonly dryRun: boolean;
}

async function crlCommand(
  file: string,
  { name, issuer, dryRun }: ListChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const files = nodeFiles();
  const list = pemOfList(await files.read(resolve(file)));
  const issuers =
    issuer === undefined ? "" : Buffer.from(await files.read(resolve(issuer))).toString("latin1");
  const taken = await (
    await operations()
  ).takeRevocationList({ fleet: options.fleet, authority: name, list: `${list}\n${issuers}`, dryRun });
  const { number, revoked, added, restored, isKnown, devices, nextUpdateMs } = taken;
  const changes = `${added} new, ${restored} not any more`;
  output.print({
    data: taken,
    names: devices,
    text: [
      isKnown
        ? `list ${number} of ${name} was taken already, nothing changed: ${revoked} certificates revoked; give the next one before ${formatTime(nextUpdateMs)}`
        : `${dryRun ? "would take" : "took"} list ${number} of ${name}: ${revoked} certificates revoked (${changes}); give the next one before ${formatTime(nextUpdateMs)}`,
      ...(devices.length === 0 ? [] : [`devices whose certificate is on it: ${someDevices(devices)}`]),
    ].join("\n"),
  });
}

/** As PEM; authorities mostly publish their lists as DER. */
function pemOfList(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes);
  if (buffer.includes("-----BEGIN")) return buffer.toString("latin1");
  const lines = buffer.toString("base64").replace(/(.{64})/g, "$1\n");
  return `-----BEGIN X509 CRL-----\n${lines}\n-----END X509 CRL-----\n`;
}

interface RemoveChoices {
  readonly because?: string;
  readonly dryRun: boolean;
}

async function removeCommand(
  name: string,
  { because, dryRun }: RemoveChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const { devices } = await (
    await operations()
  ).removeAuthority({
    ...{ fleet: options.fleet, authority: name, dryRun },
    ...(because === undefined ? {} : { because }),
  });
  const cut = devices.length === 0 ? "no device had its certificates" : `cut off: ${someDevices(devices)}`;
  output.print({
    data: { authority: name, devices },
    names: devices,
    text: `${dryRun ? "would remove" : "removed"} the authority ${name}; ${cut}`,
  });
}
