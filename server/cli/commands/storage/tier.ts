/** `stemma storage tier add|list|rm`, and the texts of `storage plan --tier` and `storage apply --tier`. */
import { exitStatus } from "../../../../shared/errors.js";
import { formatBytes, formatDuration } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import type { CallOutput } from "../../../interface/api/server-operations.js";
import type { CommandContext } from "../../context.js";
import { listed, pathOf, plain } from "../../plain-command.js";

const bytesOf = (bytes: number | undefined): string => (bytes === undefined ? "-" : formatBytes(bytes));

const add = plain("addTier", {
  name: "add",
  about: "make a folder a tier of this home",
  takes: {
    name: "letters, digits, - and _",
    folder: { text: "an empty folder on the machine of the server", read: pathOf },
  },
  print: ({ name, folder, freeBytes }) => ({
    names: [name],
    text: `the tier ${name} is ${folder}${freeBytes === undefined ? "" : `, ${formatBytes(freeBytes)} free`}; move old versions there with: stemma storage apply --tier ${name}`,
  }),
});

const list = plain("tiers", {
  name: "list",
  about: "the tiers of this home, and whether they can be reached",
  print: (tiers) => ({
    ...listed(tiers, {
      nameOf: (row) => row.name,
      columns: [
        { title: "TIER", value: (row) => row.name },
        { title: "STATE", value: (row) => (row.error === undefined ? "reachable" : "unreachable") },
        { title: "FILES", value: (row) => row.files ?? "-", align: "right" },
        { title: "SIZE", value: (row) => bytesOf(row.bytes), align: "right" },
        { title: "FREE", value: (row) => bytesOf(row.freeBytes), align: "right" },
        { title: "FOLDER", value: (row) => row.folder },
      ],
      text: tiers.length === 0 ? "no tiers; see: stemma storage tier --help" : "",
    }),
    notes: tiers.flatMap(({ error }) => (error === undefined ? [] : [`stemma: note: ${error.message}`])),
  }),
});

const remove = plain("removeTier", {
  name: "rm",
  about: "bring everything back from a tier, then forget it",
  takes: { tier: "<name> see: stemma storage tier list" },
  print: ({ tensors, bytes }, { tier }) => ({
    names: [tier],
    text: `removed the tier ${tier}; brought back the low-order bytes of ${counted(tensors, "tensor")} (${formatBytes(bytes)})`,
  }),
});

export const commands = [
  {
    name: "tier",
    about: "folders on other disks for the low-order bytes of old versions",
    help: `
A tier is a folder on a disk that is cheap to keep and dear to read: a network
drive, or a large slow disk. It gets the low-order bytes of old versions, which
are half of most weights and hardly compress. Their high-order bytes stay in the
home, so listing, comparing and progressive evaluation do not need the tier; a
complete recovery does. While a tier cannot be reached, only what needs it
fails, with TIER_UNREACHABLE, and nothing is lost.

  stemma storage tier add cold /mnt/archive/stemma
  stemma storage plan --tier cold            what would move, what that costs
  stemma storage apply --tier cold           move it
  stemma storage tier rm cold                bring everything back
`,
    commands: [add, list, remove],
  },
];

/** `storage plan --tier`: changes nothing. */
export async function planTierCommand(
  tier: string,
  { output, operations, options, signal }: CommandContext,
): Promise<void> {
  const plan = await (await operations()).planTier({ fleet: options.fleet, tier }, { signal });
  output.print({ data: plan, names: [tier], text: describeTierPlan(plan).join("\n") });
}

export function describeTierPlan(plan: CallOutput<"planTier">): readonly string[] {
  const { recovery } = plan;
  return [
    `fleet ${plan.fleet}: ${plan.nearVersions} versions stay at hand; ${plan.versions} others have ${plan.tensors} tensors of their own`,
    `to move   about ${formatBytes(plan.toMoveBytes)} of ${counted(plan.toMove, "tensor")}, ${plan.toRecode} of them re-encoded first`,
    `packs     ${formatBytes(plan.packBytes)} now`,
    `in tiers  ${formatBytes(plan.movedBytes)} of ${counted(plan.movedTensors, "tensor")}`,
    `tier      ${plan.tier}: ${formatBytes(plan.tierFreeBytes)} free, reads ${formatBytes(plan.tierBytesPerSecond)}/s`,
    `rebuild   ${formatBytes(recovery.meanBytes)} of an old version from the tier, ${formatBytes(recovery.largestBytes)} at most`,
    `          ${formatDuration(recovery.meanMs)} more, ${formatDuration(recovery.largestMs)} at most`,
  ];
}

/** `storage apply --tier`. */
export async function applyTierCommand(
  tier: string,
  { output, operations, options, signal }: CommandContext,
): Promise<void> {
  const applied = await (await operations()).applyTier({ fleet: options.fleet, tier }, { signal });
  const { failed, stopped } = applied;
  if (failed.length > 0) process.exitCode = exitStatus.verification;
  else if (stopped !== null) process.exitCode = exitStatus.partly;
  output.print({ data: applied, names: [tier], text: describeTierApplied(applied).join("\n") });
}

const stopReasons: Readonly<Record<NonNullable<CallOutput<"applyTier">["stopped"]>, string>> = {
  time: "the time limit was reached",
  disk: "this home's disk has too little space to re-encode more",
  interrupted: "it was interrupted",
};

export function describeTierApplied(applied: CallOutput<"applyTier">): readonly string[] {
  const { movedTensors, movedBytes, recoded, failed, stopped, packBytesBefore, packBytesAfter } = applied;
  return [
    `moved     ${formatBytes(movedBytes)} of ${counted(movedTensors, "tensor")} to the tier ${applied.tier}`,
    `recoded   ${counted(recoded, "tensor")} into byte planes`,
    `packs     ${formatBytes(packBytesBefore)} before, ${formatBytes(packBytesAfter)} now`,
    ...failed.map(({ tensor, message }) => `failed    ${tensor.slice(0, 16)}: ${message}`),
    ...(stopped === null ? [] : [`stopped   ${stopReasons[stopped]}; the same command continues`]),
  ];
}
