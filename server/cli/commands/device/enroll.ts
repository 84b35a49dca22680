/**
 * `stemma device enroll`: lets a device in. As a rule by an invitation, with which the device makes its own keys and
 * gets a certificate; with --token by keys and a token that the server makes.
 */
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseAssignments } from "../../../../shared/cli/command-line.js";
import { formatTime } from "../../../../shared/cli/output.js";
import { defined } from "../../../../shared/defined.js";
import { StemmaError } from "../../../../shared/errors.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import type { Files } from "../../../../shared/ports.js";
import type { CommandContext } from "../../context.js";
import { plain, repeated, type Choices } from "../../plain-command.js";
import { evenIfClaimedText } from "./devices.js";

export const authorityText =
  "it has to have a certificate of this authority of yours (stemma authority list), and gets none of the server";

/** Options of an invitation of one device or of a batch. */
export const lineOptions = {
  line: repeated("<line> a line of models on this device (repeatable)"),
  profile: { text: "<profile> device class (firmware-profiles/*.json)", default: "generic" },
  initial: repeated("<line=model> model that the line starts from (repeatable)"),
} as const;

const options = {
  ...lineOptions,
  valid: { text: "<time> how long the invitation can be used: 12h, 7d", default: "7d" },
  file: "<path> write the file here (default DEVICE.invitation.json, with --token DEVICE.enrolment.json)",
  manifest: "<file> invite the devices of this file, CSV or JSON lines",
  to: "<folder> the folder for their invitations",
  token: "keys and a token made here, as one secret file, where the server takes tokens",
  readdress:
    "<file> write this enrolment file of the device again (or to --file), with the server's present addresses; keys stay",
  releases: {
    text: "<policy> whether it installs only released versions and its own (default: required once releases are published)",
    choices: ["required", "accepted", "off"],
  },
  authority: `<name> ${authorityText}`,
  allowReduced: "initial models may be reduced (lossy) ones",
  evenIfClaimed: evenIfClaimedText,
  dryRun: "check, write nothing",
} as const;
export type EnrolChoices = Choices<unknown, unknown, typeof options>;

/** The choices that invitations of one device and of a batch have in common. */
export type InvitedChoices = Pick<
  EnrolChoices,
  "profile" | "initial" | "allowReduced" | "evenIfClaimed" | "releases" | "valid" | "authority"
>;

const enrol = plain(null, {
  name: "enroll",
  about: "invite a device, which makes its own keys and gets a certificate",
  takes: { device: "[device] name: letters, digits, - and _" },
  options,
  help: `
The invitation goes to the device in a way that you trust: who has it first can enrol as that device.
On the device:
  stemma agent enroll DEVICE.invitation.json

Many devices at once, from CSV with the columns device, lines (separated by spaces), profile,
or from JSON lines with the same members:
  stemma device enroll --manifest cars.csv --to invitations/
Run again, it leaves out the devices that are enrolled, and those whose invitation is there.

Where the device has a certificate of your own authority (stemma authority add), --authority NAME
lets it in with that one, and with no other.

--token writes an enrolment file with keys and a token instead, for servers without certificates.
`,
  run: ({ device, ...choices }, context) => enrolCommand(device, choices, context),
});

async function enrolCommand(
  name: string | undefined,
  choices: EnrolChoices,
  context: CommandContext,
): Promise<void> {
  const { manifest, readdress, file, token, dryRun, authority } = choices;
  if (authority !== undefined && (token || readdress !== undefined))
    throw new StemmaError("USAGE", "--authority is for invitations. Leave out --token and --readdress.");
  if ([manifest !== undefined, readdress !== undefined, token].filter(Boolean).length > 1)
    throw new StemmaError("USAGE", "--manifest, --readdress and --token exclude each other. Give one.");
  if (manifest !== undefined) {
    const { inviteMany } = await import("../../invite-many.js");
    return inviteMany(name, choices, context);
  }
  if (name === undefined)
    throw new StemmaError("USAGE", "Name the device, or a file of devices with --manifest.");
  if (readdress !== undefined) {
    const { readdressEnrolment } = await import("../../readdress-enrolment.js");
    return readdressEnrolment({ device: name, from: readdress, to: file, dryRun }, context);
  }
  return token ? enrolWithToken(name, choices, context) : inviteOne(name, choices, context);
}

/** Members of an enrolment that the options name. @throws USAGE */
function enrolled({
  profile,
  allowReduced,
  evenIfClaimed,
  initial,
  releases,
}: Omit<InvitedChoices, "valid" | "authority">): {
  readonly profile: string;
  readonly allowReduced: boolean;
  readonly evenIfClaimed: boolean;
  readonly releases?: "required" | "accepted" | "off";
  readonly initial: Readonly<Record<string, string>>;
} {
  const models = Object.entries(parseAssignments(initial)).map(
    ([line, model]) => [line, String(model)] as const,
  );
  return {
    profile,
    allowReduced,
    evenIfClaimed,
    ...defined({ releases }),
    initial: Object.fromEntries(models),
  };
}

/** Members of an invitation that the options name. @throws USAGE */
export function invited(
  choices: InvitedChoices,
): ReturnType<typeof enrolled> & { readonly validMs: number; readonly authority?: string } {
  const { valid, authority } = choices;
  const [, count, unit] = /^(\d{1,5})([hd])$/.exec(valid) ?? [];
  if (count === undefined)
    throw new StemmaError("USAGE", `--valid ${valid} is not a time. Write hours or days: 12h, 7d.`);
  return {
    ...enrolled(choices),
    validMs: Number(count) * (unit === "h" ? 3_600_000 : 86_400_000),
    ...defined({ authority }),
  };
}

/** @throws USAGE */
function linesOf({ line }: EnrolChoices, initial: Readonly<Record<string, string>>): readonly string[] {
  const lines = [...new Set([...line, ...Object.keys(initial)])];
  if (lines.length > 0) return lines;
  throw new StemmaError("USAGE", "A device needs at least one line of models. Name it: --line pack-soh.");
}

async function inviteOne(name: string, choices: EnrolChoices, context: CommandContext): Promise<void> {
  const { output, operations, options } = context;
  const members = invited(choices);
  const lines = [...linesOf(choices, members.initial)];
  const path = resolve(choices.file ?? `${name}.invitation.json`);
  const invitation = await (
    await operations()
  ).invite({ fleet: options.fleet, device: name, lines, ...members });
  if (choices.dryRun) {
    output.print(notDone(name, lines, members));
    return;
  }
  await noteEnrolment(choices.profile, name, invitation.mqtt, context);
  await writeSecret(path, invitation);
  output.print({
    data: { device: name, lines, profile: choices.profile, file: path, expiresAtMs: invitation.expiresAtMs },
    names: [name],
    text: `${name} is invited until ${formatTime(invitation.expiresAtMs)}; bring ${path} to it and run there: stemma agent enroll ${name}.invitation.json`,
  });
}

async function enrolWithToken(name: string, choices: EnrolChoices, context: CommandContext): Promise<void> {
  const { output, operations, options } = context;
  const { dryRun, profile } = choices;
  const members = enrolled(choices);
  const lines = [...linesOf(choices, members.initial)];
  const path = resolve(choices.file ?? `${name}.enrolment.json`);
  if (!dryRun) await refuseExistingEnrolment(nodeFiles(), path);
  const enrolment = await (
    await operations()
  ).enroll({ fleet: options.fleet, device: name, lines, ...members, dryRun });
  if (dryRun) {
    output.print(notDone(name, lines, members));
    return;
  }
  await noteEnrolment(profile, name, enrolment.mqtt ?? [], context);
  await writeSecret(path, enrolment);
  output.print({
    data: { device: name, lines, profile, file: path },
    names: [name],
    text: `${name} is enrolled with a token; its secrets are in ${path} (readable by you alone). Start it with: stemma agent run --enrolment ${path}`,
  });
}

function notDone(
  device: string,
  lines: readonly string[],
  { profile, initial }: Pick<ReturnType<typeof enrolled>, "profile" | "initial">,
): Parameters<CommandContext["output"]["print"]>[0] {
  return {
    data: { device, lines, profile, initial },
    names: [device],
    text: `would enrol ${device} with the lines ${lines.join(", ")}`,
  };
}

/** nodeFiles creates files that only their owner may read. */
function writeSecret(path: string, content: object): Promise<void> {
  return writeDurably(nodeFiles(), path, Buffer.from(`${JSON.stringify(content, null, 2)}\n`));
}

/** Profiles that come with Stemma; a device may have others. */
const profiles = new URL("../../../../firmware-profiles/", import.meta.url);

async function noteEnrolment(
  profile: string,
  device: string,
  urls: readonly string[],
  { output, operations }: CommandContext,
): Promise<void> {
  const known = (await nodeFiles().list(fileURLToPath(profiles)))
    .filter((name) => name.endsWith(".json") && name !== "schema.json")
    .map((name) => name.slice(0, -".json".length));
  if (!known.includes(profile))
    output.info(
      `stemma: note: the profile "${profile}" is not one of those here (${known.join(", ")}); ` +
        `the agent of ${device} must find one of that name or path on its device`,
    );
  const { noteAddresses } = await import("../../readdress-enrolment.js");
  await noteAddresses(urls, { output, operations });
}

/** @throws USAGE */
async function refuseExistingEnrolment(files: Files, path: string): Promise<void> {
  if ((await files.stat(path)) !== undefined)
    throw new StemmaError(
      "USAGE",
      `${path} exists already and may hold the only copy of a device's key. Name another file with --file.`,
    );
}

export const commands = [enrol];
