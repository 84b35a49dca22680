/** `stemma storage tier add|list|rm`, and the texts of `storage plan --tier` and `storage apply --tier`. */
import { resolve } from "node:path";
import type { Command } from "commander";
import { exitStatus } from "../../../shared/errors.js";
import { formatBytes, formatDuration, type Column } from "../../../shared/cli/output.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import { withContext, type CommandContext } from "../context.js";

const tierHelp = `
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
`;

export function addStorageTierCommands(storage: Command): void {
  const tier = storage
    .command("tier")
    .description("folders on other disks for the low-order bytes of old versions")
    .addHelpText("after", tierHelp);
  tier
    .command("add")
    .argument("<name>", "letters, digits, - and _")
    .argument("<folder>", "an empty folder on the machine of the server")
    .description("make a folder a tier of this home")
    .action(async (name: string, folder: string, _: unknown, command: Command) =>
      withContext(command, (context) => addCommand(name, resolve(folder), context)),
    );
  tier
    .command("list")
    .description("the tiers of this home, and whether they can be reached")
    .action(async (_: unknown, command: Command) => withContext(command, listCommand));
  tier
    .command("rm")
    .argument("<name>", "see: stemma storage tier list")
    .description("bring everything back from a tier, then forget it")
    .action(async (name: string, _: unknown, command: Command) =>
      withContext(command, (context) => removeCommand(name, context)),
    );
}

type Tier = CallOutput<"tiers">[number];

async function addCommand(
  name: string,
  folder: string,
  { output, operations }: CommandContext,
): Promise<void> {
  const tier = await (await operations()).addTier({ name, folder });
  output.print({
    data: tier,
    names: [tier.name],
    text: `the tier ${tier.name} is ${tier.folder}${tier.freeBytes === undefined ? "" : `, ${formatBytes(tier.freeBytes)} free`}; move old versions there with: stemma storage apply --tier ${tier.name}`,
  });
}

const columns: readonly Column<Tier>[] = [
  { title: "TIER", value: (row) => row.name },
  { title: "STATE", value: (row) => (row.error === undefined ? "reachable" : "unreachable") },
  { title: "FILES", value: (row) => row.files ?? "-", align: "right" },
  { title: "SIZE", value: (row) => (row.bytes === undefined ? "-" : formatBytes(row.bytes)), align: "right" },
  {
    title: "FREE",
    value: (row) => (row.freeBytes === undefined ? "-" : formatBytes(row.freeBytes)),
    align: "right",
  },
  { title: "FOLDER", value: (row) => row.folder },
];

async function listCommand({ output, operations }: CommandContext): Promise<void> {
  const tiers = await (await operations()).tiers();
  for (const { error } of tiers) if (error !== undefined) output.info(`stemma: note: ${error.message}`);
  output.printRows(tiers, {
    nameOf: (row) => row.name,
    columns,
    text: tiers.length === 0 ? "no tiers; see: stemma storage tier --help" : "",
  });
}

async function removeCommand(tier: string, { output, operations, signal }: CommandContext): Promise<void> {
  const brought = await (await operations()).removeTier({ tier }, { signal });
  output.print({
    data: brought,
    names: [tier],
    text: `removed the tier ${tier}; brought back the low-order bytes of ${brought.tensors} tensors (${formatBytes(brought.bytes)})`,
  });
}

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
    `to move   about ${formatBytes(plan.toMoveBytes)} of ${plan.toMove} tensors, ${plan.toRecode} of them re-encoded first`,
    `packs     ${formatBytes(plan.packBytes)} now`,
    `in tiers  ${formatBytes(plan.movedBytes)} of ${plan.movedTensors} tensors`,
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
    `moved     ${formatBytes(movedBytes)} of ${movedTensors} tensors to the tier ${applied.tier}`,
    `recoded   ${recoded} tensors into byte planes`,
    `packs     ${formatBytes(packBytesBefore)} before, ${formatBytes(packBytesAfter)} now`,
    ...failed.map(({ tensor, message }) => `failed    ${tensor.slice(0, 16)}: ${message}`),
    ...(stopped === null ? [] : [`stopped   ${stopReasons[stopped]}; the same command continues`]),
  ];
}
