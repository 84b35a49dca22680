/** `stemma device quarantine|rm`: whether a device is served, and whether it is listed. */
import type { Command } from "commander";
import { withContext, type CommandContext } from "../context.js";

const quarantineHelp = `
A quarantined device is cut off and refused, and everything on it stays: its agent waits
and reports all it has when it is served again. The server quarantines a device by itself
where two copies of its enrolment are in use; then enrol it again rather than releasing it.

  stemma device quarantine van-7 --because "sends strange models"
  stemma device quarantine van-7 --release
`;

interface QuarantineChoices {
  readonly because?: string;
  readonly release: boolean;
}

export function addStandingCommands(device: Command): void {
  device
    .command("quarantine")
    .argument("<device>")
    .option("--because <reason>", "kept with the fact")
    .option("--release", "serve it again", false)
    .description("refuse a device for now; unlike a revocation this can be taken back")
    .addHelpText("after", quarantineHelp)
    .action(async (name: string, choices: QuarantineChoices, command: Command) =>
      withContext(command, (context) => quarantineCommand(name, choices, context)),
    );
  device
    .command("rm")
    .argument("<device>")
    .option("--because <reason>", "kept with the fact")
    .option("--dry-run", "only check that the device can be removed", false)
    .description("take a revoked device out of the lists; its models and facts stay")
    .action(async (name: string, choices: { because?: string; dryRun: boolean }, command: Command) =>
      withContext(command, (context) => removeCommand(name, choices, context)),
    );
}

async function quarantineCommand(
  device: string,
  { because, release }: QuarantineChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const shown = await (
    await operations()
  ).quarantineDevice({
    fleet: options.fleet,
    device,
    quarantined: !release,
    ...(because === undefined ? {} : { because }),
  });
  output.print({
    data: shown,
    names: [device],
    text: release
      ? `${device} is served again; its agent connects when it tries next, at the latest after 15 minutes`
      : `${device} is quarantined; serve it again with: stemma device quarantine ${device} --release`,
  });
}

async function removeCommand(
  device: string,
  { because, dryRun }: { readonly because?: string; readonly dryRun: boolean },
  { output, operations, options }: CommandContext,
): Promise<void> {
  const opened = await operations();
  await opened.removeDevice({
    fleet: options.fleet,
    device,
    dryRun,
    ...(because === undefined ? {} : { because }),
  });
  output.print({
    data: { device, removed: !dryRun },
    names: [device],
    text: `${dryRun ? "would remove" : "removed"} ${device}; its models stay: stemma model list --device ${device}`,
  });
}
