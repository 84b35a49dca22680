/** `stemma device invite|sign|renew`: certificates for devices that make their own keys. */
import { resolve } from "node:path";
import { Option, type Command } from "commander";
import { appendValue, parseAssignments } from "../../../shared/cli/command-line.js";
import { StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { formatTime } from "../../../shared/cli/output.js";
import { withContext, type CommandContext } from "../context.js";

const inviteHelp = `
The file goes to the device in a way that you trust: who has it first can enrol as that device.
On the device:
  stemma agent enroll DEVICE.invitation.json

Many devices at once, from CSV with the columns device, lines (separated by spaces), profile,
or from JSON lines with the same members:
  stemma device invite --manifest cars.csv --to invitations/
Run again, it leaves out the devices that are enrolled, and those whose invitation is there.
`;
const signHelp = `
For devices that do not reach this server over HTTPS. On the device, at the server, on the device:
  stemma agent enroll car-7.invitation.json --request car-7.request.json
  stemma device sign car-7.request.json --file car-7.certificate.json
  stemma agent enroll car-7.invitation.json --response car-7.certificate.json
`;

export interface InviteChoices {
  readonly line: string[];
  readonly profile: string;
  readonly initial: string[];
  readonly allowReduced: boolean;
  readonly evenIfClaimed: boolean;
  readonly valid: string;
  readonly releases?: "required" | "accepted" | "off";
  readonly file?: string;
  readonly manifest?: string;
  readonly to?: string;
}

export function addCertificateCommands(device: Command): void {
  device
    .command("invite")
    .argument("[device]", "name: letters, digits, - and _")
    .option("--line <line>", "a line of models on this device (repeatable)", appendValue, [])
    .option("--profile <profile>", "device class (firmware-profiles/*.json)", "generic")
    .option("--initial <line=model>", "model that the line starts from (repeatable)", appendValue, [])
    .option("--valid <time>", "how long it can be used: 12h, 7d", "7d")
    .option("--file <path>", "write the invitation here (default DEVICE.invitation.json)")
    .option("--manifest <file>", "invite the devices of this file, CSV or JSON lines")
    .option("--to <folder>", "the folder for their invitations")
    .addOption(
      new Option(
        "--releases <policy>",
        "whether it installs only released versions and its own (default: required once releases are published)",
      ).choices(["required", "accepted", "off"]),
    )
    .option("--allow-reduced", "initial models may be reduced (lossy) ones", false)
    .option("--even-if-claimed", "also where the device has models whose parameters only it has", false)
    .description("invite a device that makes its own keys and gets a certificate")
    .addHelpText("after", inviteHelp)
    .action(async (name: string | undefined, choices: InviteChoices, command: Command) =>
      withContext(command, async (context) => {
        if (choices.manifest === undefined) return inviteOne(name, choices, context);
        const { inviteMany } = await import("../invite-many.js");
        return inviteMany(name, choices, context);
      }),
    );
  device
    .command("sign")
    .argument("<request>", "the file that `stemma agent enroll --request` wrote")
    .option("--file <path>", "write the certificate here (default DEVICE.certificate.json)")
    .description("answer a device's request for a certificate that was carried here as a file")
    .addHelpText("after", signHelp)
    .action(async (request: string, choices: { readonly file?: string }, command: Command) =>
      withContext(command, (context) => signCommand(request, choices.file, context)),
    );
  device
    .command("renew")
    .argument("<device>")
    .description("ask a connected device to renew its certificate now; it does so itself, in time")
    .action(async (name: string, _: unknown, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const renewed = await (await operations()).renewDevice({ fleet: options.fleet, device: name });
        output.print({
          data: renewed,
          names: [name],
          text: `${name} renewed its certificate; it is valid until ${formatTime(renewed.notAfterMs)}`,
        });
      }),
    );
}

/** Members of an invitation that the options name. @throws USAGE */
export function invited({ profile, allowReduced, evenIfClaimed, valid, initial, releases }: InviteChoices): {
  readonly profile: string;
  readonly allowReduced: boolean;
  readonly evenIfClaimed: boolean;
  readonly validMs: number;
  readonly releases?: "required" | "accepted" | "off";
  readonly initial: Readonly<Record<string, string>>;
} {
  const [, count, unit] = /^(\d{1,5})([hd])$/.exec(valid) ?? [];
  if (count === undefined)
    throw new StemmaError("USAGE", `--valid ${valid} is not a time. Write hours or days: 12h, 7d.`);
  const models = Object.entries(parseAssignments(initial)).map(
    ([line, model]) => [line, String(model)] as const,
  );
  return {
    ...{ profile, allowReduced, evenIfClaimed },
    ...(releases === undefined ? {} : { releases }),
    validMs: Number(count) * (unit === "h" ? 3_600_000 : 86_400_000),
    initial: Object.fromEntries(models),
  };
}

async function inviteOne(
  name: string | undefined,
  choices: InviteChoices,
  context: CommandContext,
): Promise<void> {
  const { output, operations, options } = context;
  if (name === undefined)
    throw new StemmaError("USAGE", "Name the device, or a file of devices with --manifest.");
  const members = invited(choices);
  const lines = [...new Set([...choices.line, ...Object.keys(members.initial)])];
  if (lines.length === 0)
    throw new StemmaError("USAGE", "A device needs at least one line of models. Name it: --line pack-soh.");
  const path = resolve(choices.file ?? `${name}.invitation.json`);
  const invitation = await (
    await operations()
  ).invite({ fleet: options.fleet, device: name, lines, ...members });
  const { warnOfAddresses } = await import("../readdress-enrolment.js");
  warnOfAddresses(invitation.mqtt, output);
  // nodeFiles creates files that only their owner may read.
  await writeDurably(nodeFiles(), path, Buffer.from(`${JSON.stringify(invitation, null, 2)}\n`));
  output.print({
    data: { device: name, lines, profile: choices.profile, file: path, expiresAtMs: invitation.expiresAtMs },
    names: [name],
    text: `${name} is invited until ${formatTime(invitation.expiresAtMs)}; bring ${path} to it and run there: stemma agent enroll ${name}.invitation.json`,
  });
}

async function signCommand(
  file: string,
  to: string | undefined,
  { output, operations }: CommandContext,
): Promise<void> {
  const files = nodeFiles();
  const { parseJson } = await import("../../../shared/trust/keys.js");
  const { parseCertificateRequest } =
    await import("../../../shared/trust/certificates/certificate-exchange.js");
  const request = parseCertificateRequest(parseJson(await files.read(resolve(file))));
  const device = request.invitation?.device ?? request.renewal?.device ?? "device";
  const path = resolve(to ?? `${device}.certificate.json`);
  const answer = await (await operations()).certify({ request });
  await writeDurably(files, path, Buffer.from(`${JSON.stringify(answer, null, 2)}\n`));
  output.print({
    data: { device, file: path },
    names: [device],
    text: `${device} has a certificate; bring ${path} to it and run there the command of its request again, with --response instead of --request`,
  });
}
