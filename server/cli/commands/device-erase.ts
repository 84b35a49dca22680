/** `stemma device erase`: everything that a device gave goes. */
import type { Command } from "commander";
import { exitStatus, StemmaError } from "../../../shared/errors.js";
import { formatBytes, formatTime } from "../../../shared/cli/output.js";
import type { CallOutput } from "../../api/server-operations.js";
import { withContext, type CommandContext } from "../context.js";

const help = `
Everything that the device gave goes from this home: tensors, data, attachments, what its
trainings left, evaluations, labels, settings. Facts and ids stay, by which the history is
proven; so do tensors that versions of others have too, and backups, which are named. It
cannot be undone. Revoke the device first; look with --dry-run; run it again after a kill.

  stemma device revoke van-7 --because "sold"
  stemma device erase van-7 --dry-run
  stemma device erase van-7 --because "sold, the owner asked for it"
`;

interface EraseChoices {
  readonly because?: string;
  readonly dryRun: boolean;
}

type Erasure = CallOutput<"eraseDevice">;

export function addEraseCommand(device: Command): void {
  device
    .command("erase")
    .argument("<device>", "one device, by its full name")
    .option("--because <reason>", "kept with the fact; needed without --dry-run")
    .option("--dry-run", "show what would go and what would stay, change nothing", false)
    .description("erase a revoked device's models and data for good")
    .addHelpText("after", help)
    .action(async (name: string, choices: EraseChoices, command: Command) =>
      withContext(command, (context) => eraseCommand(name, choices, context)),
    );
}

async function eraseCommand(
  device: string,
  { because, dryRun }: EraseChoices,
  { output, operations, options: { fleet } }: CommandContext,
): Promise<void> {
  if (!dryRun && because === undefined)
    throw new StemmaError(
      "USAGE",
      `What is erased does not come back. Say why with --because TEXT, which the journal keeps; \`stemma device erase ${device} --dry-run\` shows what would go.`,
    );
  const opened = await operations();
  const found = await opened.eraseDevice({
    fleet,
    device,
    dryRun,
    ...(because === undefined ? {} : { because }),
  });
  output.print({ data: found, names: [device], text: erasureText(found, dryRun).join("\n") });
  if ((found.left ?? 0) > 0) process.exitCode = exitStatus.partly;
}

/** A few lines: what goes, and what is kept where. Pure. */
function erasureText(erasure: Erasure, dryRun: boolean): readonly string[] {
  const { device, versionsInAll, claims, objects, bytes, backups, freedBytes, left = 0 } = erasure;
  const { sharedTensors, sharedBytes, recodedTensors, recodedBytes, descendants, leased, setAside } = erasure;
  const when = (what: boolean, text: string): readonly string[] => (what ? [text] : []);
  return [
    `${dryRun ? "would erase" : "erased"} ${device}: ${versionsInAll} versions${claims > 0 ? `, ${claims} claims` : ""}; ${objects} objects of ${formatBytes(bytes)} that nothing else needs`,
    ...when(freedBytes !== undefined, `  freed ${formatBytes(freedBytes ?? 0)} with the collection`),
    ...when(
      sharedTensors > 0,
      `  kept: ${sharedTensors} tensors of ${formatBytes(sharedBytes)}, which versions of others have too`,
    ),
    ...when(
      recodedTensors > 0,
      `  ${recodedTensors} tensors of others ${dryRun ? "would be" : "were"} stored anew, ${formatBytes(recodedBytes)}: they were coded against its own`,
    ),
    ...when(descendants > 0, `  kept: ${descendants} versions of others that were trained from its versions`),
    ...when(leased > 0, `  ${leased} objects are in transfers that run: they go with a later collection`),
    ...backups.map(
      ({ location, atMs }) => `  kept: the backup of ${formatTime(atMs)} in ${location}; delete it yourself`,
    ),
    ...when(
      setAside > 0,
      `  kept: ${setAside} damaged packs in packs/damaged, which may have some of it; delete them yourself`,
    ),
    ...when(left > 0, `  ${left} objects are still stored; run it again when transfers have ended`),
    "  kept: facts and ids in the journal, and the save records with names, parents and times",
  ];
}
