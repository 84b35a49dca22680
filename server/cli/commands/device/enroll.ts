/**
 * `stemma device enroll`: lets a device in. As a rule by an invitation, with which the device makes its own keys and
 * gets a certificate; with --token by keys and a token that the server makes.
 */
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { formatTime } from "../../../../shared/cli/output.js";
import { StemmaError } from "../../../../shared/errors.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import type { Files } from "../../../../shared/ports.js";
import type { CommandContext } from "../../context.js";
import { plain } from "../../plain-command.js";
import { enrolled, enrolOptions, invited, type EnrolChoices } from "./enrol-choices.js";

const enrol = plain(null, {
  name: "enroll",
  about: "invite a device, which makes its own keys and gets a certificate",
  takes: { device: "[device] name: letters, digits, - and _" },
  options: enrolOptions,
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
