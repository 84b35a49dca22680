/** The options by which a device is let in, and the members of an invitation or enrolment that they name. */
import { parseAssignments } from "../../../../shared/cli/command-line.js";
import { defined } from "../../../../shared/defined.js";
import { forceText } from "../../force-option.js";
import { repeated, type Choices } from "../../plain-command.js";
import { parseValid } from "../../quantities.js";
import { evenIfClaimedText } from "./devices.js";

export const authorityText =
  "it has to have a certificate of this authority of yours (stemma authority list), and gets none of the server";

/** Options of an invitation of one device or of a batch. */
export const lineOptions = {
  line: repeated("<line> a line of models on this device (repeatable)"),
  profile: { text: "<profile> device class (firmware-profiles/*.json)", default: "generic" },
  initial: repeated("<line=model> model that the line starts from (repeatable)"),
} as const;

export const enrolOptions = {
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
  force: forceText,
  dryRun: "check, write nothing",
} as const;
export type EnrolChoices = Choices<unknown, unknown, typeof enrolOptions>;

/** The choices that invitations of one device and of a batch have in common. */
export type InvitedChoices = Pick<
  EnrolChoices,
  "profile" | "initial" | "allowReduced" | "evenIfClaimed" | "force" | "releases" | "valid" | "authority"
>;

/** Members of an enrolment that the options name. @throws USAGE */
export function enrolled({
  profile,
  allowReduced,
  evenIfClaimed,
  force,
  initial,
  releases,
}: Omit<InvitedChoices, "valid" | "authority">): {
  readonly profile: string;
  readonly allowReduced: boolean;
  readonly evenIfClaimed: boolean;
  readonly force: boolean;
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
    force,
    ...defined({ releases }),
    initial: Object.fromEntries(models),
  };
}

/** Members of an invitation that the options name. @throws USAGE */
export function invited(
  choices: InvitedChoices,
): ReturnType<typeof enrolled> & { readonly validMs: number; readonly authority?: string } {
  const { valid, authority } = choices;
  return {
    ...enrolled(choices),
    validMs: parseValid(valid),
    ...defined({ authority }),
  };
}
