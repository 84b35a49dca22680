/** `stemma device erase`: everything that devices gave goes. */
import { exitStatus, StemmaError } from "../../../../shared/errors.js";
import { formatBytes, formatTime } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import type { CallOutput } from "../../../interface/api/server-operations.js";
import { plain } from "../../plain-command.js";
import { someDevices } from "../../some-devices.js";

type Erasure = CallOutput<"eraseDevices">;

const erase = plain("eraseDevices", {
  name: "erase",
  about: "erase revoked devices' models and data for good",
  takes: { device: "one device, by its full name" },
  options: {
    select: "<selection> all devices that a selection means (docs/selections.md)",
    count: "<devices> how many devices the selection means; needed without --dry-run",
    because: "<reason> kept with the fact; needed without --dry-run",
    dryRun: "show what would go and what would stay, change nothing",
  },
  help: `
Everything that a device gave goes from this home: tensors, data, attachments, what its
trainings left, evaluations, labels, settings. Facts and ids stay, by which the history is
proven; so do tensors that versions of others have too, and backups, which are named. It
cannot be undone. Revoke the devices first; look with --dry-run; run it again after a kill.

  stemma device revoke van-7 --because "sold"
  stemma device erase van-7 --dry-run
  stemma device erase van-7 --because "sold, the owner asked for it"

A selection (docs/selections.md) erases several, all of which must be revoked. --count says
how many it means, so that no other selection than the one you looked at is erased:

  stemma device erase --select "state=revoked and label.owner=ann" --dry-run
  stemma device erase --select "state=revoked and label.owner=ann" --count 3 --because "sold"
`,
  input: ({ device, select, because, dryRun }) => {
    if ((device === undefined) === (select === undefined))
      throw new StemmaError("USAGE", "Name one device, or several with --select SELECTION.");
    if (dryRun || because !== undefined) return {};
    throw new StemmaError(
      "USAGE",
      `What is erased does not come back. Say why with --because TEXT, which the journal keeps; \`stemma device erase ${device ?? `--select ${JSON.stringify(select)}`} --dry-run\` shows what would go.`,
    );
  },
  print: (found, { dryRun }) => ({
    names: found.devices,
    text: erasureText(found, dryRun).join("\n"),
    ...((found.left ?? 0) > 0 ? { status: exitStatus.partly } : {}),
  }),
});

/** A few lines: what goes, and what is kept where. Pure. */
function erasureText(erasure: Erasure, dryRun: boolean): readonly string[] {
  const {
    devices,
    unfinished,
    versionsInAll,
    claims,
    objects,
    bytes,
    backups,
    freedBytes,
    left = 0,
  } = erasure;
  const { sharedTensors, sharedBytes, recodedTensors, recodedBytes, descendants, leased, setAside } = erasure;
  if (devices.length === 0 && unfinished.length === 0)
    return ["the selection means no device, and no erasure is unfinished: there is nothing to erase"];
  const when = (what: boolean, text: string): readonly string[] => (what ? [text] : []);
  const who =
    devices.length === 0
      ? "no further device"
      : devices.length === 1
        ? devices[0]
        : `${counted(devices.length, "device")} (${someDevices(devices)})`;
  return [
    `${dryRun ? "would erase" : "erased"} ${who}: ${counted(versionsInAll, "version")}${claims > 0 ? `, ${counted(claims, "claim")}` : ""}; ${counted(objects, "object")} of ${formatBytes(bytes)} that nothing else needs`,
    ...when(
      unfinished.length > 0,
      `  ${dryRun ? "would go on with" : "went on with"} an erasure that was cut short: ${someDevices(unfinished)}`,
    ),
    ...when(freedBytes !== undefined, `  freed ${formatBytes(freedBytes ?? 0)} with the collection`),
    ...when(
      sharedTensors > 0,
      `  kept: ${counted(sharedTensors, "tensor")} of ${formatBytes(sharedBytes)}, which versions of others have too`,
    ),
    ...when(
      recodedTensors > 0,
      `  ${dryRun ? "would rewrite" : "rewrote"} ${counted(recodedTensors, "tensor")} of others, ${formatBytes(recodedBytes)}, coded against these`,
    ),
    ...when(descendants > 0, `  kept: ${counted(descendants, "version")} of others, trained from these`),
    ...when(
      leased > 0,
      `  in transfers that run, to go with a later collection: ${counted(leased, "object")}`,
    ),
    ...backups.map(
      ({ location, atMs }) => `  kept: the backup of ${formatTime(atMs)} in ${location}; delete it yourself`,
    ),
    ...when(
      setAside > 0,
      `  kept: ${setAside} damaged packs in packs/damaged, which may have some of it; delete them yourself`,
    ),
    ...when(left > 0, `  still stored: ${counted(left, "object")}; run it again when transfers have ended`),
    "  kept: facts and ids in the journal, and the save records with names, parents and times",
  ];
}

export const commands = [erase];
